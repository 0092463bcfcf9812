/* SPDX-License-Identifier: MIT */
/*
 * recv PORT PATH BYTES THREADS [tls]: the simplest client of HTTP or HTTPS, as
 * a limit for bench/remote. Each thread asks a server on 127.0.0.1 for its part
 * of an object of BYTES bytes with one request, and receives it into memory
 * that was touched before: with TLS by OpenSSL, which does not verify the
 * server here, and reads 64 KiB of the socket at a time. It prints a line of
 * JSON: seconds, CPU seconds, and how many bytes a CPU copies in a second, from
 * a buffer in its cache to such memory.
 *
 * recv settle BYTES: raw_settle(), before a load into fresh memory.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw.h"

#define MAX_THREADS 64u
#define STEP ((size_t)1 << 20)
#define HOT ((size_t)64 << 10)
#define AHEAD ((size_t)64 << 10)

struct connection {
	int fd;
	SSL *tls; /* or NULL */
};

struct part {
	SSL_CTX *context; /* NULL: no TLS */
	unsigned port;
	const char *path;
	unsigned char *to;
	uint64_t from, bytes;
	pthread_t thread;
};

static struct connection connect_to(unsigned port, SSL_CTX *context)
{
	struct connection to = { .fd = -1 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("port %u cannot be reached", port);
	to.fd = fd;
	if (!context)
		return to;
	to.tls = SSL_new(context);
	if (!to.tls || !SSL_set_fd(to.tls, fd) || SSL_connect(to.tls) != 1)
		die("port %u: TLS does not work", port);
	return to;
}

static void disconnect(struct connection *from)
{
	SSL_free(from->tls);
	close(from->fd);
}

static void ask(const struct connection *to, const struct part *part)
{
	char text[1024];
	int n = snprintf(
		text, sizeof(text),
		"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
		"Range: bytes=%" PRIu64 "-%" PRIu64 "\r\n\r\n",
		part->path, part->from, part->from + part->bytes - 1);

	if ((size_t)n >= sizeof(text))
		die("the path is too long");
	if ((to->tls ? SSL_write(to->tls, text, n)
		     : (int)send(to->fd, text, (size_t)n, MSG_NOSIGNAL)) != n)
		die("the request cannot be sent");
}

static size_t receive(const struct connection *from, void *buf, size_t bytes)
{
	ssize_t got = from->tls ? SSL_read(from->tls, buf, (int)bytes)
				: recv(from->fd, buf, bytes, 0);

	if (got <= 0)
		die("the server ends the connection too early");
	return (size_t)got;
}

/* Receive the header; the bytes after it go to @to. Returns how many. */
static size_t receive_header(const struct connection *from, unsigned char *to)
{
	char head[4096];
	size_t n = 0, rest;
	char *end;

	do {
		if (n == sizeof(head) - 1)
			die("the header is longer than %zu bytes", n);
		n += receive(from, head + n, sizeof(head) - 1 - n);
		head[n] = '\0';
		end = strstr(head, "\r\n\r\n");
	} while (!end);
	if (strncmp(head, "HTTP/1.1 206 ", 13) != 0)
		die("the server answers %.30s", head);
	rest = n - (size_t)(end + 4 - head);
	memcpy(to, end + 4, rest);
	return rest;
}

static void *run(void *arg)
{
	struct part *part = arg;
	struct connection from = connect_to(part->port, part->context);
	uint64_t done;

	ask(&from, part);
	done = receive_header(&from, part->to);
	while (done < part->bytes) {
		uint64_t left = part->bytes - done;

		done += receive(&from, part->to + done,
				left < STEP ? left : STEP);
	}
	disconnect(&from);
	return NULL;
}

static double copy_rate(unsigned char *mem, size_t bytes)
{
	unsigned char *hot = malloc(HOT);
	double begun;

	if (!hot)
		die("no memory");
	memset(hot, 1, HOT);
	bytes = bytes / HOT * HOT;
	begun = raw_cpu();
	for (size_t at = 0; at < bytes; at += HOT)
		memcpy(mem + at, hot, HOT);
	begun = raw_cpu() - begun;
	free(hot);
	return (double)bytes / begun;
}

static SSL_CTX *new_context(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());

	if (!context)
		die("OpenSSL has no memory");
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_default_read_buffer_len(context, AHEAD);
	return context;
}

int main(int argc, char **argv)
{
	struct part parts[MAX_THREADS] = { 0 };
	SSL_CTX *context = NULL;
	double seconds, cpu, copy;
	unsigned char *mem;
	uint64_t bytes;
	unsigned n;

	if (argc == 3 && !strcmp(argv[1], "settle")) {
		raw_settle(strtoull(argv[2], NULL, 10));
		return 0;
	}
	if (argc == 6 && !strcmp(argv[5], "tls")) {
		context = new_context();
		argc--;
	}
	n = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
	bytes = n ? strtoull(argv[3], NULL, 10) : 0;
	if (!n || n > MAX_THREADS || bytes < n)
		die("usage: recv PORT PATH BYTES THREADS [tls] | recv settle BYTES");
	mem = raw_memory(bytes);
	copy = copy_rate(mem, bytes);
	cpu = raw_cpu();
	seconds = raw_now();
	for (unsigned i = 0; i < n; i++) {
		parts[i].context = context;
		parts[i].port = (unsigned)strtoul(argv[1], NULL, 10);
		parts[i].path = argv[2];
		parts[i].from = bytes / n * i;
		parts[i].bytes = i + 1 < n ? bytes / n : bytes - parts[i].from;
		parts[i].to = mem + parts[i].from;
		if (pthread_create(&parts[i].thread, NULL, run, &parts[i]))
			die("no thread");
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(parts[i].thread, NULL);
	printf("{\"seconds\": %.6f, \"cpu\": %.6f, \"copy\": %.0f}\n",
	       raw_now() - seconds, raw_cpu() - cpu, copy);
	SSL_CTX_free(context);
	return 0;
}
