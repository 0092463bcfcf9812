/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/resource.h>

#include "core/sys.h"
#include "streams.h"

static struct weir *weir;
static bool no_threads;
static int minus_5 = -5;

/* Operation 2 of 3 of a stream has failed; events were recorded around it. */
struct failed {
	struct weir_stream *s;
	struct weir_event *before, *at, *after;
	int calls; /* calls of operation 3 */
};

static struct failed failed_stream(void)
{
	struct failed f = { new_stream(weir, "copy"), new_event(weir, 0),
			    new_event(weir, 0), new_event(weir, 0), 0 };
	struct hold hold;

	hold_stream(f.s, &hold);
	must(weir_stream_record(f.s, f.before));
	must(weir_stream_call(f.s, fail_with, &minus_5));
	must(weir_stream_record(f.s, f.at));
	must(weir_stream_call(f.s, count_up, &f.calls));
	must(weir_stream_record(f.s, f.after));
	release_stream(&hold);
	(void)weir_stream_sync(f.s, -1);
	return f;
}

static void failed_free(struct failed *f)
{
	weir_stream_free(f->s);
	weir_event_free(f->before);
	weir_event_free(f->at);
	weir_event_free(f->after);
}

static void failure(void)
{
	struct weir_stream *fresh = new_stream(weir, "fresh");
	struct failed failed = failed_stream();
	struct weir_failure f;

	is_int(weir_stream_error(fresh, &f), 0, "a new stream has no error");
	is_err(weir_stream_sync(failed.s, -1), -5,
	       "stream 'copy': operation 2 (call): the host function returned -5",
	       "a host function's negative result fails the stream");
	is_int(failed.calls, 0, "after a failure no later operation runs");
	is_int(weir_stream_error(failed.s, &f), -5,
	       "weir_stream_error returns the failure");
	ok(f.err == -5 && f.number == 2 && strstr(f.text, "operation 2"),
	   "the failure of a stream has the number of the failed operation");
	weir_stream_free(fresh);
	failed_free(&failed);
}

static void events_around(void)
{
	struct failed f = failed_stream();
	struct weir_failure why;

	is_int(weir_event_query(f.before), 1,
	       "an event recorded before the failed operation is done");
	is_err(weir_event_query(f.at), -5, "operation 2",
	       "an event recorded after the failed operation has the cause");
	is_err(weir_event_query(f.after), -ECANCELED,
	       "not done after a failure: stream 'copy'",
	       "an event recorded after a later operation has -ECANCELED and names the cause");
	is_int(weir_event_error(f.after, &why), -ECANCELED,
	       "weir_event_error returns the failure of an event");
	ok(why.number == 2 && strstr(why.text, "returned -5"),
	   "the failure of a cancelled event is the stream's");
	failed_free(&f);
}

static void takes_nothing(void)
{
	struct weir_event *late = new_event(weir, 0);
	struct failed f = failed_stream();

	is_err(weir_stream_call(f.s, count_up, &f.calls), -ECANCELED,
	       "operation 2", "a failed stream takes no work");
	is_err(weir_stream_wait(f.s, f.before), -ECANCELED, "operation 2",
	       "a failed stream takes no waits");
	is_err(weir_stream_record(f.s, late), -5, "operation 2",
	       "recording in a failed stream returns its error");
	is_int(weir_event_query(late), -ECANCELED,
	       "an event recorded in a failed stream has -ECANCELED");
	weir_event_free(late);
	failed_free(&f);
}

static void works_after_reset(void)
{
	struct failed f = failed_stream();
	struct weir_failure why;

	is_int(weir_stream_reset(f.s), 0, "a failed stream can be reset");
	is_int(weir_stream_error(f.s, &why), 0,
	       "a stream that was reset has no error");
	must(weir_stream_call(f.s, count_up, &f.calls));
	must(weir_stream_sync(f.s, -1));
	is_int(f.calls, 1, "work queued after a reset runs");
	is_int(weir_stream_reset(f.s), 0,
	       "resetting a stream that has not failed succeeds");
	failed_free(&f);
}

