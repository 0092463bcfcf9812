/* SPDX-License-Identifier: MIT */
/*
 * The contract of plans, loads and weights, over both methods and all ways;
 * into host memory, or that of the device WEIR_T_DEVICE.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>
#include <weir/cuda.h>

#include "sample.h"
#include "tap.h"

static char dir[] = "/var/tmp/weir-load-XXXXXX";
static char path[64];
static struct weir *root;
static const char *device; /* NULL: the CPU */

/* Sizes are odd on purpose: few tensors are aligned in the file. */
static const struct sample_tensor mixed[] = {
	{ "bool", "BOOL", 3, 1 },      { "double", "F64", 5, 8 },
	{ "empty", "F32", 0, 4 },      { "big", "BF16", 3500001, 2 },
	{ "byte", "U8", 1, 1 },        { "long", "F32", 1500000, 4 },
	{ "half.a", "F16", 70001, 2 }, { "half.b", "F16", 70002, 2 },
	{ "half.c", "F16", 70003, 2 }, { "last", "I8", 4097, 1 },
};
#define N (sizeof(mixed) / sizeof(mixed[0]))

static struct weir_buft *memory_of(const char *name, enum weir_mem kind)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	if (weir_dev_find(root, name, &dev) < 0 ||
	    weir_dev_buft(dev, kind, &buft) < 0)
		bail("%s", weir_error());
	return buft;
}

/* Memory of the device, or of @kind on the CPU. */
static struct weir_buft *memory(enum weir_mem kind)
{
	return device ? memory_of(device, WEIR_MEM_DEVICE)
		      : memory_of("CPU", kind);
}

static struct weir_buf *buffer(size_t bytes)
{
	struct weir_buf *buf;

