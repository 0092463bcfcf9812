/* SPDX-License-Identifier: MIT */
/* Traces: what is written, what is refused, files that cannot be written. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weir.h>

#include "tap.h"
#include "core/trace.h"
#include "core/clock.h"

static char dir[] = "/tmp/weir-trace-XXXXXX";
static char path[64];
static struct weir *root;
static _Atomic bool stop;

/* The file as a string, which is valid until the next call. */
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

	is_int(weir__trace_now(root), 0,
	       "weir__trace_now reads no clock while no trace runs");
	is_int(weir_trace_start(root, path), 0, "a trace begins");
	span("early", before);
	span("inside", weir__trace_now(root));
	is_err(weir_trace_start(root, path), -EBUSY, path,
	       "a second trace is refused while the first runs");
	is_int(weir_trace_stop(root), 0, "a trace ends");
	has_str(text(), "\"name\":\"inside\"",
		"a trace contains a span that began while it ran");
	has_str(text(), "\"offset\":77,\"bytes\":88",
		"a span in a trace has its offset and bytes");
	ok(!strstr(text(), "early"),
	   "a trace omits a span that began before it");
	is_err(weir_trace_stop(root), -EINVAL, "no trace",
	       "a trace cannot be ended twice");
}

static void refused(void)
{
	char other[80];

	snprintf(other, sizeof(other), "%s", path);
	spell("precious");
	is_int(weir_trace_start(root, "/dev/null"), 0, "a trace begins");
	is_int(weir_trace_start(root, other), -EBUSY,
	       "a second trace to another file is refused");
	is_str(text(), "precious", "a refused trace leaves its file alone");
	(void)weir_trace_stop(root);
}

static void failed(void)
{
	is_err(weir_trace_start(root, "/nowhere/trace"), -ENOENT, "/nowhere",
	       "a trace whose file cannot be made names it");
	is_int(weir_trace_start(root, "/dev/full"), 0,
	       "a trace to a full disk begins");
	span("unwritten", weir__trace_now(root));
	is_err(weir_trace_stop(root), -ENOSPC, "/dev/full",
	       "a trace to a full disk fails with -ENOSPC when it ends");
	is_int(weir_trace_start(root, path), 0,
	       "a trace can begin after one that failed");
	(void)weir_trace_stop(root);
}

/* The kernel would send SIGXFSZ, which ends the process. */
static void limited(void)
{
	struct rlimit was, low = { 10, 10 };
	int err;

	getrlimit(RLIMIT_FSIZE, &was);
	low.rlim_max = was.rlim_max;
	is_int(weir_trace_start(root, path), 0, "a trace begins");
	span("unwritten", weir__trace_now(root));
	setrlimit(RLIMIT_FSIZE, &low);
	err = weir_trace_stop(root);
	/* The limit is restored before the test prints, perhaps to a file. */
	setrlimit(RLIMIT_FSIZE, &was);
	is_err(err, -EFBIG, path,
	       "a trace beyond RLIMIT_FSIZE fails with -EFBIG when it ends");
}

static void *fill(void *arg)
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
		pthread_create(&thread[i], NULL, i < 2 ? fill : begin, NULL);
	usleep(300000);
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	(void)weir_trace_stop(root);
	ok(true, "threads may start, stop and fill traces concurrently");
}

static void not_stopped(void)
{
	is_int(weir_trace_start(root, path), 0,
	       "a trace starts and is never stopped");
	weir_close(root);
	ok(true, "weir_close frees a trace that was not stopped");
}

int main(void)
{
	plan(20);
	if (!mkdtemp(dir) || weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	snprintf(path, sizeof(path), "%s/trace", dir);
	written();
	refused();
	failed();
	limited();
	crowd();
	not_stopped();
	unlink(path);
	rmdir(dir);
	return done_testing();
}
