/* SPDX-License-Identifier: MIT */
/* Reads on a stream, and single tensors of a file. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define QUEUED 32u
#define MAX_ALONE 64u
#define PAGE 4096u
#define LINE 64u /* a line of the caches of the processor */
#define MAX_PAGES 512u

/* Host memory as one tensor of bytes, prefaulted. */
struct space {
	struct loader loader;
	struct weir_stream *stream;
	struct weir_buf *buf;
	struct weir_tensor tensor;
};

static void space_open(struct space *sp, uint64_t bytes)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	int64_t shape = (int64_t)bytes;

	o.flags = WEIR_BUF_PREFAULT;
	loader_open(&sp->loader, 0);
	must(weir_stream_new(weir_dev_get(sp->loader.weir, 0), NULL,
			     &sp->stream));
	must(weir_buf_alloc(sp->loader.huge, bytes, &o, &sp->buf));
	must(weir_tensor_init(&sp->tensor, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&sp->tensor, sp->buf, 0));
}

static void space_close(struct space *sp)
{
	weir_stream_free(sp->stream);
	weir_buf_free(sp->buf);
	loader_close(&sp->loader);
}

struct queue {
	const struct file *file;
	struct space space;
};

static void load(void *arg, struct sample *s)
{
	struct queue *q = arg;

	loader_load_kept(&q->space.loader, q->file, LOADER_WHOLE, s);
}

static void read_queued(void *arg, struct sample *s)
{
	struct queue *q = arg;
	struct space *sp = &q->space;
	uint64_t part = (q->file->bytes / QUEUED + CHUNK) / CHUNK * CHUNK;
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_file *file;

	must(weir_file_open(sp->loader.weir, q->file->path, NULL, &file));
	for (uint64_t at = 0; at < q->file->bytes; at += part) {
		uint64_t left = q->file->bytes - at;

		must(weir_stream_read(sp->stream, file, at, &sp->tensor, at,
				      left < part ? left : part));
	}
	must(weir_stream_sync(sp->stream, -1));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = q->file->bytes;
	weir_file_close(file);
}

void row_stream(unsigned pairs)
{
	struct queue q = { .file = model_large() };
	struct pair p = { .name = "stream: 32 reads, cold",
			  .limit = "a load of the same bytes",
			  .file_a = q.file,
			  .file_b = q.file,
			  .a = load,
			  .b = read_queued,
			  .arg = &q };
	struct result r;

	space_open(&q.space, q.file->bytes);
	pair_run(&p, pairs, false, &r);
	r.judged = GOAL_RATIO;
	r.goal = 0.95;
	result_add(&r);
	p.name = "stream: 32 reads, resident";
	p.resident = true;
	pair_run(&p, pairs, false, &r);
	result_add(&r);
	space_close(&q.space);
}

/* Tensors of one size in the large file. */
struct alone {
	const struct file *file;
	struct space space;
	struct weir_model *model;
	struct weir_entry entry[MAX_ALONE];
	unsigned n;
	int fd;
	unsigned char *mem;
};

static void find_alone(struct alone *a, uint64_t bytes)
{
	struct weir_entry e = { .size = sizeof(e) };

	a->n = 0;
	for (size_t i = 0; i < weir_model_count(a->model); i++) {
		must(weir_model_tensor(a->model, i, &e));
		if (e.bytes == bytes && a->n < MAX_ALONE)
			a->entry[a->n++] = e;
	}
	if (!a->n)
		die("%s: no tensor of %llu bytes", a->file->path,
		    (unsigned long long)bytes);
}

static void alone_pread(struct alone *a, const struct weir_entry *e)
{
	if (pread(a->fd, a->mem, e->bytes, (off_t)e->offset) !=
	    (ssize_t)e->bytes)
		die("%s: cannot be read", a->file->path);
}

static void alone_stream(struct alone *a, const struct weir_entry *e)
{
	struct space *sp = &a->space;

	must(weir_stream_read(sp->stream, weir_model_file(a->model, 0),
			      e->offset, &sp->tensor, e->offset % 4096,
			      e->bytes));
	must(weir_stream_sync(sp->stream, -1));
}

static void alone_load(struct alone *a, const struct weir_entry *e)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_plan *plan;
	struct weir_load *l;

	o.buf = a->space.buf;
	must(weir_plan_new(a->model, &plan));
	must(weir_plan_add(plan, e->name, a->space.loader.huge, &o));
	must(weir_load_start(plan, NULL, &l));
	must(weir_load_wait(l, -1));
	weir_load_free(l);
	weir_plan_free(plan);
}

static void (*const ways[])(struct alone *, const struct weir_entry *) = {
	alone_pread, alone_stream, alone_load
};

/* The pages of a tensor, mapped to be looked at. */
struct pages {
	unsigned char *map;
	size_t bytes;
};

