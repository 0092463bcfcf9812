/* SPDX-License-Identifier: MIT */
/*
 * For tests of lib/http: the server of server.py, and the module's source, both
 * of which the test starts and ends. The variables of proxies and of AWS and
 * others are removed from the environment first.
 */
#ifndef SERVING_H
#define SERVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/source.h>

/* Start both. @tls: with a certificate of openssl; false: it cannot be made. */
bool serving_start(bool tls, const char *params);
/* The source of a new root, with other parameters. */
void serving_again(const char *params);
void serving_stop(void);

extern unsigned serving_port, serving_tls_port;
extern const struct weir_source *serving_source;
extern void *serving_self;
/* Of the thread's last failure. */
extern _Thread_local char serving_why[WEIR_SOURCE_WHY];
/* The folder of the test, and the file of the certificate in it. */
extern char serving_dir[256], serving_cert[300];

/* "http://127.0.0.1:PORT" and @path, in memory that the next call reuses. */
const char *serving_url(const char *path, ...)
	__attribute__((format(printf, 1, 2)));
/* The same for the port of TLS, and the name localhost. */
const char *serving_tls(const char *path);

/* What the server was asked since the last call; valid until the next one. */
const char *serving_log(void);
/* How often @part is in the log @text. */
unsigned serving_count(const char *text, const char *part);

int serving_open(const char *url, void **ret_object,
		 struct weir_source_info *info);
/* Read [off, off + len) by reads of @step bytes that are started at once. */
int serving_read(void *object, uint64_t off, uint64_t len, uint64_t step,
		 unsigned char *buf);
/*
 * Start a read of [off, off + len), cancel it when the server has had a request
 * with @when in its line, and wait up to 10 s for its end: 0 if it ended.
 */
int serving_drop(void *object, uint64_t off, uint64_t len, const char *when,
		 unsigned char *buf);
/* True if @buf has the bytes from @off on. */
bool serving_is(const unsigned char *buf, uint64_t off, uint64_t len);
/* Open, read all by @step bytes, check, close: 0, or an errno. */
int serving_load(const char *url, uint64_t size, uint64_t step);
/* A test: to load fails with @err, and serving_why has @part. */
void serving_fails(const char *url, int err, const char *part,
		   const char *title);
/*
 * List a folder: 0, or an errno. serving_listed has "NAME:BYTES " for each.
 */
int serving_list(const char *url);
extern char serving_listed[4096];
/* Add one to it, as a weir_source_found_fn. */
int serving_found(void *arg, const char *name, uint64_t bytes);
/* Write a file into the test's folder. Returns its path, for a while. */
const char *serving_file(const char *name, const char *text);

#endif
