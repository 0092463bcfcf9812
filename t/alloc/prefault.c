/* SPDX-License-Identifier: MIT */
/*
 * Memory is prefaulted in order, and at most a fixed distance ahead of readers.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "alloc/prefault.h"
#include "core/sys.h"
#include "files.h"
#include "sample.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define SIZE (200 * MIB)

static struct weir *root;
static unsigned char *mem;
static _Atomic unsigned steps;

/* The kernel refuses pages from here on. */
static unsigned char *refused = (unsigned char *)UINTPTR_MAX;

/*
 * Counts for a buffer: calls before it was locked, and threads that prefault it
 * at the same time.
 */
static _Atomic bool is_locked, meeting;
static _Atomic unsigned too_early, inside, most_inside;

int __real_weir__sys_populate(void *addr, size_t len);
int __wrap_weir__sys_populate(void *addr, size_t len);
int __real_weir__sys_mlock(void *addr, size_t len);
int __wrap_weir__sys_mlock(void *addr, size_t len);

/* Each thread waits a while for another one. */
static void meet(void)
{
	unsigned n = atomic_fetch_add(&inside, 1) + 1;

	if (n > atomic_load(&most_inside))
		atomic_store(&most_inside, n);
	for (int i = 0; i < 10000 && atomic_load(&most_inside) < 2; i++)
		usleep(500);
}

int __wrap_weir__sys_populate(void *addr, size_t len)
{
	int r;

	if ((unsigned char *)addr >= refused)
		return -ENOMEM;
	if (!atomic_load(&meeting))
		return __real_weir__sys_populate(addr, len);
	if (!atomic_load(&is_locked))
		atomic_fetch_add(&too_early, 1);
	meet();
	r = __real_weir__sys_populate(addr, len);
	atomic_fetch_sub(&inside, 1);
	return r;
}

int __wrap_weir__sys_mlock(void *addr, size_t len)
{
	int r = __real_weir__sys_mlock(addr, len);

	atomic_store(&is_locked, true);
	return r;
}

static void progress(void *arg)
{
	(void)arg;
	atomic_fetch_add(&steps, 1);
}

static struct weir__prefault *start(size_t *backed, size_t bytes,
				    unsigned threads)
{
	const struct weir__prefault_range range = { mem, bytes, backed };
	struct weir__prefault *t;

	atomic_store(&steps, 0);
	if (weir__prefault_start(root, &range, 1, threads, progress, NULL, &t) <
	    0)
		bail("no memory");
	return t;
}

static size_t resident(size_t from, size_t to)
{
	unsigned char vec[SIZE / 4096];
	size_t n = 0;

	weir__sys_mincore(mem + from, to - from, vec);
	for (size_t i = 0; i < (to - from) / 4096; i++)
		n += vec[i] & 1;
	return n * 4096;
}

static bool becomes_ready(struct weir__prefault *t, size_t range, size_t end)
{
	for (int i = 0; i < 20000; i++) {
		if (weir__prefault_ready(t, range, mem + end))
			return true;
		usleep(500);
	}
	return false;
}

static void forget(void)
{
	madvise(mem, SIZE, MADV_DONTNEED);
}

static void in_order(void)
{
	size_t backed = 0;
	struct weir__prefault *t = start(&backed, SIZE, 3);

	ok(becomes_ready(t, 0, 5 * MIB),
	   "memory that a reader asks for becomes ready");
	is_int(resident(0, 5 * MIB), 5 * MIB, "memory that is ready has pages");
	ok(backed >= 5 * MIB,
	   "the bytes counted as backed cover memory that is ready");
	usleep(100000);
	ok(resident(0, SIZE) <= 100 * MIB,
	   "memory far ahead of what was asked for is not prefaulted");
	ok(becomes_ready(t, 0, SIZE),
	   "all memory becomes ready when its end is asked for");
	ok(atomic_load(&steps) >= 12, "readers are woken at each step");
	ok(weir__prefault_stop(t) > 0,
	   "stopping returns the time that prefaulting took");
	is_int(backed, SIZE, "all bytes are counted as backed at the end");
	forget();
}

