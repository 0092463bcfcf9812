/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mem/buf.h"
#include "kind.h"
#include "testmod.h"
#include "tap.h"
#include "mem/access.h"

#define KIB ((size_t)1 << 10)
#define BIG (900 * KIB) /* near the test device's largest buffer */

static struct weir *weir;

/* A tensor of @n bytes in a buffer of its own; free t.buf. */
static struct weir_tensor bytes_in(struct weir_buft *buft, int64_t n)
{
	struct weir_buf *buf;
	struct weir_tensor t;

	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n) < 0 ||
	    weir_tensors_alloc(buft, &t, 1, &buf) < 0)
		bail("%s", weir_error());
	return t;
}

static unsigned char *pattern(size_t n, unsigned seed)
{
	unsigned char *p = malloc(n);

	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(seed + i * 7 + i / 251);
	return p;
}

static void set_and_get(struct weir_buft *buft)
{
	struct weir_tensor t = bytes_in(buft, 1000);
	unsigned char *src = pattern(1000, 1), got[1000];

	is_int(weir_tensor_set(&t, 0, src, 1000), 0,
	       "bytes of a tensor can be set");
	is_int(weir_tensor_get(&t, 0, got, 1000), 0,
	       "bytes of a tensor can be read");
	is_mem(got, src, 1000,
	       "the bytes that are read are those that were set");
	weir_tensor_set(&t, 990, src, 10);
	weir_tensor_get(&t, 985, got, 15);
	ok(!memcmp(got, src + 985, 5) && !memcmp(got + 5, src, 10),
	   "an offset counts from the tensor's first byte");
	is_int(weir_tensor_fill(&t, 1, 998, 0xee), 0,
	       "bytes of a tensor can be filled");
	weir_tensor_get(&t, 0, got, 1000);
	ok(got[0] == src[0] && got[1] == 0xee && got[998] == 0xee &&
		   got[999] == src[9],
	   "weir_tensor_fill writes its range and no other byte");
	weir_buf_free(t.buf);
	free(src);
}

static void refused_ranges(struct weir_buft *buft)
{
	struct weir_tensor t = bytes_in(buft, 1000);
	unsigned char got[8] = { 0 };

	is_err(weir_tensor_set(&t, SIZE_MAX - 3, got, 8), -EINVAL,
	       "8 bytes from byte 18446744073709551612 on, it has 1000",
	       "a range whose end wraps is refused");
	is_err(weir_tensor_get(&t, 8, got, SIZE_MAX), -EINVAL, "it has 1000",
	       "a range whose length wraps is refused");
	is_err(weir_tensor_fill(&t, 1000, 1, 0), -EINVAL, "1 bytes from byte",
	       "a range that ends one byte after the tensor is refused");
	is_int(weir_tensor_set(&t, 1000, NULL, 0), 0,
	       "0 bytes at the end of a tensor can be set");
	is_err(weir_tensor_set(&t, 1001, NULL, 0), -EINVAL, "1001",
	       "0 bytes after the end of a tensor are refused");
	is_err(weir_tensor_set(&t, 0, NULL, 1), -EINVAL, "NULL",
	       "weir_tensor_set refuses NULL");
	is_err(weir_tensor_get(&t, 0, NULL, 1), -EINVAL, "NULL",
	       "weir_tensor_get refuses NULL");
	weir_buf_free(t.buf);
}

static void rectangles(struct weir_buft *buft)
{
	struct weir_rect r = {
		.off = 3, .width = 10, .rows = 7, .pitch = 100, .host_pitch = 13
	};
	struct weir_tensor t = bytes_in(buft, 1000);
	unsigned char *src = pattern(1000, 1), want[1000], got[1000];

	memset(want, 0x5a, 1000);
	for (unsigned k = 0; k < 7; k++)
		memcpy(want + 3 + k * 100, src + k * 13, 10);
	weir_tensor_fill(&t, 0, 1000, 0x5a);
	is_int(weir_tensor_set_2d(&t, &r, src), 0, "a rectangle can be set");
	weir_tensor_get(&t, 0, got, 1000);
	is_mem(got, want, 1000,
	       "the rows of a rectangle are set, and no byte beside them");
	memset(got, 0xa5, 1000);
	memset(want, 0xa5, 1000);
	for (unsigned k = 0; k < 7; k++)
		memcpy(want + k * 13, src + k * 13, 10);
	weir_tensor_get_2d(&t, &r, got);
	is_mem(got, want, 1000,
	       "the rows of a rectangle are read, and no byte beside them is written");
	r.rows = 11;
	is_err(weir_tensor_set_2d(&t, &r, src), -EINVAL, "1000",
	       "a rectangle that exceeds the tensor is refused");
	r.pitch = 9;
	is_err(weir_tensor_get_2d(&t, &r, got), -EINVAL, "pitch of 9",
	       "a pitch that is less than the width is refused");
	r.pitch = r.host_pitch = 10;
	weir_tensor_set_2d(&t, &r, src);
	weir_tensor_get(&t, 3, got, 110);
	is_mem(got, src, 110, "a rectangle without gaps is set as one range");
	free(src);
	weir_buf_free(t.buf);
}

