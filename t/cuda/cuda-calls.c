/* SPDX-License-Identifier: MIT */
/*
 * Each driver call fails once, in each part of a program's life: opening,
 * allocating, a load, a load that is cancelled, closing. A loop ends when a
 * part has ended before it made the call that was armed.
 */
#include <dirent.h>
#include <sys/wait.h>

#include "gpu.h"
#include "sample.h"

#define MODEL "cuda-calls.safetensors"
#define SALT 33u
#define MOST 3000u /* calls that a part may make */

static const struct sample_tensor tensors[] = {
	{ "a", "F32", 16000, 4 },
	{ "b", "U8", 70, 1 },
	{ "c", "BF16", 40001, 2 },
	{ "d", "F32", 16000, 4 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

/* The objects of a life so far, and the first failure of the armed part. */
struct life {
	struct weir *weir;
	struct weir_dev *dev;
	struct weir_stream *stream;
	struct weir_event *event;
	struct weir_buf *buf[5];
	unsigned n_bufs;
	void *own;
	int err;
	char why[1024];
	unsigned wrong; /* results without an error and with wrong bytes */
};

/* True if the call worked. The first failure is kept. */
static bool works(struct life *l, int r)
{
	if (r >= 0)
		return true;
	if (!l->err) {
		l->err = r;
		snprintf(l->why, sizeof(l->why), "%s", weir_error());
	}
	return false;
}

static void opening(struct life *l)
{
	uint64_t avail, total;

	l->weir = open_cuda();
	if (!works(l, weir_dev_configure(l->weir, "CUDA0:virtual=2", &l->dev)))
		return;
	works(l, weir_dev_memory(l->dev, &avail, &total));
	works(l, weir_stream_new(l->dev, NULL, &l->stream));
	works(l, weir_event_new(l->weir, 0, &l->event));
}

static void alloc(struct life *l, enum weir_mem kind, uint32_t flags)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir_buft *buft;

	o.flags = flags;
	must(weir_dev_buft(l->dev, kind, &buft));
	if (works(l, weir_buf_alloc(buft, 1 << 16, &o, &l->buf[l->n_bufs])))
		l->n_bufs++;
}

/* Blocking calls move bytes to the device and back. */
static void round_trip(struct life *l, struct weir_buf *buf)
{
	static unsigned char in[50000], out[50000];
	int64_t shape = sizeof(in);
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&t, buf, 0));
	pattern(in, sizeof(in), 1);
	memset(out, 0, sizeof(out));
	if (works(l, weir_tensor_set(&t, 0, in, sizeof(in))) &&
	    works(l, weir_tensor_get(&t, 0, out, sizeof(out))))
		l->wrong += memcmp(in, out, sizeof(in)) != 0;
	works(l, weir_tensor_fill(&t, 0, 100, 1));
}

static void allocating(struct life *l)
{
	struct weir_buft *pinned;
	uint64_t ptr;

	alloc(l, WEIR_MEM_DEVICE, 0);
	if (l->n_bufs) {
		round_trip(l, l->buf[0]);
		must(weir_cuda_buf_ptr(l->buf[0], &ptr));
		if (works(l, weir_cuda_buf_wrap(l->dev, ptr, 100, NULL, NULL,
						&l->buf[l->n_bufs])))
			l->n_bufs++;
	}
	alloc(l, WEIR_MEM_PINNED, 0);
	alloc(l, WEIR_MEM_PINNED, WEIR_BUF_WRITE_COMBINED);
	l->own = aligned_alloc(4096, 1 << 16);
	must(weir_dev_buft(l->dev, WEIR_MEM_PINNED, &pinned));
	if (works(l, weir_buf_wrap(pinned, l->own, 1 << 16, NULL, NULL,
				   &l->buf[l->n_bufs])))
		l->n_bufs++;
}

static struct weir_plan *plan_of(struct life *l)
{
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_buft *buft;

	must(weir_dev_buft(l->dev, WEIR_MEM_DEVICE, &buft));
	must(weir_model_open(l->weir, MODEL, NULL, &m));
	must(weir_plan_new(m, &p));
	weir_model_close(m);
	must(weir_plan_add(p, NULL, buft, NULL));
	return p;
}

/* Every tensor without an error has its bytes. No call is armed any more. */
static void check_arrived(struct life *l, struct weir_load *load)
{
	struct weir_weights *w;
	struct weir_failure f;
	uint64_t avail, total;

	fake.disarm();
	/*
	 * This call returns an error of earlier work that is not reported yet.
	 */
	(void)weir_dev_memory(l->dev, &avail, &total);
	must(weir_load_weights(load, &w));
	for (size_t i = 0; i < N; i++)
		if (weir_load_error(load, i, &f) == 0 &&
		    !strstr(cuda_log, "is lost"))
			l->wrong += !sample_holds(w, i, SALT);
	weir_weights_free(w);
}

