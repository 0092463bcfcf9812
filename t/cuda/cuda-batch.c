/* SPDX-License-Identifier: MIT */
/*
 * Loads of many small tensors to a device: tensors are read together, and
 * copied in batches, or in as few copies as their places allow.
 */
#include "gpu.h"
#include "sample.h"
#include "stream/stream.h"

#define MODEL "cuda-batch.safetensors"
#define SALT 5u
#define COUNT 3000u
#define TINY 1000u  /* the first 1000 have 100 bytes or so, */
#define SMALL 2500u /* the next 1500 have 1100, the others 30000 */

static char names[COUNT][8];
static struct sample_tensor tensors[COUNT];
static struct weir *weir;

/* Sizes differ, so that offsets modulo a device's alignment of 256 do too. */
static void write_model(void)
{
	for (unsigned i = 0; i < COUNT; i++) {
		unsigned n = i < TINY    ? 100 + i % 7
			     : i < SMALL ? 1100 + i % 7
					 : 30000 + i % 11 * 8;

		snprintf(names[i], sizeof(names[i]), "t%05u", i % 100000);
		tensors[i] = (struct sample_tensor){ names[i], "U8", n, 1 };
	}
	sample_write(MODEL, tensors, COUNT, 0, SALT);
}

static bool holds(const struct weir_weights *w, size_t i)
{
	struct weir_entry e = { .size = sizeof(e) };
	unsigned char got[32768];

	must(weir_weights_entry(w, i, &e));
	if (e.bytes > sizeof(got) ||
	    weir_tensor_get(weir_weights_get(w, i), 0, got, e.bytes) < 0)
		return false;
	for (uint64_t k = 0; k < e.bytes; k++)
		if (got[k] != sample_byte(e.offset + k, SALT))
			return false;
	return true;
}

static unsigned wrong(const struct weir_weights *w)
{
	unsigned n = 0;

	for (size_t i = 0; i < weir_weights_count(w); i++)
		n += !holds(w, i);
	return n;
}

/* A load of the tensors that match @glob to CUDA0, or into o->buf. */
static struct weir_load *start(const char *glob, struct weir_select_opts *o)
{
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;

	must(weir_model_open(weir, MODEL, NULL, &model));
	must(weir_plan_new(model, &plan));
	must(weir_plan_add(plan, glob, gpu_memory(weir, WEIR_MEM_DEVICE), o));
	must(weir_load_start(plan, NULL, &load));
	weir_plan_free(plan);
	weir_model_close(model);
	return load;
}

static struct weir_weights *weights_of(struct weir_load *load)
{
	struct weir_weights *w;

	must(weir_load_weights(load, &w));
	return w;
}

/* How many driver calls have copied to a device. */
static unsigned long copies(void)
{
	return fake.calls("cuMemcpyBatchAsync") +
	       fake.calls("cuMemcpyHtoDAsync");
}

static void all_ended(struct weir_load *load, const char *what)
{
	struct weir_progress p = { .size = sizeof(p) };

	must(weir_load_progress(load, &p));
	is_int(p.tensors + p.failed, p.count,
	       "%s: every tensor has arrived or failed", what);
}

static void loads(enum weir_way way, const char *what)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	unsigned long before = copies(), marks = fake.calls("cuEventRecord");
	struct weir_load_report r = { .size = sizeof(r) };
	struct weir_load *load;
	struct weir_weights *w;

	o.way = way;
	load = start("*", &o);
	is_int(weir_load_wait(load, 20 * SEC), 0,
	       "%s: small tensors are loaded", what);
	before = copies() - before;
	marks = fake.calls("cuEventRecord") - marks;
	ok(before < COUNT / 50, "%s: %u tensors take %lu copies", what, COUNT,
	   before);
	must(weir_load_report(load, &r));
	ok(r.chunks < 10, "%s: the tensors take %llu reads", what,
	   (unsigned long long)r.chunks);
	is_int(marks, r.chunks, "%s: each read has one event", what);
	w = weights_of(load);
	is_int(wrong(w), 0, "%s: every byte is right", what);
	weir_weights_free(w);
	weir_load_free(load);
}