/* What an event says does not change. */
static void events_after_reset(void)
{
	struct weir_event *between = new_event(weir, 0);
	struct failed f = failed_stream();

	must(weir_stream_reset(f.s));
	is_int(weir_event_query(f.at), -5,
	       "an event that failed before a reset has its cause after it");
	is_int(weir_event_query(f.after), -ECANCELED,
	       "an event cancelled before a reset has -ECANCELED after it");
	is_int(weir_event_query(f.before), 1,
	       "an event done before a reset is done after it");
	must(weir_stream_record(f.s, between));
	is_int(weir_event_query(between), 1,
	       "an event recorded directly after a reset is done");
	must(weir_stream_call(f.s, fail_with, &minus_5));
	weir_stream_sync(f.s, -1);
	is_int(weir_event_query(between), 1,
	       "an event between two failures stays done");
	must(weir_stream_reset(f.s));
	is_int(weir_event_query(f.at), -5,
	       "an event of the first failure keeps its cause after a second reset");
	weir_event_free(between);
	failed_free(&f);
}

static void reset_while_open(void)
{
	struct weir_stream *s = new_stream(weir, "busy");
	struct hold hold;

	hold_stream(s, &hold);
	is_err(weir_stream_reset(s), -EBUSY, "operations 1 to 1",
	       "resetting a stream with open work returns -EBUSY");
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	weir_stream_free(s);
}

static void lost_device(void)
{
	struct weir_stream *s = new_stream(weir, "lost");
	int enodev = -ENODEV;

	must(weir_stream_call(s, fail_with, &enodev));
	weir_stream_sync(s, -1);
	is_err(weir_stream_reset(s), -ENODEV, "returned -19",
	       "resetting a stream of a lost device returns -ENODEV");
	weir_stream_free(s);
}

/* -ETIMEDOUT from a call that waits means "not yet". */
static void timed_out(void)
{
	struct weir_stream *s = new_stream(weir, "late");
	struct weir_event *ev = new_event(weir, 0);
	struct weir_failure f;
	struct hold hold;

	hold_stream(s, &hold);
	hold.result = -ETIMEDOUT;
	must(weir_stream_record(s, ev));
	is_int(weir_event_wait(ev, 0), -ETIMEDOUT,
	       "a wait for work that is not done returns -ETIMEDOUT");
	release_stream(&hold);
	is_err(weir_event_wait(ev, -1), -EIO, "returned -110",
	       "a wait for work that failed with -ETIMEDOUT returns -EIO");
	is_int(weir_event_query(ev), -EIO,
	       "a query of work that failed with -ETIMEDOUT returns -EIO");
	is_err(weir_stream_sync(s, -1), -EIO, "returned -110",
	       "weir_stream_sync returns -EIO for a cause of -ETIMEDOUT");
	is_int(weir_stream_error(s, &f), -EIO,
	       "weir_stream_error returns -EIO for a cause of -ETIMEDOUT");
	ok(f.err == -EIO && f.native == ETIMEDOUT,
	   "a failure with -ETIMEDOUT as its cause has ETIMEDOUT as its native code");
	weir_event_free(ev);
	weir_stream_free(s);
}

static void along_waits(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s[20];
	struct weir_failure f;
	struct hold hold;
	int calls = 0;

	for (int i = 0; i < 20; i++)
		s[i] = new_stream(weir, i ? NULL : "origin");
	hold_stream(s[0], &hold);
	hold.result = -EIO;
	for (int i = 1; i < 20; i++) {
		must(weir_stream_record(s[i - 1], ev));
		must(weir_stream_wait(s[i], ev));
		must(weir_stream_call(s[i], count_up, &calls));
	}
	release_stream(&hold);
	is_err(weir_stream_sync(s[1], -1), -ECANCELED, "stream 'origin'",
	       "a stream that waits for a failed event fails, naming the cause");
	is_err(weir_stream_sync(s[19], -1), -ECANCELED,
	       "not done after a failure: stream 'origin': operation 1 (call): the host function returned -5",
	       "the last of 20 streams that wait in a row names the first cause");
	is_int(weir_stream_error(s[19], &f), -ECANCELED,
	       "weir_stream_error of a stream that waited returns -ECANCELED");
	is_int(calls, 0, "streams that waited for a failed event run nothing");
	must(weir_stream_reset(s[1]));
	is_int(weir_stream_wait(s[1], ev), 0,
	       "queuing a wait for a failed event succeeds");
	is_err(weir_stream_sync(s[1], -1), -ECANCELED, "stream 'origin'",
	       "a stream fails when it waits for an event that has failed already");
	for (int i = 0; i < 20; i++)
		weir_stream_free(s[i]);
	weir_event_free(ev);
}