	if (weir_buf_alloc(memory(WEIR_MEM_HUGE), bytes, NULL, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

static struct weir_model *model(void)
{
	struct weir_model *m;

	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

/* A plan for the tensors that match @glob; NULL: all. */
static struct weir_plan *plan_for(const char *glob, enum weir_mem kind,
				  const struct weir_select_opts *how)
{
	struct weir_model *m = model();
	struct weir_plan *p;

	if (weir_plan_new(m, &p) < 0 ||
	    weir_plan_add(p, glob, memory(kind), how) < 0)
		bail("%s", weir_error());
	weir_model_close(m);
	return p;
}

static struct weir_load *start(struct weir_plan *p,
			       const struct weir_load_opts *opts)
{
	struct weir_load *l;

	if (weir_load_start(p, opts, &l) < 0)
		bail("%s", weir_error());
	weir_plan_free(p);
	return l;
}

static struct weir_weights *weights(struct weir_load *l)
{
	struct weir_weights *w;

	if (weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	return w;
}

static bool adds_up(struct weir_load *l, uint64_t bytes)
{
	struct weir_load_report r = { .size = sizeof(r) };

	return !weir_load_report(l, &r) && r.bytes == bytes &&
	       r.in_place + r.staged + r.buffered + r.mapped == bytes;
}

static bool all_there(struct weir_load *l, uint64_t bytes, uint64_t count)
{
	struct weir_progress p = { .size = sizeof(p) };

	return !weir_load_progress(l, &p) && p.bytes == bytes &&
	       p.total == bytes && p.tensors == count && p.count == count &&
	       !p.failed;
}

static uint64_t bytes_of(const struct sample_tensor *t, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += t[i].count * t[i].size;
	return sum;
}

static void bytes_arrive_by(enum weir_way which, const char *name)
{
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_event *e;
	struct weir_weights *w;
	struct weir_load *l;
	size_t late = 0;

	how.way = which;
	l = start(plan_for(NULL,
			   which == WEIR_WAY_MAP ? WEIR_MEM_MAPPED
						 : WEIR_MEM_HUGE,
			   &how),
		  NULL);
	w = weights(l);
	if (weir_event_new(root, 0, &e) < 0)
		bail("%s", weir_error());
	for (size_t i = N; i-- > 0;) {
		weir_load_record(l, i, e);
		late += weir_event_wait(e, -1) != 0 || !sample_holds(w, i, 1);
	}
	is_int(late, 0, "%s: a tensor whose event is done has its bytes", name);
	is_int(weir_load_wait(l, -1), 0, "%s: a load ends without failure",
	       name);
	weir_load_record(l, WEIR_ALL, e);
	is_int(weir_event_query(e), 1,
	       "%s: the event of the whole load is done after the wait", name);
	ok(all_there(l, bytes_of(mixed, N), N),
	   "%s: progress ends at all bytes and tensors", name);
	ok(adds_up(l, bytes_of(mixed, N)),
	   "%s: the bytes of the report add up to the model's", name);
	weir_load_free(l);
	is_int(sample_wrong(w, 1), 0, "%s: weights outlive the load", name);
	weir_event_free(e);
	weir_weights_free(w);
}

/* Tensors of @w whose address is not a multiple of @align. */
static size_t crooked(struct weir_weights *w, size_t align)
{
	size_t n = 0;

	for (size_t i = 0; i < weir_weights_count(w); i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);
		uint64_t at = (uintptr_t)weir_tensor_data(t);
		size_t bytes;

		if (weir_tensor_bytes(t, &bytes) || !bytes)
			continue;
		if (device && weir_cuda_buf_ptr(t->buf, &at) < 0)
			bail("%s", weir_error());
		n += (at + (device ? t->offset : 0)) % align != 0;
	}
	return n;
}

static void tensors_are_aligned(void)
{
	static const unsigned aligns[] = { 64, 256, 4096 };

	for (int i = 0; i < 3; i++) {
		struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
		struct weir_weights *w;
		struct weir_load *l;

		how.align = aligns[i];
		l = start(plan_for(NULL, WEIR_MEM_HUGE, &how), NULL);
		w = weights(l);
		is_int(weir_load_wait(l, -1), 0, "tensors aligned to %u arrive",
		       aligns[i]);
		is_int(crooked(w, aligns[i]), 0,
		       "the address of each tensor is a multiple of %u",
		       aligns[i]);
		is_int(sample_wrong(w, 1), 0,
		       "tensors aligned to %u have the right bytes", aligns[i]);
		weir_load_free(l);
		weir_weights_free(w);
	}
}

static void puts_choose_by_name(void)
{
	struct weir_plan *p = plan_for("half.[ac]", WEIR_MEM_PLAIN, NULL);
	struct weir_select_opts direct = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;
	struct weir_load *l;

	is_err(weir_plan_add(p, "none*", memory(WEIR_MEM_HUGE), NULL), -ENOENT,
	       "none*", "a pattern that matches nothing is an error");
	is_int(weir_plan_add(p, "*a*", memory(WEIR_MEM_HUGE), NULL), 2,
	       "a later selection chooses the tensors that no earlier one has");
	direct.way = WEIR_WAY_DIRECT;
	weir_plan_add(p, "[bl]*", memory(WEIR_MEM_HUGE), &direct);
	l = start(p, NULL);
	w = weights(l);
	is_int(weir_load_wait(l, -1), 0,
	       "tensors of interleaved selections arrive");
	is_int(weir_weights_count(w), 8,
	       "weights have the chosen tensors only");
	is_int(sample_wrong(w, 1), 0,
	       "tensors of interleaved selections have the right bytes");
	ok(!weir_weights_find(w, "double") && weir_weights_find(w, "half.c"),
	   "weights find the chosen tensors by name");
	weir_load_free(l);
	weir_weights_free(w);
}

/* The first @n bytes of the buffer are all the same. */
static bool only(struct weir_buf *buf, int64_t n, unsigned char byte)
{
	unsigned char *p = malloc((size_t)n);
	bool same = true;
	struct weir_tensor t;

	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0 ||
	    weir_tensor_get(&t, 0, p, (size_t)n) < 0)
		bail("%s", weir_error());
	for (int64_t i = 0; i < n; i++)
		same = same && p[i] == byte;
	free(p);
	return same;
}

/* Two tensors in a buffer that has room for them and a guard before them. */
static void the_callers_buffer_is_filled(void)
{
	const size_t step = device ? 256 : 2, guard = 4096 + 5 * step;
	const size_t need = (70001 * 2 + step - 1) / step * step + 70002 * 2;
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_estimate est = { .size = sizeof(est) };
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_load *l;

	how.buf = buffer(need + guard);
	weir_buf_clear(how.buf, 0xa5);
	how.offset = guard;
	how.way = WEIR_WAY_DIRECT;
	p = plan_for("half.[ab]", WEIR_MEM_HUGE, &how);
	is_int(weir_plan_estimate(p, &est, 1), 1,
	       "a buffer of exactly the bytes needed is enough");
	is_int(est.bytes, 0,
	       "with the caller's buffer nothing is to be allocated");
	l = start(p, NULL);
	w = weights(l);
	is_int(weir_load_wait(l, -1), 0,
	       "tensors arrive in the caller's buffer");
	is_int(sample_wrong(w, 1), 0,
	       "tensors in the caller's buffer have the right bytes");
	ok(only(how.buf, guard, 0xa5),
	   "no byte before the offset of a selection is written");
	weir_load_free(l);
	weir_weights_free(w);
	p = plan_for("half.*", WEIR_MEM_HUGE, &how);
	is_err(weir_plan_estimate(p, &est, 1), -ENOSPC,
	       "weir_plan_estimate: tensor 'half.",
	       "a buffer that is too small is refused by the estimate");
	is_err(weir_load_start(p, NULL, &l), -ENOSPC, "half.",
	       "a buffer that is too small is refused by the load");
	is_err(weir_plan_add(p, NULL, memory_of("CPU", WEIR_MEM_PLAIN), &how),
	       -EINVAL, "CPU", "a buffer of another kind is refused");
	weir_plan_free(p);
	weir_buf_free(how.buf);
}

static void weights_are_loaded_again(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_plan *p = plan_for(NULL, WEIR_MEM_HUGE, NULL);
	struct weir_weights *w;
	struct weir_load *l;
	uint8_t before[32], after[32];

	l = start(p, NULL);
	w = weights(l);
	weir_load_wait(l, -1);
	weir_load_free(l);
	weir_weights_digest(w, 3, WEIR_DIGEST_SHA256, before);
	weir_tensor_fill(weir_weights_get(w, 3), 0, 100, 0);
	o.into = w;
	l = start(plan_for(NULL, WEIR_MEM_HUGE, NULL), &o);
	is_int(weir_weights_digest(w, 3, WEIR_DIGEST_SHA256, after), 32,
	       "a digest waits for the tensor to be loaded again");
	ok(!memcmp(before, after, 32),
	   "a tensor that is loaded again has the same digest");
	is_int(weir_load_wait(l, -1), 0, "weights can be loaded again");
	is_int(sample_wrong(w, 1), 0,
	       "weights that are loaded again have the right bytes");
	weir_load_free(l);
	p = plan_for("half*", WEIR_MEM_HUGE, NULL);
	is_err(weir_load_start(p, &o, &l), -EINVAL, "3",
	       "weights are not loaded again by another plan");
	weir_plan_free(p);
	weir_weights_free(w);
}

static void another_buffer_is_refused(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_plan *p;
	struct weir_load *l;

	how.buf = buffer(1u << 20);
	l = start(plan_for("half*", WEIR_MEM_HUGE, &how), NULL);
	o.into = weights(l);
	weir_load_wait(l, -1);
	weir_load_free(l);
	weir_buf_free(how.buf);
	how.buf = buffer(1u << 20);
	p = plan_for("half*", WEIR_MEM_HUGE, &how);
	is_err(weir_load_start(p, &o, &l), -EINVAL, "buffer 0",
	       "weights are not loaded again by a plan with another buffer");
	weir_plan_free(p);
	weir_buf_free(how.buf);
	weir_weights_free(o.into);
}

static void a_cancelled_load_ends(void)
{
	struct weir_load *l = start(plan_for(NULL, WEIR_MEM_HUGE, NULL), NULL);
	struct weir_weights *w = weights(l);
	struct weir_progress p = { .size = sizeof(p) };
	struct weir_failure f;
	size_t wrong = 0;
	int r;

	weir_load_cancel(l);
	r = weir_load_wait(l, -1);
	weir_load_progress(l, &p);
	ok(r == 0 || r == -ECANCELED, "a cancelled load ends");
	is_int(p.tensors + p.failed, N,
	       "each tensor of a cancelled load has arrived or failed");
	for (size_t i = 0; i < N; i++) {
		int state = weir_load_error(l, i, &f);

		wrong += state == 0 ? !sample_holds(w, i, 1)
				    : state != -ECANCELED;
	}
	is_int(wrong, 0, "a tensor that arrived in a cancelled load is whole");
	weir_load_free(l);
	weir_weights_free(w);
}

static void one_chunk_at_a_time_is_enough(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	int failed = 0;

	o.depth = 1;
	how.way = WEIR_WAY_BUFFERED;
	for (int i = 0; i < 30; i++) {
		struct weir_load *l =
			start(plan_for(NULL, WEIR_MEM_HUGE, &how), &o);

		failed += weir_load_wait(l, 300000000000) != 0;
		weir_load_free(l);
	}
	is_int(failed, 0, "loads with one chunk in flight end");
}

static void a_load_needs_no_handle(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_io_info io = { .size = sizeof(io) };
	struct weir *mine = root, *other;

	weir_io_info(root, &io);
	/* One more ring may exceed the memory that this user may lock. */
	o.io = io.method == WEIR_IO_SYNC ? WEIR_IO_SYNC : WEIR_IO_AUTO;
	for (int i = 0; i < 20; i++) {
		if (weir_open(&o, &other) < 0)
			bail("%s", weir_error());
		root = other;
		weir_load_free(
			start(plan_for(NULL, WEIR_MEM_PLAIN, NULL), NULL));
		weir_close(other);
	}
	root = mine;
	ok(true, "a load without references ends before its root is closed");
}

static bool backed(void *addr)
{
	unsigned char in = 0;

	addr = (void *)((uintptr_t)addr & ~(uintptr_t)4095);
	return mincore(addr, 4096, &in) == 0 && (in & 1);
}

/* After a wait the load references no memory. */
static void a_load_lets_its_memory_go(void)
{
	unsigned kept = 0;

	for (int i = 0; i < 20; i++) {
		struct weir_load *l =
			start(plan_for(NULL, WEIR_MEM_HUGE, NULL), NULL);
		struct weir_weights *w = weights(l);
		void *addr = weir_tensor_data(weir_weights_get(w, 3));

		weir_load_wait(l, -1);
		weir_load_free(l);
		kept += !backed(addr);
		weir_weights_free(w);
		weir_trim(root, 0);
		kept += backed(addr);
	}
	is_int(kept, 0,
	       "memory that is freed after a wait returns to the system at once");
}

static void changed_files_fail(void)
{
	struct weir_load *l;
	struct weir_plan *p = plan_for(NULL, WEIR_MEM_HUGE, NULL);
	struct weir_failure f;
	char number[32];
	int fd;

	if (truncate(path, 4u << 20) < 0)
		bail("truncate");
	l = start(p, NULL);
	is_err(weir_load_wait(l, -1), -ESTALE, strrchr(path, '/') + 1,
	       "a load fails if its file was cut after it was opened");
	snprintf(number, sizeof(number), "%llu",
		 (unsigned long long)bytes_of(mixed, N));
	is_int(weir_load_error(l, 3, &f), -ESTALE,
	       "the tensor that a cut file no longer has fails");
	has_str(f.text, "'big'", "the failure of a tensor names it");
	is_int(f.number, 3, "the failure of a tensor has its number");
	is_int(weir_load_error(l, 0, &f), 0,
	       "tensors before the cut do not fail");
	weir_load_free(l);
	sample_write(path, mixed, N, 8, 1);
	p = plan_for(NULL, WEIR_MEM_HUGE, NULL);
	fd = open(path, O_WRONLY);
	if (pwrite(fd, "x", 1, 5u << 20) != 1)
		bail("pwrite");
	close(fd);
	l = start(p, NULL);
	is_err(weir_load_wait(l, -1), -ESTALE, "written to",
	       "a load fails if its file was written to after it was opened");
	weir_load_free(l);
	sample_write(path, mixed, N, 8, 1);
}

static void contract(uint32_t io, unsigned reactors, const char *prefix)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_io_info info = { .size = sizeof(info) };

	tap_prefix(prefix);
	o.io = io;
	o.reactors = reactors;
	o.chunk = 1u << 20;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	if (weir_io_info(root, &info) < 0) {
		skip(device ? 58 : 65, "%s", weir_error());
		weir_close(root);
		return;
	}
	bytes_arrive_by(WEIR_WAY_AUTO, "auto");
	bytes_arrive_by(WEIR_WAY_DIRECT, "direct");
	bytes_arrive_by(WEIR_WAY_BUFFERED, "buffered");
	if (!device) /* pages of a file are host memory */
		bytes_arrive_by(WEIR_WAY_MAP, "map");
	tensors_are_aligned();
	puts_choose_by_name();
	the_callers_buffer_is_filled();
	weights_are_loaded_again();
	another_buffer_is_refused();
	a_cancelled_load_ends();
	one_chunk_at_a_time_is_enough();
	a_load_needs_no_handle();
	if (!device)
		a_load_lets_its_memory_go();
	changed_files_fail();
	weir_close(root);
}

int main(void)
{
	device = getenv("WEIR_T_DEVICE");
	plan(3 * (device ? 58 : 65));
	if (!mkdtemp(dir))
		skip_all("%s cannot be made", dir);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	sample_write(path, mixed, N, 8, 1);
	contract(WEIR_IO_AUTO, 0, "auto: ");
	contract(WEIR_IO_URING, 2, "uring: ");
	contract(WEIR_IO_SYNC, 2, "sync: ");
	unlink(path);
	rmdir(dir);
	return done_testing();
}