static void clear(struct weir_buft *buft)
{
	struct weir_tensor t = bytes_in(buft, 1000);
	unsigned char got[1000];

	is_int(weir_buf_clear(t.buf, 3), 0, "a buffer can be cleared");
	weir_tensor_get(&t, 0, got, 1000);
	ok(got[0] == 3 && got[999] == 3,
	   "clearing a buffer writes its first and its last byte");
	weir_buf_free(t.buf);
}

static void of_kind(struct weir_buft *buft, const char *name)
{
	tap_prefix(name);
	set_and_get(buft);
	refused_ranges(buft);
	rectangles(buft);
	clear(buft);
	tap_prefix(NULL);
}

static void read_only(void)
{
	struct weir_tensor t =
		bytes_in(kind_of(weir, "CPU", WEIR_MEM_PLAIN), 100);
	static char mine[100];
	struct weir_tensor m;
	struct weir_buf *ro;
	int64_t n = 100;

	weir_tensor_init(&m, WEIR_DTYPE_U8, 1, &n);
	is_err(weir_tensor_set(&m, 0, mine, 1), -EINVAL, "not placed",
	       "weir_tensor_set refuses a tensor that is not placed");
	if (weir_buf_wrap(kind_of(weir, "CPU", WEIR_MEM_MAPPED), mine, 100,
			  NULL, NULL, &ro) < 0 ||
	    weir_tensor_place(&m, ro, 0) < 0)
		bail("%s", weir_error());
	is_err(weir_tensor_set(&m, 0, mine, 1), -EROFS, "CPU_Mapped",
	       "weir_tensor_set refuses mapped memory");
	is_err(weir_tensor_fill(&m, 0, 1, 1), -EROFS, "CPU_Mapped",
	       "weir_tensor_fill refuses mapped memory");
	is_err(weir_tensor_copy(&m, &t), -EROFS, "CPU_Mapped",
	       "weir_tensor_copy refuses to copy to mapped memory");
	is_int(weir_tensor_copy(&t, &m), 0,
	       "weir_tensor_copy copies from mapped memory");
	weir_buf_free(ro);
	weir_buf_free(t.buf);
}

static void places(void)
{
	struct weir_tensor t = bytes_in(kind_of(weir, "CPU", WEIR_MEM_PLAIN),
					100),
			   v;
	int64_t shape[2] = { 10, 10 };
	static char mine[100];

	weir_tensor_init(&v, WEIR_DTYPE_U8, 2, shape);
	weir_tensor_place(&v, t.buf, 0);
	weir_tensor_view(&v, 1, 2, 3, &v);
	is_err(weir_tensor_set(&v, 0, mine, 1), -EINVAL, "not contiguous",
	       "weir_tensor_set refuses a view with gaps");
	t.offset = 50;
	is_err(weir_tensor_get(&t, 0, mine, 1), -EINVAL,
	       "100 bytes from byte 50 on, the buffer has 100",
	       "a tensor whose offset the caller changed is checked again");
	weir_buf_free(t.buf);
}

static void errors_of_backends(void)
{
	struct weir_tensor f =
		bytes_in(kind_of(weir, "TEST0", WEIR_MEM_DEVICE), 64);
	static char mine[100];

	is_err(weir_tensor_get(&f, 0, mine, 17), -EIO, "the test is slow",
	       "a device's -ETIMEDOUT becomes -EIO");
	is_err(weir_tensor_get(&f, 0, mine, 13), -EIO, "-100000",
	       "a backend's result that is no errno becomes -EIO");
	weir_buf_free(f.buf);
}

static void copies(const char *from, enum weir_mem from_kind, const char *to,
		   enum weir_mem to_kind, int64_t n)
{
	struct weir_tensor src = bytes_in(kind_of(weir, from, from_kind), n);
	struct weir_tensor dst = bytes_in(kind_of(weir, to, to_kind), n);
	unsigned char *bytes = pattern((size_t)n, 9), *got = malloc((size_t)n);