static void load(struct life *l, bool cancel)
{
	struct weir_plan *p = plan_of(l);
	unsigned long before = fake.calls("cuMemcpyHtoDAsync");
	struct weir_load *load;
	int r = weir_load_start(p, NULL, &load);

	weir_plan_free(p);
	if (!works(l, r))
		return;
	if (cancel) {
		/* Some copies are in flight, and some are not. */
		while (fake.calls("cuMemcpyHtoDAsync") - before < 2 &&
		       weir_load_wait(load, 1 * MS) == -ETIMEDOUT)
			;
		weir_load_cancel(load);
	}
	r = weir_load_wait(load, -1);
	if (!cancel || r != -ECANCELED)
		works(l, r);
	check_arrived(l, load);
	weir_load_free(load);
}

static void loading(struct life *l)
{
	load(l, false);
}

static void cancelling(struct life *l)
{
	fake.set("LATENCY", "300");
	load(l, true);
	fake.set("LATENCY", "0");
}

/* Everything is freed while work of all kinds is in flight. */
static void closing(struct life *l)
{
	static unsigned char in[1 << 16];
	int64_t shape = sizeof(in);
	int called = 0;
	struct weir_tensor t;

	if (l->n_bufs && l->stream) {
		must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
		must(weir_tensor_place(&t, l->buf[0], 0));
		(void)weir_stream_fill(l->stream, &t, 0, 10, 1);
		(void)weir_stream_set(l->stream, &t, 0, in, sizeof(in));
		(void)weir_stream_call(l->stream, count_up, &called);
		(void)weir_stream_record(l->stream, l->event);
	}
	weir_stream_free(l->stream);
	weir_event_free(l->event);
	while (l->n_bufs)
		weir_buf_free(l->buf[--l->n_bufs]);
	weir_close(l->weir);
	free(l->own);
}

static const struct {
	const char *name;
	void (*run)(struct life *l);
	unsigned before; /* the parts that run before it, a bit for each */
	unsigned least;  /* driver calls that it makes, at least */
} parts[] = {
	{ "opening", opening, 0x0, 50 },
	{ "allocating", allocating, 0x1, 20 },
	{ "a load", loading, 0x1, 30 },
	{ "a cancelled load", cancelling, 0x1, 20 },
	{ "closing", closing, 0x7, 15 },
};
enum {
	PARTS = sizeof(parts) / sizeof(parts[0]),
	LOADING = 2,
	CLOSING = PARTS - 1
};

/* One life in which driver call @nth of @part fails. True if it was made. */
static bool live(struct life *l, unsigned part, unsigned nth, int mode,
		 int code)
{
	unsigned long before = fake.struck();
	bool met;

	memset(l, 0, sizeof(*l));
	for (unsigned i = 0; i < PARTS; i++)
		if (parts[part].before & 1u << i)
			parts[i].run(l);
	l->err = 0;
	fake.arm("*", nth, mode, code);
	parts[part].run(l);
	fake.disarm();
	met = fake.struck() != before;
	if (part != CLOSING)
		closing(l);
	return met;
}

/* True if errno and sentence are those of @code, or of a consequence of it. */
static bool is_right(const struct life *l, unsigned part, int code,
		     const char *word)
{
	int want = code == 2 ? -ENOMEM : code == 1 ? -EINVAL : -EIO;

	/* Free memory is not known then. */
	if (!l->err || (!part && l->err == -ENODATA))
		return true;
	if (!part && strstr(l->why, " has no "))
		return l->err == -ENODEV;
	/*
	 * By this result the driver also says that it does not know a pointer.
	 */
	if (code == 1 && strstr(l->why, "is no address of device memory"))
		return l->err == -EINVAL;
	if (!strstr(l->why, word))
		return false;
	return l->err == want || l->err == -ENODEV || l->err == -ECANCELED;
}

