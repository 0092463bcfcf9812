/* SPDX-License-Identifier: MIT */
/* lib/http: reads of objects, from servers that are whole and that are not. */
#include "serving.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

#define MIB (1u << 20)
#define USUAL "stall-ms=1000,patience-ms=20000,backoff-ms=10"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fails(const char *url, uint64_t size, int err, const char *part,
		  const char *title)
{
	int r = serving_load(url, size, 100000);

	if (r == err && strstr(serving_why, part))
		ok(true, "%s", title);
	else
		ok(false, "%s: %d, '%s'", title, r, serving_why);
}

static void test_plain(void)
{
	struct weir_source_info info;
	unsigned char buf[100];
	const char *log;
	void *object;

	serving_log();
	is_int(serving_open(serving_url("/plain/5000000?sig=secret"), &object,
			    &info),
	       0, "an object opens");
	is_int(info.bytes, 5000000, "its size is known");
	is_str(info.identity, "etag:\"one\"", "its ETag is its identity");
	is_str(info.name, serving_url("/plain/5000000"),
	       "its name has no query");
	is_int(serving_read(object, 10, 100, 100, buf), 0,
	       "a read of its first bytes succeeds");
	ok(serving_is(buf, 10, 100), "and has the right bytes");
	log = serving_log();
	is_int(serving_count(log, "GET /plain"), 1,
	       "opening and reading a header is one request");
	ok(strstr(log, "coding=identity"), "no compression is asked for");
	is_int(serving_read(object, 4999990, 10, 10, buf), 0,
	       "the last bytes are read");
	ok(serving_is(buf, 4999990, 10), "and are right");
	log = serving_log();
	ok(strstr(log, "range=bytes=4999990-4999999") &&
		   strstr(log, "match=\"one\""),
	   "a range has If-Match with the first ETag");
	serving_source->close(object);
	/* The others wait while the first is read; nothing is sent again. */
	serving_again("connections=1,stall-ms=60000");
	is_int(serving_load(serving_url("/plain/30000001"), 30000001, MIB), 0,
	       "30 MB are read by reads of 1 MiB");
	log = serving_log();
	ok(serving_count(log, "GET /plain") < 15,
	   "neighbouring reads are joined: %u requests",
	   serving_count(log, "GET /plain"));
	serving_again(USUAL);
	is_int(serving_load(serving_url("/plain/0"), 0, 1), 0,
	       "an empty object opens");
	if (serving_open(serving_url("/plain/0"), &object, &info))
		bail("%s", serving_why);
	is_int(info.bytes, 0, "and not with the page of its 416");
	serving_source->close(object);
	if (serving_open(serving_url("/trailer/9"), &object, &info))
		bail("%s", serving_why);
	is_str(info.identity, "etag:\"one\"", "headers after a body");
	is_int(info.bytes, 9, "are not taken");
	serving_source->close(object);
	is_int(serving_load(serving_url("/plain/1"), 1, 1), 0,
	       "an object of one byte is read");
	is_int(serving_load(serving_url("/weak/400001"), 400001, 9999), 0,
	       "a weak ETag is not sent as If-Match");
	is_int(serving_load(serving_url("/bare/400001"), 400001, 9999), 0,
	       "an object without ETag and time is read");
	is_int(serving_load(serving_url("/whole/5000"), 5000, 5000), 0,
	       "a small file of a server without ranges is read");
	is_int(serving_load(serving_url("/bare-whole/5000"), 5000, 5000), 0,
	       "also if it has neither ETag nor time");
}

static void test_short(void)
{
	is_int(serving_load(serving_url("/cut/100000/400000"), 400000, 200000),
	       0, "a body that is cut goes on where it stopped");
	is_int(serving_load(serving_url("/cuts/5000/400000"), 400000, 200000),
	       0, "so does one that is cut again and again");
	serving_log();
	fails(serving_url("/cuts/0/400000"), 400000, -EIO,
	      "closes connections unanswered",
	      "a server that closes connections without a byte");
	fails(serving_url("/wrong/short/500000"), 500000, -EIO, "is cut",
	      "a body in chunks that is too short");
}

/* Objects of which the answers are cut at each byte. */
struct cutter {
	unsigned from, step, to, bad;
	bool open;
};

static void *cut_each(void *arg)
{
	struct cutter *c = arg;
	char url[128];

	for (unsigned at = c->from; at < c->to; at += c->step) {
		snprintf(url, sizeof(url), "http://127.0.0.1:%u/cut/%u/%u/%u",
			 serving_port, at, c->open ? 100 : 1100, c->from);
		if (serving_load(url, c->open ? 100 : 1100, 1100))
			c->bad++;
	}
	return NULL;
}

