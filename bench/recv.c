/* SPDX-License-Identifier: MIT */
/*
 * recv PORT PATH BYTES THREADS: the simplest client of HTTP, as a limit for
 * bench/remote. Each thread asks a server on 127.0.0.1 for its part of an
 * object of BYTES bytes with one request, and receives it into memory that was
 * touched before. It prints a line of JSON: seconds, CPU seconds, and how many
 * bytes a CPU copies in a second, from a buffer in its cache to such memory.
 *
 * recv settle BYTES: raw_settle(), before a load into fresh memory.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
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

struct part {
	unsigned port;
	const char *path;
	unsigned char *to;
	uint64_t from, bytes;
	pthread_t thread;
};

static int connect_to(unsigned port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_port = htons((uint16_t)port);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("port %u cannot be reached", port);
	return fd;
}

static size_t receive(int fd, void *buf, size_t bytes)
{
	ssize_t got = recv(fd, buf, bytes, 0);

	if (got <= 0)
		die("the server ends the connection too early");
	return (size_t)got;
}

/* Receive the header; the bytes after it go to @to. Returns how many. */
static size_t receive_header(int fd, unsigned char *to)
{
	char head[4096];
	size_t n = 0, rest;
	char *end;

	do {
		if (n == sizeof(head) - 1)
			die("the header is longer than %zu bytes", n);
		n += receive(fd, head + n, sizeof(head) - 1 - n);
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
	int fd = connect_to(part->port);
	uint64_t done;

	dprintf(fd,
		"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
		"Range: bytes=%" PRIu64 "-%" PRIu64 "\r\n\r\n",
		part->path, part->from, part->from + part->bytes - 1);
	done = receive_header(fd, part->to);
	while (done < part->bytes) {
		uint64_t left = part->bytes - done;

		done += receive(fd, part->to + done, left < STEP ? left : STEP);
	}
	close(fd);
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

int main(int argc, char **argv)
{
	struct part parts[MAX_THREADS] = { 0 };
	double seconds, cpu, copy;
	unsigned char *mem;
	uint64_t bytes;
	unsigned n;

	if (argc == 3 && !strcmp(argv[1], "settle")) {
		raw_settle(strtoull(argv[2], NULL, 10));
		return 0;
	}
	n = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
	bytes = n ? strtoull(argv[3], NULL, 10) : 0;
	if (!n || n > MAX_THREADS || bytes < n)
		die("usage: recv PORT PATH BYTES THREADS | recv settle BYTES");
	mem = raw_memory(bytes);
	copy = copy_rate(mem, bytes);
	cpu = raw_cpu();
	seconds = raw_now();
	for (unsigned i = 0; i < n; i++) {
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
	return 0;
}