/*
 * The driver's entry returns "not supported"; t/cuda/cuda.sh has older drivers.
 */
static void without_batches(void)
{
	unsigned long before = fake.calls("cuMemcpyHtoDAsync");
	struct weir_load *load;
	struct weir_weights *w;

	fake.set("NO", "batch");
	load = start("*", NULL);
	is_int(weir_load_wait(load, 20 * SEC), 0,
	       "a driver that refuses batches loads the tensors");
	fake.set("NO", "");
	is_int(fake.calls("cuMemcpyHtoDAsync") - before, COUNT - TINY + 1,
	       "without batches tensors are copied one by one, neighbours together");
	w = weights_of(load);
	is_int(wrong(w), 0, "without batches every byte is right");
	weir_weights_free(w);
	weir_load_free(load);
}

/*
 * Through the page cache, if reads are counted: if a half of the file is in the
 * page cache, automatic choice reads each half by its own way.
 */
static struct weir_select_opts one_way(void)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;

	o.way = WEIR_WAY_BUFFERED;
	return o;
}

/* More loads than there are slots in which tiny tensors are repacked. */
static void many_loads(void)
{
	struct weir_select_opts o = one_way();
	unsigned long before = copies();

	for (unsigned i = 0; i < 40; i++) {
		struct weir_load *load = start("t000*", &o);

		must(weir_load_wait(load, 20 * SEC));
		weir_load_free(load);
	}
	is_int(copies() - before, 40, "each load of tiny tensors is one copy");
}

/* Bytes between the tensors are read too, and written nowhere. */
static void gaps(void)
{
	struct weir_select_opts o = one_way();
	struct weir_load_report r = { .size = sizeof(r) };
	struct weir_load *load;
	struct weir_weights *w;
	struct weir_tensor all = on_gpu(weir, 1 << 20);
	unsigned char *got = malloc(1 << 20);
	size_t other = 0;
	uint64_t sum = 0;

	must(weir_tensor_fill(&all, 0, 1 << 20, 0x77));
	o.buf = all.buf;
	load = start("t0[01]*[05]", &o);
	is_int(weir_load_wait(load, 20 * SEC), 0,
	       "scattered tensors are loaded into a buffer of the caller");
	w = weights_of(load);
	is_int(wrong(w), 0, "scattered tensors have every byte");
	must(weir_tensor_get(&all, 0, got, 1 << 20));
	for (size_t i = 0; i < weir_weights_count(w); i++) {
		struct weir_tensor t = *weir_weights_get(w, i);

		memset(got + t.offset, 0x77, (size_t)t.shape[0]);
		sum += (uint64_t)t.shape[0];
	}
	for (size_t i = 0; i < 1 << 20; i++)
		other += got[i] != 0x77;
	is_int(other, 0, "no byte between scattered tensors is written");
	must(weir_load_report(load, &r));
	ok(r.chunks == 1 && r.bytes == sum && r.over_read > sum,
	   "scattered tensors take one read, gaps included");
	weir_weights_free(w);
	weir_load_free(load);
	weir_buf_free(all.buf);
	free(got);
}

/* Each tensor has a selection; they are neighbours in file and buffer. */
static void neighbours(void)
{
	struct weir_select_opts o = one_way();
	struct weir_tensor all = on_gpu(weir, 1 << 20);
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;
	struct weir_weights *w;
	unsigned long before = copies();

	must(weir_model_open(weir, MODEL, NULL, &model));
	must(weir_plan_new(model, &plan));
	o.buf = all.buf;
	o.align = 1;
	for (unsigned i = 0; i < 1000; i++) {
		must(weir_plan_add(plan, names[i],
				   gpu_memory(weir, WEIR_MEM_DEVICE), &o));
		o.offset += tensors[i].count;
	}
	must(weir_load_start(plan, NULL, &load));
	must(weir_load_wait(load, 20 * SEC));
	is_int(copies() - before, 1,
	       "tensors that are neighbours in file and memory are one copy");
	w = weights_of(load);
	is_int(wrong(w), 0, "neighbours have every byte");
	weir_weights_free(w);
	weir_load_free(load);
	weir_plan_free(plan);
	weir_model_close(model);
	weir_buf_free(all.buf);
}