	weir_tensor_set(&src, 0, bytes, (size_t)n);
	is_int(weir_tensor_copy(&dst, &src), 0, "a tensor is copied %s to %s",
	       from, to);
	weir_tensor_get(&dst, 0, got, (size_t)n);
	is_mem(got, bytes, (size_t)n,
	       "all bytes of the tensor are copied from %s to %s", from, to);
	weir_buf_free(src.buf);
	weir_buf_free(dst.buf);
	free(bytes);
	free(got);
}

static void all_copies(void)
{
	enum weir_mem far = WEIR_MEM_DEVICE, here = WEIR_MEM_PLAIN;

	copies("CPU", here, "CPU", WEIR_MEM_HUGE, BIG);
	copies("CPU", here, "TEST0", far, BIG);
	copies("TEST0", far, "CPU", here, BIG);
	copies("TEST0", far, "TEST0", far, BIG);
	copies("TEST0", far, "TEST1", far, BIG);
	copies("TEST0", far, "TEST1", WEIR_MEM_PINNED, 4096);
}

/* Columns 2 to 4 of 10x10 bytes in two buffers. */
static void gaps(const char *name)
{
	struct weir_tensor all[2], part[2];
	unsigned char *bytes = pattern(100, 5), got[100], want[100];
	int64_t shape[2] = { 10, 10 };

	for (int i = 0; i < 2; i++) {
		struct weir_buf *buf;

		weir_tensor_init(&all[i], WEIR_DTYPE_U8, 2, shape);
		if (weir_tensors_alloc(kind_of(weir, name, WEIR_MEM_DEVICE),
				       &all[i], 1, &buf) < 0 ||
		    weir_tensor_view(&all[i], 1, 2, 3, &part[i]) < 0)
			bail("%s", weir_error());
	}
	weir_tensor_set(&all[0], 0, bytes, 100);
	weir_buf_clear(all[1].buf, 0xcc);
	is_int(weir_tensor_copy(&part[1], &part[0]), 0,
	       "%s: a view with gaps can be copied", name);
	weir_tensor_get(&all[1], 0, got, 100);
	memset(want, 0xcc, 100);
	for (int i = 0; i < 10; i++)
		memcpy(want + 10 * i + 2, bytes + 10 * i + 2, 3);
	is_mem(got, want, 100, "%s: a copy of a view leaves the gaps alone",
	       name);
	weir_buf_free(all[0].buf);
	weir_buf_free(all[1].buf);
	free(bytes);
}

/* The cube of 2 in the middle of a cube of 4. */
static void deep_gaps(void)
{
	struct weir_tensor all[2], part[2];
	unsigned char *bytes = pattern(64, 3), got[64];
	int64_t shape[3] = { 4, 4, 4 };
	unsigned wrong = 0;

	for (int i = 0; i < 2; i++) {
		struct weir_buf *buf;

		weir_tensor_init(&all[i], WEIR_DTYPE_U8, 3, shape);
		if (weir_tensors_alloc(kind_of(weir, "CPU", WEIR_MEM_PLAIN),
				       &all[i], 1, &buf) < 0)
			bail("%s", weir_error());
		part[i] = all[i];
		for (unsigned d = 0; d < 3; d++)
			weir_tensor_view(&part[i], d, 1, 2, &part[i]);
	}
	weir_tensor_set(&all[0], 0, bytes, 64);
	weir_buf_clear(all[1].buf, 0xcc);
	is_int(__atomic_load_n(&all[1].buf->mem.backed, __ATOMIC_SEQ_CST) >= 64,
	       1, "a buffer that was cleared is known to be backed");
	weir_tensor_copy(&part[1], &part[0]);
	weir_tensor_get(&all[1], 0, got, 64);
	for (int i = 0; i < 64; i++) {
		int a = i / 16, b = i / 4 % 4, c = i % 4;
		bool in = a % 3 && b % 3 && c % 3;

		wrong += got[i] != (in ? bytes[i] : 0xcc);
	}
	is_int(wrong, 0,
	       "a copy of a cube inside a cube writes the cube and nothing else");
	weir_buf_free(all[0].buf);
	weir_buf_free(all[1].buf);
	free(bytes);
}

