/* SPDX-License-Identifier: MIT */
/* Traces: begun, refused, ended, forgotten, and what cannot be written. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "tap.h"
#include "core/trace.h"
#include "core/clock.h"

static char dir[] = "/tmp/weir-trace-XXXXXX";
static char path[64];
static struct weir *root;
static _Atomic bool stop;

/* A file as a string, until the next call. */
static const char *text(void)
{
	static char all[65536];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, all, sizeof(all) - 1);

	close(fd);
	all[n < 0 ? 0 : n] = '\0';
	return all;
}

static void spell(const char *s)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(s, f) < 0)
		bail("%s cannot be written", path);
	fclose(f);
}

static void span(const char *name, int64_t begun)
{
	weir__trace_span(root, WEIR__TRACK_REACTOR, 1, 2, name, begun, 77, 88);
}

static void written(void)
{
	int64_t before = weir__now();

	is_int(weir__trace_now(root), 0, "when no trace runs no time is taken");
	is_int(weir_trace_start(root, path), 0, "a trace begins");
	span("early", before);
	span("inside", weir__trace_now(root));
	is_err(weir_trace_start(root, path), -EBUSY, path,
	       "another one is refused while it runs");
	is_int(weir_trace_stop(root), 0, "it ends");
	has_str(text(), "\"name\":\"inside\"",
		"... having what happened in it");
	has_str(text(), "\"offset\":77,\"bytes\":88",
		"... and with what bytes");
	ok(!strstr(text(), "early"), "... but not what had begun before");
	is_err(weir_trace_stop(root), -EINVAL, "no trace",
	       "it cannot be ended twice");
}

static void refused(void)
{
	char other[80];

	snprintf(other, sizeof(other), "%s", path);
	spell("precious");
	is_int(weir_trace_start(root, "/dev/null"), 0, "a trace begins");
	is_int(weir_trace_start(root, other), -EBUSY, "one too many");
	is_str(text(), "precious", "... leaves its file alone");
	(void)weir_trace_stop(root);
	is_err(weir_trace_start(root, "/nowhere/trace"), -ENOENT, "/nowhere",
	       "a file that cannot be made is named");
	is_int(weir_trace_start(root, "/dev/full"), 0,
	       "a full disk shows late:");
	span("lost", weir__trace_now(root));
	is_err(weir_trace_stop(root), -ENOSPC, "/dev/full",
	       "... when the trace is written");
	is_int(weir_trace_start(root, path), 0,
	       "... and does not stand in the way of the next");
	(void)weir_trace_stop(root);
}

static void *note(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		span("busy", weir__trace_now(root));
	return NULL;
}

static void *begin(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		if (!weir_trace_start(root, "/dev/null"))
			(void)weir_trace_stop(root);
	return NULL;
}

static void crowd(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 2 ? note : begin, NULL);
	usleep(300000);
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	(void)weir_trace_stop(root);
	ok(true, "threads begin, end and fill traces beside each other");
}

static void forgotten(void)
{
	is_int(weir_trace_start(root, path), 0, "a trace that nobody ends");
	weir_close(root);
	ok(true, "... goes with its root");
}

int main(void)
{
	plan(18);
	if (!mkdtemp(dir) || weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	snprintf(path, sizeof(path), "%s/trace", dir);
	written();
	refused();
	crowd();
	forgotten();
	unlink(path);
	rmdir(dir);
	return done_testing();
}