static void failures(void)
{
	struct weir_load *load;
	struct weir_failure f = { 0 }, other;
	char text[64] = "";
	unsigned n = 0;

	fake.arm("cuMemcpyBatchAsync", 3, FAKECUDA_ONCE, 999);
	load = start("*", NULL);
	is_err(weir_load_wait(load, 20 * SEC), -EIO, "CUDA_ERROR_UNKNOWN",
	       "a failed batch fails the load in the driver's words");
	/* The reactors decide which chunk has the third batch. */
	for (size_t i = 0; i < COUNT; i++)
		if (weir_load_error(load, i, n ? &other : &f) == -EIO && !n++)
			snprintf(text, sizeof(text),
				 "tensor '%.7s': copy of bytes", names[i]);
	ok(n > 1, "a failed batch fails each of its tensors");
	has_str(f.text, text,
		"the error of a tensor in a failed batch names it");
	all_ended(load, "a failed batch");
	weir_load_free(load);
	/* The first batch is in flight, so its memory is in use. */
	fake.arm("cuMemcpyBatchAsync", 1, FAKECUDA_HANG, 0);
	fake.arm("cuMemcpyBatchAsync", 2, FAKECUDA_ONCE, 999);
	load = start("t0[01]*", NULL);
	is_int(weir_load_wait(load, 100 * MS), -ETIMEDOUT,
	       "a load waits for batches in flight before one that failed");
	fake.release();
	is_err(weir_load_wait(load, 20 * SEC), -EIO, "CUDA_ERROR_UNKNOWN",
	       "a load with a failed batch fails when the others have ended");
	all_ended(load, "a failed batch after another");
	weir_load_free(load);
	load = start("*", NULL);
	weir_load_cancel(load);
	weir_load_wait(load, 20 * SEC);
	all_ended(load, "a load that is cancelled");
	weir_load_free(load);
}

#define COPIES 300u
#define APART 1000u

/* A scatter copy as the engine submits it. */
struct scatter {
	struct weir_backend_work work; /* first member */
	struct weir_backend_copy copy[COPIES];
	_Atomic int done;
};

static void scatter_done(struct weir_backend_work *work, int res,
			 int32_t native)
{
	(void)native;
	atomic_store(&((struct scatter *)(void *)work)->done, res ? -1 : 1);
}

static void submit_and_poll(const struct weir_backend_queue_ops *ops,
			    void *queue, struct scatter *g)
{
	must(ops->submit(queue, &g->work));
	for (int i = 0; i < 5000 && !atomic_load(&g->done); i++) {
		if (ops->poll)
			ops->poll(queue);
		usleep(1000);
	}
}