static void pending_work(void)
{
	struct weir_event *ev = new_event(weir, 0), *last = new_event(weir, 0);
	struct weir_stream *a = new_stream(weir, "a");
	struct weir_stream *b = new_stream(weir, "b");
	struct weir_tensor t = bytes(weir, 64);
	struct hold hold;
	int result;

	hold_stream(a, &hold);
	hold.result = -EIO;
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	for (int i = 0; i < 100; i++)
		must(weir_stream_fill(b, &t, 0, 64, 0xff));
	must(weir_stream_record(b, last));
	weir_stream_free(b);
	weir_stream_free(a);
	release_stream(&hold);
	result = weir_event_wait(last, 10 * SEC);
	is_int(result, -ECANCELED,
	       "pending work of a freed stream is cancelled by the failure it waits for");
	ok(!*(unsigned char *)weir_tensor_data(&t),
	   "cancelled work has no effect");
	weir_buf_free(t.buf);
	weir_event_free(ev);
	weir_event_free(last);
}

int __real_weir__thread_start(pthread_t *ret_thread, const char *name,
			      void *(*fn)(void *), void *arg);
int __wrap_weir__thread_start(pthread_t *ret_thread, const char *name,
			      void *(*fn)(void *), void *arg);
int __wrap_weir__thread_start(pthread_t *ret_thread, const char *name,
			      void *(*fn)(void *), void *arg)
{
	return no_threads
		       ? -EAGAIN
		       : __real_weir__thread_start(ret_thread, name, fn, arg);
}

/* Start a run that cannot start its thread, and again with one. */
static void run_without_thread(void)
{
	struct weir_dev *cpu = cpu_of(weir), *none;
	struct weir_exec *exec;
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_node *x;
	struct weir_run *run;
	float value = 3;

	must(weir_graph_new(&g));
	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 0, NULL);
	weir_graph_output(g, weir_sqr(g, x));
	must(weir_sched_new(&cpu, 1, NULL, &sched));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, x, &value, sizeof(value)));
	no_threads = true;
	weir_dev_find(weir, "none", &none);
	must(weir_run_start(run));
	has_str(weir_error(), "weir_dev_find: ",
		"the start of a run that fails later sets no sentence");
	is_err(weir_run_wait(run, -1), -EAGAIN,
	       "step 0 was refused: cannot start thread 'weir/",
	       "a run fails without the worker of its stream");
	no_threads = false;
	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0, "it may be started again");
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
}

static void without_thread(void)
{
	struct weir_stream *s = new_stream(weir, "lone");
	struct rlimit limit;
	char words[64];
	int calls = 0;

	if (getrlimit(RLIMIT_NPROC, &limit) < 0)
		bail("getrlimit: %s", strerror(errno));
	if (limit.rlim_max == RLIM_INFINITY)
		limit.rlim_cur = 123456;
	if (setrlimit(RLIMIT_NPROC, &limit) < 0)
		bail("setrlimit: %s", strerror(errno));
	no_threads = true;
	(void)weir_stream_call(s, count_up, &calls);
	is_err(weir_stream_sync(s, -1), -EAGAIN,
	       "operation 1 (call) was refused: cannot start thread 'weir/lone'",
	       "a stream fails if its worker cannot be started");
	snprintf(words, sizeof(words), "; RLIMIT_NPROC is %llu (ulimit -u)",
		 (unsigned long long)limit.rlim_cur);
	has_str(weir_error(), words, "the sentence has the limit of threads");
	no_threads = false;
	must(weir_stream_reset(s));
	must(weir_stream_call(s, count_up, &calls));
	is_int(weir_stream_sync(s, -1), 0,
	       "the next operation after a reset starts the worker");
	weir_stream_free(s);
}

int main(void)
{
	plan(46);
	weir = open_root(WEIR_IO_AUTO);
	without_thread();
	run_without_thread();
	failure();
	events_around();
	takes_nothing();
	works_after_reset();
	events_after_reset();
	reset_while_open();
	lost_device();
	timed_out();
	along_waits();
	pending_work();
	weir_close(weir);
	return done_testing();
}