static struct pages map_pages(const struct alone *a, const struct weir_entry *e)
{
	off_t from = (off_t)(e->offset / PAGE * PAGE);
	struct pages p = { .bytes = e->offset + e->bytes - (size_t)from };

	p.map = mmap(NULL, p.bytes, PROT_READ, MAP_SHARED, a->fd, from);
	if (p.map == MAP_FAILED)
		die("%s: cannot be mapped", a->file->path);
	return p;
}

/* How many are in the page cache. */
static size_t pages_in(const struct alone *a, const struct pages *p)
{
	size_t pages = (p->bytes + PAGE - 1) / PAGE, in = 0;
	unsigned char vec[MAX_PAGES];

	if (pages > MAX_PAGES || mincore(p->map, p->bytes, vec) < 0)
		die("%s: cannot be looked at", a->file->path);
	for (size_t i = 0; i < pages; i++)
		in += vec[i] & 1;
	return in;
}

/*
 * Remove them from the caches of the processor, where the way before has left
 * them: a model is larger than these caches.
 */
static void flush_lines(const struct pages *p)
{
#ifdef __x86_64__
	for (size_t i = 0; i < p->bytes; i += LINE)
		__builtin_ia32_clflush(p->map + i);
	__builtin_ia32_mfence();
#else
	(void)p;
#endif
}

/*
 * All or none of the pages of the tensor, not of the file: looking at gigabytes
 * of page cache would empty the caches of the processor each time.
 */
static void ready(struct alone *a, const struct weir_entry *e, bool resident)
{
	struct pages p;
	size_t in;

	if (!resident)
		raw_cold(a->file->path);
	p = map_pages(a, e);
	in = pages_in(a, &p);
	if (resident ? in * PAGE < e->bytes : in > 0)
		die("%s: %zu pages of '%s' are in the page cache, all or none are wanted",
		    a->file->path, in, e->name);
	if (resident)
		flush_lines(&p);
	munmap(p.map, p.bytes);
}

static double time_alone(struct alone *a, const struct weir_entry *e,
			 unsigned way, bool resident)
{
	double begun;

	ready(a, e, resident);
	begun = raw_now();
	ways[way](a, e);
	return (raw_now() - begun) * 1e6;
}

/* @times: the goal, as a multiple of the time of pread(2); 0: no goal. */
static void add_alone(const char *name, const double *raw, const double *weir,
		      unsigned n, double times)
{
	struct result r = { .limit = "pread", .unit = "us" };
	double ratio[MAX_ALONE], a[MAX_ALONE], b[MAX_ALONE];
	struct spread all;

	snprintf(r.name, sizeof(r.name), "%s", name);
	for (unsigned i = 0; i < n; i++)
		ratio[i] = (a[i] = raw[i]) / (b[i] = weir[i]);
	r.limit_value = spread_of(a, n).mid;
	r.value = spread_of(b, n).mid;
	all = spread_of(ratio, n);
	r.ratio = all.mid;
	r.low = all.low;
	r.high = all.high;
	if (times) {
		r.judged = GOAL_RATIO;
		r.goal = 1 / times;
	}
	result_add(&r);
}

/* Each way reads each tensor, long after the previous way read it. */
static void run_alone(struct alone *a, const char *size, bool resident,
		      double times)
{
	double us[3][MAX_ALONE];
	char name[48];

	for (unsigned way = 0; way < 3; way++)
		time_alone(a, &a->entry[0], way, resident); /* not counted */
	for (unsigned k = 0; k < 3; k++)
		for (unsigned i = 0; i < a->n; i++) {
			unsigned way = (i + k) % 3;

			us[way][i] = time_alone(a, &a->entry[i], way, resident);
		}
	for (unsigned way = 1; way < 3; way++) {
		snprintf(name, sizeof(name), "alone: %s, %s, %s", size,
			 resident ? "resident" : "cold",
			 way == 1 ? "stream" : "load");
		add_alone(name, us[0], us[way], a->n, times);
	}
}

void row_alone(unsigned pairs)
{
	struct alone a = { .file = model_large() };

	(void)pairs;
	space_open(&a.space, 4 << 20);
	must(weir_model_open(a.space.loader.weir, a.file->path, NULL,
			     &a.model));
	a.mem = raw_memory(1 << 20);
	a.fd = open(a.file->path, O_RDONLY | O_CLOEXEC);
	for (int resident = 0; resident < 2; resident++) {
		if (resident)
			bench_ready(a.file, true);
		find_alone(&a, 4096);
		run_alone(&a, "4 KiB", resident, resident ? 3 : 0);
		find_alone(&a, 1 << 20);
		run_alone(&a, "1 MiB", resident, resident ? 1.3 : 0);
	}
	close(a.fd);
	raw_unmap(a.mem, 1 << 20);
	weir_model_close(a.model);
	space_close(&a.space);
}