/* COPIES copies of 1 to COPIES bytes, in reverse order. */
static void scatter(struct weir_dev *dev,
		    const struct weir_backend_queue_ops *ops, void *queue,
		    unsigned char *src, const char *what)
{
	static unsigned char got[COPIES * APART], want[COPIES * APART];
	struct scatter *g = calloc(1, sizeof(*g));
	struct weir_tensor t;
	int64_t shape = COPIES * APART;
	struct weir_buft *buft;
	struct weir_buf *buf;

	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(buft, COPIES * APART, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_tensor_fill(&t, 0, COPIES * APART, 0x11));
	memset(want, 0x11, sizeof(want));
	pattern(src, COPIES * APART, 13);
	for (unsigned i = 0; i < COPIES; i++) {
		unsigned to = (COPIES - 1 - i) * APART;

		g->copy[i].dst = buf->mem.base + to;
		g->copy[i].src = src + i * APART;
		g->copy[i].bytes = i + 1;
		memcpy(want + to, src + i * APART, i + 1);
		g->work.width += i + 1;
	}
	g->work.kind = WEIR_WORK_SET;
	g->work.src_host = true;
	g->work.dst_host = weir__buf_is_host(buf);
	g->work.dst = g->copy[0].dst;
	g->work.src = g->copy[0].src;
	g->work.rows = 1;
	g->work.copy = g->copy;
	g->work.n_copies = COPIES;
	g->work.done = scatter_done;
	submit_and_poll(ops, queue, g);
	is_int(g->done, 1, "%s: a scatter copy is done", what);
	must(weir_tensor_get(&t, 0, got, sizeof(got)));
	is_mem(got, want, sizeof(got), "%s: each copy is in its place", what);
	weir_buf_free(buf);
	free(g);
}

static void queues(const char *name)
{
	struct weir_backend_queue_ops const *ops;
	struct weir_stream *legacy;
	unsigned char *own = malloc(COPIES * APART);
	struct weir_buf *pinned;
	struct weir_dev *dev;
	char what[64];
	void *queue;

	must(weir_dev_find(weir, name, &dev));
	must(weir__dev_use(dev));
	ops = dev->backend->queue;
	must(ops->open(dev, 0, "scatter", &queue));
	snprintf(what, sizeof(what), "%s", name);
	scatter(dev, ops, queue, own, what);
	if (dev != cpu_of(weir)) {
		must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED),
				    COPIES * APART, NULL, &pinned));
		snprintf(what, sizeof(what), "%s, page-locked", name);
		scatter(dev, ops, queue, weir_buf_data(pinned), what);
		must(weir_cuda_stream_wrap(dev, NULL, &legacy));
		snprintf(what, sizeof(what), "%s, stream NULL", name);
		scatter(dev, ops, legacy->queue, weir_buf_data(pinned), what);
		weir_stream_free(legacy);
		weir_buf_free(pinned);
	}
	ops->close(queue);
	free(own);
}

/* Addresses of two devices may be equal. */
static void equal_addresses(void)
{
	struct weir *root = open_cuda();
	unsigned long before;
	struct weir_stream *s;
	struct weir_tensor a, b;
	int64_t shape = 4096;
	struct weir_buft *buft;
	unsigned char *own;
	struct weir_dev *dev;
	struct weir_buf *buf;

	must(weir_dev_configure(root, "CUDA0:virtual=2", &dev));
	must(weir_dev_find(root, "CUDA0-1", &dev));
	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft));
	must(weir_buf_alloc(buft, 4096, NULL, &buf));
	must(weir_tensor_init(&b, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&b, buf, 0));
	a = on_gpu(root, 4096);
	own = buf->mem.base;
	buf->mem.base = a.buf->mem.base;
	s = gpu_stream(root, "equal", 0);
	before = fake.calls("cuMemcpyDtoDAsync");
	must(weir_stream_copy(s, &b, &a));
	must(weir_stream_sync(s, 20 * SEC));
	is_int(fake.calls("cuMemcpyDtoDAsync") - before, 1,
	       "a copy between two devices whose addresses are equal is made");
	buf->mem.base = own;
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(buf);
	weir_close(root);
}

int main(void)
{
	struct fakecuda_counts c;

	open_fake();
	plan(40);
	write_model();
	weir = open_cuda();
	loads(WEIR_WAY_BUFFERED, "through the page cache");
	loads(WEIR_WAY_DIRECT, "past it");
	without_batches();
	many_loads();
	gaps();
	neighbours();
	failures();
	queues("CPU");
	queues("CUDA0");
	equal_addresses();
	weir_close(weir);
	all_given_back("after batches");
	fake.counts(&c);
	is_int(c.reused, 0, "no slot is used again before its copies are done");
	unlink(MODEL);
	return done_testing();
}