static void prefaulted_before(void)
{
	size_t backed = SIZE;
	struct weir__prefault *t;

	t = start(&backed, SIZE, 3);
	ok(weir__prefault_ready(t, 0, mem + SIZE),
	   "memory that is prefaulted already is ready at once");
	weir__prefault_stop(t);
	forget();
}

static void from_the_middle(void)
{
	size_t backed = 50 * MIB + 777;
	struct weir__prefault *t = start(&backed, SIZE, 2);

	ok(weir__prefault_ready(t, 0, mem + 50 * MIB),
	   "memory that was prefaulted before the start is ready at once");
	ok(becomes_ready(t, 0, 60 * MIB + 5),
	   "memory after what was prefaulted becomes ready");
	is_int(resident(50 * MIB, 60 * MIB), 10 * MIB,
	       "memory that is ready has pages");
	is_int(resident(0, 50 * MIB), 0,
	       "memory before what was prefaulted is not prefaulted again");
	weir__prefault_stop(t);
	forget();
}

#define RANGE (40 * MIB)
#define RANGES 5

static void of_several_ranges(void)
{
	size_t backed[RANGES] = { 0 };
	struct weir__prefault_range range[RANGES];
	struct weir__prefault *t;

	for (size_t i = 0; i < RANGES; i++)
		range[i] = (struct weir__prefault_range){ mem + i * RANGE,
							  RANGE, &backed[i] };
	if (weir__prefault_start(root, range, RANGES, 2, progress, NULL, &t) <
	    0)
		bail("no memory");
	usleep(100000);
	is_int(resident(RANGE, SIZE), 0,
	       "only the first range is prefaulted before a reader asks");
	ok(becomes_ready(t, 0, RANGE),
	   "the first of several ranges becomes ready");
	for (int i = 0; i < 20000 && !backed[1]; i++)
		usleep(500);
	ok(backed[1] && resident(2 * RANGE, SIZE) == 0,
	   "the range after one that is read is prefaulted ahead, and no other");
	ok(becomes_ready(t, 4, 5 * RANGE),
	   "a range that is asked for out of order becomes ready");
	ok(backed[3] < RANGE,
	   "ranges before one that is asked for need not be ready");
	is_int(backed[4], RANGE, "backed bytes are counted for each range");
	weir__prefault_stop(t);
	forget();
}

struct asker {
	struct weir__prefault *t;
	size_t from;
	unsigned late;
};

/* Asks once for each place, then waits to be woken, as a reactor does. */
static void *ask(void *arg)
{
	struct asker *a = arg;

	for (size_t end = a->from; end < SIZE; end += 7 * MIB) {
		unsigned seen = atomic_load(&steps);
		int patience = 5000;

		while (!weir__prefault_ready(a->t, 0, mem + end)) {
			while (atomic_load(&steps) == seen && patience-- > 0)
				usleep(200);
			seen = atomic_load(&steps);
			if (patience <= 0)
				break;
		}
		a->late += patience <= 0;
	}
	return NULL;
}

static void several(void)
{
	unsigned late = 0;

	for (int round = 0; round < 10; round++) {
		size_t backed = 0;
		struct asker a[4];
		pthread_t thread[4];

		a[0].t = start(&backed, SIZE, 2);
		for (unsigned i = 0; i < 4; i++) {
			a[i] = (struct asker){ a[0].t, (i + 1) * MIB, 0 };
			pthread_create(&thread[i], NULL, ask, &a[i]);
		}
		for (unsigned i = 0; i < 4; i++) {
			pthread_join(thread[i], NULL);
			late += a[i].late;
		}
		weir__prefault_stop(a[0].t);
		forget();
	}
	is_int(late, 0,
	       "each of several readers is woken when its memory is ready");
}

static void stopped(void)
{
	size_t backed = 0;
	struct weir__prefault *t = start(&backed, SIZE, 4);

	weir__prefault_stop(t);
	ok(backed < SIZE,
	   "prefaulting stops before the end when it is stopped");
	is_int(weir__prefault_stop(NULL), 0, "stopping NULL takes no time");
	forget();
}

static void refused_pages_are_not_counted(void)
{
	size_t backed = 0;

	refused = mem + 64 * MIB;
	weir__prefault_all(root, mem, SIZE, &backed);
	is_int(backed, 64 * MIB,
	       "memory from the first page that the kernel refuses on is not counted as backed");
	refused = (unsigned char *)UINTPTR_MAX;
	forget();
}