static void test_each_byte(bool open, const char *title)
{
	enum {
		THREADS = 24
	};
	struct cutter c[THREADS];
	pthread_t t[THREADS];
	unsigned bad = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		c[i] = (struct cutter){ i, THREADS, open ? 250 : 300, 0, open };
		pthread_create(&t[i], NULL, cut_each, &c[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		bad += c[i].bad;
	}
	is_int(bad, 0, "%s", title);
}

/* One of two loads at a time, which mostly wait. */
struct load {
	const char *path;
	uint64_t size;
	int err;
	char url[128], why[WEIR_SOURCE_WHY];
	pthread_t thread;
};

static void *load_one(void *arg)
{
	struct load *l = arg;

	l->err = serving_load(l->url, l->size, 100000);
	memcpy(l->why, serving_why, sizeof(l->why));
	return NULL;
}

static void load_both(struct load l[2])
{
	for (unsigned i = 0; i < 2; i++) {
		snprintf(l[i].url, sizeof(l[i].url), "%s",
			 serving_url("%s", l[i].path));
		pthread_create(&l[i].thread, NULL, load_one, &l[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(l[i].thread, NULL);
}

static void test_busy(void)
{
	struct load later[2] = {
		{ .path = "/later/seconds/1000", .size = 1000 },
		{ .path = "/later/date/1000", .size = 1000 },
	};
	double before = now();
	const char *log;

	serving_log();
	is_int(serving_load(serving_url("/busy/20/10000000"), 10000000, MIB), 0,
	       "a server that takes 20 requests a second is read");
	log = serving_log();
	diag("%u requests in %.1f s", serving_count(log, "GET /busy"),
	     now() - before);
	before = now();
	load_both(later);
	is_int(later[0].err, 0, "503 with Retry-After is asked again");
	ok(now() - before > 0.9, "after that time");
	is_int(later[1].err, 0, "Retry-After may be a date");
}

static void test_stalls(void)
{
	struct load late[2] = {
		{ .path = "/dead/900000", .size = 900000 },
		{ .path = "/drip/100000", .size = 100000 },
	};
	double before = now();

	is_int(serving_load(serving_url("/stall/9000000"), 9000000, 3000000), 0,
	       "a connection on which nothing comes is replaced");
	serving_again("stall-ms=300,patience-ms=1000");
	load_both(late);
	ok(late[0].err == -ETIMEDOUT && strstr(late[0].why, "does not answer"),
	   "a server that stops sending fails the read: %s", late[0].why);
	ok(now() - before < 60, "within the patience");
	ok(late[1].err == -ETIMEDOUT && strstr(late[1].why, "does not answer"),
	   "a server that sends a byte now and then: %s", late[1].why);
}

/*
 * This takes seconds, so a process with a server of its own does it meanwhile.
 * Its status: 1: the load failed; 2: no connection was replaced.
 */
static pid_t begin_slow(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid)
		return pid;
	if (!serving_start(false, "threads=1,slow-ms=1000,connections=4"))
		_exit(4);
	if (serving_load(serving_url("/slow/16000000"), 16000000, 4000000))
		status |= 1;
	if (serving_count(serving_log(), "GET /slow") <= 5)
		status |= 2;
	serving_stop();
	_exit(status);
}

static void test_slow(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		bail("the process that loads slowly does not end well");
	status = WEXITSTATUS(status);
	ok(!(status & 5), "a connection that is much slower than the others");
	ok(!(status & 6), "is replaced");
}

static struct {
	pthread_mutex_t lock;
	unsigned done;
	int err[64];
} cancelled = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void on_cancelled(struct weir_source_read *read, int err,
			 const char *why)
{
	(void)why;
	(void)read;
	pthread_mutex_lock(&cancelled.lock);
	cancelled.err[cancelled.done++] = err;
	pthread_mutex_unlock(&cancelled.lock);
}

static void test_cancel(void)
{
	enum {
		N = 64,
		BYTES = 100000
	};
	static struct weir_source_read reads[N];
	struct weir_source_info info;
	unsigned char *buf = malloc((size_t)N * BYTES);
	double before = now();
	unsigned done = 0;
	void *object;

	serving_again("connections=2,stall-ms=60000");
	if (serving_open(serving_url("/dead/20000000"), &object, &info))
		bail("%s", serving_why);
	for (unsigned i = 0; i < N; i++) {
		reads[i].size = sizeof(reads[i]);
		reads[i].off = 1000000 + (uint64_t)i * BYTES;
		reads[i].len = BYTES;
		reads[i].buf = buf + (size_t)i * BYTES;
		reads[i].done = on_cancelled;
		serving_source->read(object, &reads[i]);
	}
	for (unsigned i = 0; i < N; i++)
		serving_source->cancel(object, &reads[i]);
	while (done < N && now() - before < 30) {
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
		pthread_mutex_lock(&cancelled.lock);
		done = cancelled.done;
		pthread_mutex_unlock(&cancelled.lock);
	}
	is_int(done, N, "reads that are cancelled end, waiting or running");
	ok(now() - before < 10, "soon");
	serving_source->close(object);
	free(buf);
}

int main(void)
{
	pid_t slow = begin_slow();

	plan(0);
	if (!serving_start(false, USUAL))
		skip_all("python3 cannot run the server");
	test_plain();
	test_short();
	test_each_byte(true, "an answer that is cut at any byte while opening");
	test_each_byte(false, "an answer to a read that is cut at any byte");
	test_busy();
	serving_again("stall-ms=300,patience-ms=10000");
	test_stalls();
	test_cancel();
	test_slow(slow);
	serving_stop();
	return done_testing();
}