static void overlaps(void)
{
	struct weir_tensor t =
		bytes_in(kind_of(weir, "CPU", WEIR_MEM_PLAIN), 100);
	struct weir_tensor a, b, wrapped;
	struct weir_buf *again;

	weir_tensor_view(&t, 0, 0, 50, &a);
	weir_tensor_view(&t, 0, 0, 50, &b);
	is_int(weir_tensor_copy(&a, &b), 0, "a tensor can be copied to itself");
	weir_tensor_view(&t, 0, 50, 50, &b);
	is_int(weir_tensor_copy(&a, &b), 0,
	       "a tensor can be copied to its neighbour");
	weir_tensor_view(&t, 0, 49, 50, &b);
	is_err(weir_tensor_copy(&a, &b), -EINVAL,
	       "50 bytes each, 49 apart: they overlap",
	       "a copy between ranges that overlap is refused");
	if (weir_buf_wrap(kind_of(weir, "CPU", WEIR_MEM_PLAIN),
			  weir_buf_data(t.buf), 100, NULL, NULL, &again) < 0)
		bail("%s", weir_error());
	wrapped = b;
	wrapped.buf = again;
	is_err(weir_tensor_copy(&a, &wrapped), -EINVAL, "overlap",
	       "a copy between ranges that overlap through two buffers is refused");
	weir_buf_free(again);
	weir_buf_free(t.buf);
}

static void unlike(void)
{
	struct weir_tensor t =
		bytes_in(kind_of(weir, "CPU", WEIR_MEM_PLAIN), 100);
	struct weir_tensor a, b;

	weir_tensor_view(&t, 0, 0, 50, &a);
	weir_tensor_view(&t, 0, 50, 49, &b);
	is_err(weir_tensor_copy(&a, &b), -EINVAL, "dimension 0: size 50",
	       "a copy between two shapes is refused");
	b = a;
	b.dtype = WEIR_DTYPE_I8;
	is_err(weir_tensor_copy(&a, &b), -EINVAL, "dtype",
	       "a copy between two dtypes is refused");
	weir_buf_free(t.buf);
}

/* A timeline whose numbers up to @done are done. */
struct counter {
	struct weir__timeline timeline;
	_Atomic uint64_t done;
	_Atomic uint64_t failed;
};

static int counter_state(struct weir__timeline *tl, uint64_t number,
			 struct weir_failure *cause)
{
	struct counter *c = (struct counter *)tl;

	if (number <= atomic_load(&c->done))
		return 1;
	if (number > atomic_load(&c->failed))
		return 0;
	if (cause)
		*cause = (struct weir_failure){ .err = -EIO,
						.text = "it failed" };
	return -EIO;
}

static void counter_free(struct weir__timeline *tl)
{
	(void)tl;
}

static const struct weir__timeline_ops counter_ops = {
	.size = sizeof(counter_ops),
	.state = counter_state,
	.free = counter_free,
};

static struct counter work;
static _Atomic int step;

static void sleep_ms(long ms)
{
	struct timespec ts = { 0, ms * 1000000 };

	nanosleep(&ts, NULL);
}

/* Complete what is queued, one after the other. */
static void *complete(void *arg)
{
	uint64_t last = *(uint64_t *)arg;

	for (uint64_t i = atomic_load(&work.done) + 1; i <= last; i++) {
		sleep_ms(30);
		atomic_store(&step, (int)i);
		atomic_store(&work.done, i);
		weir__timeline_complete(&work.timeline, i);
	}
	return NULL;
}

/*
 * Run @call while numbers up to @last complete; which was done when it
 * returned. None completes after @last: a call that waits for more hangs.
 */
static int step_after(uint64_t last, int (*call)(struct weir_tensor *),
		      struct weir_tensor *t)
{
	pthread_t thread;
	int seen;

	if (pthread_create(&thread, NULL, complete, &last))
		bail("pthread_create");
	if (call(t) < 0)
		diag("%s", weir_error());
	seen = atomic_load(&step);
	pthread_join(thread, NULL);
	return seen;
}

static int call_get(struct weir_tensor *t)
{
	char byte[10];

	return weir_tensor_get(t, 0, byte, 10);
}

static int call_set(struct weir_tensor *t)
{
	return weir_tensor_set(t, 0, "0123456789", 10);
}

static int call_clear(struct weir_tensor *t)
{
	return weir_buf_clear(t->buf, 0);
}

static const struct weir_buf *loaded;

/* Numbers 10, 11 .. 49 of a load: ten bytes each. */
static int find_in_load(struct weir__accesses *accesses,
			const struct weir_buf *buf, uint64_t lo, uint64_t hi,
			struct weir__conflicts *c)
{
	int r = 0;