static void of_a_buffer(void)
{
	struct weir_buf_opts opts = WEIR_BUF_OPTS_INIT;
	struct weir_buft *buft;
	struct weir_buf *buf;

	opts.flags = WEIR_BUF_PREFAULT;
	atomic_store(&meeting, true);
	if (weir_dev_buft(weir_dev_get(root, 0), WEIR_MEM_LOCKED, &buft) < 0 ||
	    weir_buf_alloc(buft, 64 * MIB, &opts, &buf) < 0)
		bail("%s", weir_error());
	atomic_store(&meeting, false);
	ok(is_locked && !too_early,
	   "a buffer that is locked and prefaulted is locked before its first page");
	if (weir__cpus() > 1)
		ok(most_inside > 1,
		   "a buffer that is prefaulted is prefaulted by several threads at once");
	else
		skip(1, "there is one CPU");
	is_int(resident((size_t)((unsigned char *)weir_buf_data(buf) - mem),
			(size_t)((unsigned char *)weir_buf_data(buf) - mem) +
				64 * MIB),
	       64 * MIB, "a buffer that is prefaulted has all of its pages");
	weir_buf_free(buf);
}

/* A load of 5 MiB to the beginning, and of as much to the end, of 64 MiB. */
static void targets_far_apart(void)
{
	const struct sample_tensor tensor[] = { { "a", "U8", 5 * MIB, 1 },
						{ "b", "U8", 5 * MIB, 1 } };
	struct weir_tensor dst[2];
	struct weir_target to[2] = { { 0 } };
	struct weir_model *model;
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_load *load;
	struct weir_buft *buft;
	struct weir_buf *buf;
	int64_t n = 5 * MIB;
	size_t base;

	/*
	 * Where locking is limited the buffer before was kept, with its pages.
	 */
	weir_trim(root, 0);
	files_begin();
	sample_write(files_path("two.safetensors"), tensor, 2, 0, 1);
	if (weir_dev_buft(weir_dev_get(root, 0), WEIR_MEM_HUGE, &buft) < 0 ||
	    weir_buf_alloc(buft, 64 * MIB, NULL, &buf) < 0 ||
	    weir_model_open(root, files_path("two.safetensors"), NULL, &model) <
		    0 ||
	    weir_plan_new(model, &p) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < 2; i++) {
		if (weir_tensor_init(&dst[i], WEIR_DTYPE_U8, 1, &n) < 0 ||
		    weir_tensor_place(&dst[i], buf, i * 59 * MIB) < 0)
			bail("%s", weir_error());
		to[i] = (struct weir_target){ .size = sizeof(to[i]),
					      .tensor = i,
					      .dst = &dst[i],
					      .way = WEIR_WAY_DIRECT };
	}
	base = (size_t)((unsigned char *)weir_buf_data(buf) - mem);
	if (weir_plan_add_tensors(p, to, 2) < 0 ||
	    weir_load_start(p, NULL, &load) < 0 ||
	    weir_load_wait(load, -1) < 0 || weir_load_weights(load, &w) < 0)
		bail("%s", weir_error());
	ok(!sample_wrong(w, 1), "targets far apart in a buffer are loaded");
	is_int(resident(base + 8 * MIB, base + 56 * MIB), 0,
	       "memory between targets far apart is not prefaulted");
	weir_weights_free(w);
	weir_load_free(load);
	weir_plan_free(p);
	weir_model_close(model);
	weir_buf_free(buf);
}

int main(void)
{
	void *map;

	plan(28);
	if (weir_open(NULL, &root) < 0 ||
	    weir__sys_map(SIZE, -1, 0, PROT_READ | PROT_WRITE, &map) < 0)
		bail("no memory");
	mem = map;
	in_order();
	of_several_ranges();
	prefaulted_before();
	from_the_middle();
	several();
	stopped();
	refused_pages_are_not_counted();
	of_a_buffer();
	targets_far_apart();
	weir__sys_unmap(map, SIZE);
	weir_close(root);
	return done_testing();
}