static unsigned entries_of(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* Threads and descriptors beyond these; helpers may take a while to end. */
static int more_than(unsigned tasks, unsigned fds)
{
	int more = 1;

	for (int i = 0; i < 500 && more > 0; i++) {
		if (i)
			usleep(10000);
		more = (int)(entries_of("/proc/self/task") - tasks) +
		       (int)(entries_of("/proc/self/fd") - fds);
	}
	return more;
}

/* A context that could not be released is in the log, and is released here. */
static void context_release(void)
{
	static int (*release)(int);
	struct fakecuda_counts c;

	*(void **)&release = dlsym(fake.handle, "cuDevicePrimaryCtxRelease_v2");
	fake.counts(&c);
	if (c.live[FAKECUDA_RETAINED] &&
	    strstr(cuda_log, "context could not be released"))
		release(0);
}

enum {
	NOT_MET,
	MET,
	SHOWN, /* it was made, and a call of the library returned an error */
	STRANGE
};

static int judge(unsigned part, unsigned nth, int mode, int code,
		 const char *word)
{
	struct life l;
	bool met = live(&l, part, nth, mode, code);

	if (l.wrong || !is_right(&l, part, code, word)) {
		diag("%s, call %u: %d, %u wrong: %s\n%s", parts[part].name, nth,
		     l.err, l.wrong, l.why, cuda_log);
		return STRANGE;
	}
	return !met ? NOT_MET : l.err ? SHOWN : MET;
}

static int forked(unsigned part, unsigned nth, int mode, int code,
		  const char *word)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(judge(part, nth, mode, code, word));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	diag("%s, call %u: status %#x", parts[part].name, nth, status);
	return STRANGE;
}

static void each_call(unsigned part, int mode, int code, const char *word,
		      bool here)
{
	static const char *const how[] = {
		[FAKECUDA_ONCE] = "once",
		[FAKECUDA_FROM_THEN_ON] = "with all later ones",
		[FAKECUDA_STICKY] = "for ever",
		[FAKECUDA_LATE] = "later",
	};
	unsigned n = 0, shown = 0, strange = 0;
	unsigned long leaks = 0;
	int what;

	do {
		tap_renew();
		what = here ? judge(part, ++n, mode, code, word)
			    : forked(part, ++n, mode, code, word);
		shown += what == SHOWN;
		strange += what == STRANGE;
		if (here) {
			context_release();
			leaks += objects_left();
		}
	} while (what != NOT_MET && n < MOST);
	ok(n > parts[part].least && n < MOST && !strange,
	   "%s: each of %u calls fails %s with %s, and %u failures are right",
	   parts[part].name, n - 1, how[mode], word, shown);
	if (here)
		is_int(leaks, 0,
		       "%s: objects of the driver are freed after each %s (%s)",
		       parts[part].name, word, how[mode]);
}

/* Failures that lose the context, or after which no driver is opened. */
static void in_children(void)
{
	each_call(0, FAKECUDA_ONCE, 2, "CUDA_ERROR_OUT_OF_MEMORY", false);
	each_call(0, FAKECUDA_FROM_THEN_ON, 999, "CUDA_ERROR_UNKNOWN", false);
	for (unsigned i = 1; i < PARTS; i++) {
		each_call(i, FAKECUDA_FROM_THEN_ON, 999, "CUDA_ERROR_UNKNOWN",
			  false);
		each_call(i, FAKECUDA_STICKY, 700, "CUDA_ERROR_ILLEGAL_ADDRESS",
			  false);
	}
	each_call(LOADING, FAKECUDA_LATE, 719, "CUDA_ERROR_LAUNCH_FAILED",
		  false);
}

static void in_this(void)
{
	static const struct {
		int code;
		const char *word;
	} results[] = {
		{ 1, "CUDA_ERROR_INVALID_VALUE" },
		{ 2, "CUDA_ERROR_OUT_OF_MEMORY" },
		{ 999, "CUDA_ERROR_UNKNOWN" },
	};
	struct life l;
	unsigned tasks, fds;

	live(&l, CLOSING, MOST, FAKECUDA_ONCE, 2);
	tasks = entries_of("/proc/self/task");
	fds = entries_of("/proc/self/fd");
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned i = 1; i < PARTS; i++)
			each_call(i, FAKECUDA_ONCE, results[k].code,
				  results[k].word, true);
	}
	/* Now it is often another thread's call that returns the late error. */
	fake.set("JITTER", "300");
	each_call(LOADING, FAKECUDA_LATE, 999, "CUDA_ERROR_UNKNOWN", true);
	fake.set("JITTER", "0");
	ok(more_than(tasks, fds) <= 0,
	   "failed calls leave no thread and no descriptor");
	ok(!live(&l, LOADING, MOST, FAKECUDA_ONCE, 2) && !l.err && !l.wrong,
	   "a load after failed calls works");
	all_given_back("after failed calls");
}

int main(void)
{
	open_fake();
	cuda_chunk = 65536;
	plan(0);
	sample_write(MODEL, tensors, N, 8, SALT);
	in_children();
	in_this();
	unlink(MODEL);
	return done_testing();
}