	(void)accesses;
	for (uint64_t n = lo / 10; buf == loaded && 10 * n < hi && !r; n++)
		r = weir__conflicts_add(c, &work.timeline, 10 + n);
	return r;
}

static void waits_for_conflicts(struct weir_tensor *t)
{
	struct weir__access a = { .buf = t->buf,
				  .lo = 5,
				  .hi = 6,
				  .timeline = &work.timeline,
				  .number = 2 };

	weir__access_add(&a);
	is_int(step_after(0, call_get, t), 0,
	       "a read does not wait for a queued read");
	weir__access_del(&a);
	a.number = 5;
	weir__access_add(&a);
	is_int(step_after(5, call_set, t), 5,
	       "a write waits for a queued read");
	weir__access_del(&a);
	a.number = 8;
	a.write = true;
	weir__access_add(&a);
	is_int(step_after(8, call_get, t), 8,
	       "a read waits for a queued write");
	weir__access_del(&a);
	a.lo = 10;
	a.hi = 400;
	a.number = 11;
	weir__access_add(&a);
	is_int(step_after(8, call_set, t), 8,
	       "a call does not wait for work outside its range");
	weir__access_del(&a);
}

static void waits_for_a_load(struct weir_tensor *t)
{
	struct weir__accesses load = { .find = find_in_load };

	atomic_store(&work.done, 9);
	loaded = t->buf;
	weir__accesses_add(weir, &load);
	is_int(step_after(10, call_get, t), 10,
	       "a read waits for those tensors of a load that are in its range");
	is_int(step_after(49, call_clear, t), 49,
	       "a write of a whole buffer waits for all tensors of a load");
	weir__accesses_del(weir, &load);
}

static void failed_work(struct weir_tensor *t)
{
	struct weir__access a = { .buf = t->buf,
				  .hi = 400,
				  .write = true,
				  .timeline = &work.timeline,
				  .number = 60 };

	atomic_store(&work.failed, 60);
	weir__access_add(&a);
	weir_tensor_get(t, 500, NULL, 0);
	is_int(call_get(t), 0, "a read does not wait for work that has failed");
	has_str(weir_error(), "weir_tensor_get: tensor: 0 bytes from byte 500",
		"the failure of queued work is not the call's own");
	weir__access_del(&a);
	weir__access_del(&a); /* no effect */
}

static void waits(void)
{
	struct weir_tensor t =
		bytes_in(kind_of(weir, "CPU", WEIR_MEM_PLAIN), 400);

	weir__timeline_init(&work.timeline, &counter_ops, weir);
	waits_for_conflicts(&t);
	waits_for_a_load(&t);
	failed_work(&t);
	weir__timeline_fini(&work.timeline);
	weir_buf_free(t.buf);
}

/* The same on the device under test, and copies between it and others. */
#define OF_DEVICE (21 * 2 + 12 + 2)
static void of_device(const char *name)
{
	enum weir_mem far = WEIR_MEM_DEVICE, here = WEIR_MEM_PLAIN;

	of_kind(kind_of(weir, name, WEIR_MEM_DEVICE), "device: ");
	of_kind(kind_of(weir, name, WEIR_MEM_PINNED), "pinned: ");
	copies("CPU", here, name, far, 40 * BIG);
	copies(name, far, "CPU", here, 40 * BIG);
	copies(name, far, name, far, 40 * BIG);
	copies(name, far, name, WEIR_MEM_PINNED, BIG);
	copies(name, far, "TEST0", far, BIG);
	copies("TEST1", far, name, far, BIG);
	gaps(name);
}

int main(void)
{
	const char *name = getenv("WEIR_T_DEVICE");

	weir = open_with_good_module();
	plan(21 * 3 + 9 + 12 + 4 + 2 + 6 + 8 + (name ? OF_DEVICE : 0));
	of_kind(kind_of(weir, "CPU", WEIR_MEM_PLAIN), "host: ");
	of_kind(kind_of(weir, "TEST0", WEIR_MEM_DEVICE), "device: ");
	of_kind(kind_of(weir, "TEST0", WEIR_MEM_PINNED), "pinned: ");
	read_only();
	places();
	errors_of_backends();
	all_copies();
	gaps("CPU");
	gaps("TEST0");
	deep_gaps();
	overlaps();
	unlike();
	waits();
	if (name)
		of_device(name);
	weir_close(weir);
	return done_testing();
}
