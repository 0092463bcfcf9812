/* SPDX-License-Identifier: MIT */
/* URLs: parsed, joined, encoded, printed. Pure functions without state. */
#ifndef HTTP_URI_H
#define HTTP_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for a sentence, with its 0. Functions that take @why fill it in. */
#define WEIR__HTTP_WHY 512
/* Room for the printable form of a URL, with its 0. */
#define WEIR__HTTP_SHOWN 256

enum weir__http_scheme {
	WEIR__HTTP_HTTP,
	WEIR__HTTP_HTTPS,
	WEIR__HTTP_S3,
	WEIR__HTTP_GS,
	WEIR__HTTP_AZ,
	WEIR__HTTP_HF,
};

/*
 * A parsed URL. For http and https path and query are as they are sent, with
 * the bytes that may not be sent percent-encoded. For the others path is the
 * key or the file's name as it is, without '/' at its start.
 */
struct weir__http_url {
	enum weir__http_scheme scheme;
	uint16_t port;      /* 0: the scheme's own */
	char host[256];     /* in lower case; a bucket or container; "" of hf */
	char *user;         /* decoded "user:password"; NULL: none */
	char *path;         /* http and https: begins with '/' */
	char *query;        /* with its '?'; "" if there is none */
	char owner[200];    /* hf: "owner/name" */
	char revision[128]; /* hf: "" if it is not given */
};

/*
 * Parse @text. -EINVAL with a sentence in @why, which has neither a query nor a
 * password. The members are freed by weir__http_url_clear, which takes a
 * cleared struct too.
 */
int weir__http_url_parse(const char *text, struct weir__http_url *u,
			 char why[static WEIR__HTTP_WHY]);
void weir__http_url_clear(struct weir__http_url *u);

/* The URL of http or https as it is sent, in memory of malloc; NULL: none. */
char *weir__http_url_text(const struct weir__http_url *u);

/*
 * Find where @location, of an answer to a request for @base, leads: a whole
 * URL, "//host/path", "/path", "?query", or a path beside that of @base. As
 * weir__http_url_parse.
 */
int weir__http_url_follow(const struct weir__http_url *base,
			  const char *location, struct weir__http_url *u,
			  char why[static WEIR__HTTP_WHY]);

/* Write the URL without user, query and fragment, cut at the end. */
void weir__http_url_show(const struct weir__http_url *u,
			 char shown[static WEIR__HTTP_SHOWN]);
/* The same of text that may be no URL. */
void weir__http_text_show(const char *text,
			  char shown[static WEIR__HTTP_SHOWN]);

/* True if scheme, host and port are the same. */
bool weir__http_url_same_host(const struct weir__http_url *a,
			      const struct weir__http_url *b);
/* The port, also if the URL does not name it. */
uint16_t weir__http_url_port(const struct weir__http_url *u);

/*
 * Percent-encode all but letters, digits, "-._~" and the bytes of @keep, into
 * memory of malloc; NULL: there is none.
 */
char *weir__http_encode(const char *text, const char *keep);
/* The reverse, of all percent signs. */
char *weir__http_decode(const char *text);

/* Clear a string that is secret, and free it. Takes NULL. */
void weir__http_wipe(char *secret);

/* Like asprintf(3): NULL means no memory. */
char *weir__http_print(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));

#endif
