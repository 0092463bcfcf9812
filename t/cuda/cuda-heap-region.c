/* SPDX-License-Identifier: MIT */
/*
 * Heaps in reserved addresses of a GPU, whose memory is mapped in granules:
 * growth in place, parts given back, copies between devices, driver calls that
 * fail, and a lost device.
 */
#include <sys/wait.h>

#include "gpu.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define UNKNOWN 999      /* a CUresult */
#define OUT_OF_MEMORY 2  /* a CUresult */
#define ILLEGAL_ADDR 700 /* a CUresult that ends a context */

static struct weir *weir;
static struct weir_buft *buft;

static struct weir_heap *new_heap(struct weir_buft *of, uint64_t reserve,
				  uint64_t grow, uint64_t limit)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.reserve = reserve;
	o.grow = grow;
	o.limit = limit;
	must(weir_heap_new(of, &o, &heap));
	return heap;
}

static struct weir_heap_stats stats_of(struct weir_heap *heap)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(heap, &s));
	return s;
}

static uint64_t reserved_by(struct weir_heap *heap)
{
	return stats_of(heap).reserved;
}

static struct weir_block alloc(struct weir_heap *heap, size_t size)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, size, 0, NULL, &b));
	return b;
}

static void free_block(struct weir_block b)
{
	must(weir_heap_free(&b, NULL));
}

static struct weir_tensor tensor_of(const struct weir_block *b)
{
	int64_t shape = (int64_t)b->bytes;
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&t, b->buf, b->offset));
	return t;
}

static void fill(const struct weir_block *b, uint8_t byte)
{
	struct weir_tensor t = tensor_of(b);

	must(weir_tensor_fill(&t, 0, b->bytes, byte));
}

/* A byte of each MiB, and the last one. */
static bool holds(const struct weir_block *b, uint8_t byte)
{
	struct weir_tensor t = tensor_of(b);
	uint8_t got;

	for (size_t at = 0; at < b->bytes; at += MIB) {
		must(weir_tensor_get(&t, at, &got, 1));
		if (got != byte)
			return false;
	}
	must(weir_tensor_get(&t, b->bytes - 1, &got, 1));
	return got == byte;
}

static uint64_t device_bytes(void)
{
	struct fakecuda_counts c;

	fake.counts(&c);
	return c.device_bytes;
}

static bool has_memory(void)
{
	struct fakecuda_counts c;

	fake.counts(&c);
	return c.device_bytes || c.live[FAKECUDA_ADDRESSES];
}

/*
 * Its memory, then its addresses, are freed by a thread: no call of that is to
 * meet a fault that a test arms next. No other heap has any.
 */
static void destroy(struct weir_heap *heap)
{
	weir_heap_destroy(heap);
	for (int i = 0; i < 2000 && has_memory(); i++)
		usleep(5000);
	if (has_memory())
		bail("a heap that was destroyed has memory");
}

static void grows_in_place(void)
{
	struct weir_heap *heap = new_heap(buft, 64 * MIB, 1, 0);
	uint64_t before = device_bytes();
	struct weir_block b[5], c;

	is_int(stats_of(heap).addresses, 64 * MIB, "a heap reserves addresses");
	is_int(reserved_by(heap), 0, "they have no memory at first");
	for (unsigned i = 0; i < 5; i++) {
		b[i] = alloc(heap, 4 * MIB);
		fill(&b[i], i);
	}
	ok(b[4].addr - b[0].addr == 16 * MIB && stats_of(heap).buffers == 1,
	   "five blocks follow each other in one region");
	is_int(device_bytes() - before, 20 * MIB,
	       "the device has as much memory as they need");
	free_block(b[1]);
	free_block(b[2]);
	must(weir_heap_trim(heap, 0));
	is_int(device_bytes() - before, 12 * MIB,
	       "a trim unmaps what several calls have committed");
	c = alloc(heap, 7 * MIB);
	is_int(c.addr, b[1].addr, "the hole is used again");
	fill(&c, 9);
	ok(holds(&b[0], 0) && holds(&c, 9) && holds(&b[3], 3) &&
		   holds(&b[4], 4),
	   "all blocks keep their bytes");
	free_block(c);
	b[1] = alloc(heap, 2 * MIB);
	b[2] = alloc(heap, 3 * MIB);
	free_block(b[1]);
	must(weir_heap_trim(heap, 0));
	is_int(reserved_by(heap), 16 * MIB,
	       "a trim unmaps parts of what one call has committed");
	is_int(device_bytes() - before, 16 * MIB, "the device has them back");
	fill(&b[2], 8);
	ok(holds(&b[0], 0) && holds(&b[2], 8) && holds(&b[3], 3),
	   "and the blocks around them keep their bytes");
	destroy(heap);
}

static void no_fragments(void)
{
	struct weir_heap *heap = new_heap(buft, 256 * MIB, 0, 0), *other;
	struct weir_heap_stats s;
	struct weir_block b[12], c;

	other = new_heap(buft, 0, 16 * MIB, 256 * MIB);
	for (unsigned i = 0; i < 12; i++)
		b[i] = alloc(heap, 16 * MIB);
	for (unsigned i = 1; i < 12; i++)
		free_block(b[i]);
	s = stats_of(heap);
	is_int(s.largest, s.reserved - s.used,
	       "free memory of a region is one block");
	c = alloc(heap, s.addresses - s.used);
	is_int(c.bytes, 240 * MIB, "the largest block has all that is left");
	fill(&c, 1);
	ok(holds(&c, 1), "with memory at each address");
	weir_heap_destroy(heap);
	for (unsigned i = 0; i < 12; i++)
		b[i] = alloc(other, 16 * MIB);
	for (unsigned i = 1; i < 12; i++)
		free_block(b[i]);
	s = stats_of(other);
	ok(s.largest == 16 * MIB && s.reserved - s.used == 176 * MIB,
	   "free memory of separate buffers is in as many blocks");
	destroy(other);
}

/* Blocks that grow, as a cache does, with small ones in between. */
static uint64_t peak_of_growth(uint64_t reserve)
{
	struct weir_heap *heap =
		new_heap(buft, reserve, reserve ? 0 : 4 * MIB, 0);
	struct weir_block large[4], small[64];
	uint64_t peak;

	for (unsigned i = 0; i < 4; i++)
		large[i] = alloc(heap, (8 + i) * MIB);
	for (unsigned i = 0; i < 64; i++) {
		struct weir_block *b = &large[i % 4], next;

		next = alloc(heap, b->bytes + 3 * MIB);
		free_block(*b);
		*b = next;
		small[i] = alloc(heap, 300000);
		if (i >= 16)
			free_block(small[i - 16]);
	}
	peak = stats_of(heap).reserved_peak;
	destroy(heap);
	return peak;
}

static void growth(void)
{
	uint64_t buffers = peak_of_growth(0), region = peak_of_growth(2 * GIB);

	diag("peak: %llu MiB in buffers, %llu in reserved addresses",
	     (unsigned long long)(buffers / MIB),
	     (unsigned long long)(region / MIB));
	ok(region * 2 <= buffers,
	   "blocks that grow need at most half of the memory that buffers need");
}

static void granules(void)
{
	struct weir_heap *heap = new_heap(buft, 8 * GIB, 1, 0);
	struct weir_block b = alloc(heap, 1);

	is_int(reserved_by(heap), 8 * MIB,
	       "granules of a region of 8 GiB have 8 MiB");
	is_int(b.addr % (8 * MIB), 0, "and are aligned");
	destroy(heap);
	heap = new_heap(buft, 2 * GIB, 1, 0);
	b = alloc(heap, 1);
	is_int(reserved_by(heap), 2 * MIB, "those of a small one have 2 MiB");
	destroy(heap);
	heap = new_heap(buft, WEIR_HEAP_RESERVE_ALL, 1, 0);
	is_int(stats_of(heap).addresses, 8 * GIB,
	       "a heap can reserve as many addresses as the device has memory");
	destroy(heap);
}

static void out_of_memory(void)
{
	struct weir_heap *heap = new_heap(buft, 64 * MIB, 1, 0);
	struct weir_block a = alloc(heap, 4 * MIB), b;
	uint64_t before = device_bytes();

	fill(&a, 1);
	fake.arm("cuMemCreate", 5, FAKECUDA_FROM_THEN_ON, OUT_OF_MEMORY);
	is_err(weir_heap_alloc(heap, 20 * MIB, 0, NULL, &b), -ENOMEM, "free)",
	       "the device runs out of memory while the heap grows");
	fake.disarm();
	diag("%s", weir_error());
	is_int(device_bytes(), before, "what was created is released");
	is_int(reserved_by(heap), 4 * MIB, "the heap is as before");
	ok(holds(&a, 1), "its block keeps its bytes");
	b = alloc(heap, 20 * MIB);
	fill(&b, 2);
	ok(holds(&a, 1) && holds(&b, 2), "the heap grows when there is memory");
	destroy(heap);
}

/* The device has 64 MiB, of which a heap has 48 that it does not use. */
static void unused_memory(uint64_t reserve, const char *what)
{
	struct weir_heap *heap = new_heap(buft, reserve, 2 * MIB, 0);
	struct weir_block b[24];
	struct weir_buf *buf;

	fake.set("MEM", "67108864");
	for (unsigned i = 0; i < 24; i++)
		b[i] = alloc(heap, 2 * MIB);
	fill(&b[0], 5);
	for (unsigned i = 1; i < 24; i++)
		free_block(b[i]);
	is_int(weir_buf_alloc(buft, 40 * MIB, NULL, &buf), 0,
	       "%s: a buffer gets memory that a heap does not use", what);
	ok(reserved_by(heap) <= 24 * MIB && holds(&b[0], 5),
	   "%s: the heap has the rest, and its used block", what);
	weir_buf_free(buf);
	is_int(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_PINNED), 4 * MIB, NULL,
			      &buf),
	       0, "%s: page-locked memory is allocated", what);
	ok(reserved_by(heap) > 2 * MIB, "%s: which takes nothing from the heap",
	   what);
	weir_buf_free(buf);
	must(weir_trim(weir, 0));
	is_int(reserved_by(heap), 2 * MIB,
	       "%s: weir_trim() gives back the rest", what);
	fake.set("MEM", "8589934592");
	destroy(heap);
}

/* A thread that allocates memory, which a heap has and does not use. */
struct needy {
	pthread_t thread;
	struct weir_buf *buf;
	int result;
	_Atomic bool released; /* the release function was called */
	bool by_itself;        /* on this thread */
};

static void released(void *arg)
{
	struct needy *n = arg;

	n->by_itself = pthread_equal(pthread_self(), n->thread);
	n->released = true;
}

static void *needy_main(void *arg)
{
	struct needy *n = arg;

	n->result = weir_buf_alloc(buft, 48 * MIB, NULL, &n->buf);
	return NULL;
}

static void destroyed_when_visited(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *other = new_heap(buft, 64 * MIB, 1, 0), *heap;
	struct weir_block b = alloc(other, 2 * MIB), c;
	unsigned long strikes = fake.struck();
	struct needy n = { .buf = NULL };

	must(weir_buf_wrap(buft, (void *)(uintptr_t)b.addr, b.bytes, released,
			   &n, &o.buf));
	o.reserve = 64 * MIB;
	must(weir_heap_new(buft, &o, &heap));
	weir_buf_free(o.buf);
	c = alloc(heap, 32 * MIB);
	free_block(c);
	fake.set("MEM", "67108864");
	fake.arm("cuMemUnmap", 1, FAKECUDA_HANG, 0);
	if (pthread_create(&n.thread, NULL, needy_main, &n))
		bail("pthread_create");
	while (fake.struck() == strikes)
		usleep(1000);
	weir_heap_destroy(heap);
	ok(!n.released, "a heap that gives back memory is destroyed");
	fake.disarm();
	fake.release();
	pthread_join(n.thread, NULL);
	is_int(n.result, 0, "the buffer gets the memory");
	for (unsigned i = 0; i < 10000 && !n.released; i++)
		usleep(1000);
	ok(n.released && !n.by_itself,
	   "the release function is not called in weir_buf_alloc()");
	weir_buf_free(n.buf);
	fake.set("MEM", "8589934592");
	free_block(b);
	destroy(other);
}

/* A heap with holes, and a free block between them. */
static struct weir_heap *holed_heap(struct weir_block b[2])
{
	struct weir_heap *heap = new_heap(buft, 64 * MIB, 1, 0);
	struct weir_block c[3];

	b[0] = alloc(heap, 4 * MIB);
	c[0] = alloc(heap, 4 * MIB);
	c[1] = alloc(heap, 4 * MIB);
	c[2] = alloc(heap, 4 * MIB);
	b[1] = alloc(heap, 4 * MIB);
	fill(&b[0], 1);
	fill(&b[1], 2);
	free_block(c[0]);
	free_block(c[2]);
	must(weir_heap_trim(heap, 0));
	free_block(c[1]);
	return heap;
}

/* The call @n of the driver fails; false: there are fewer. */
static bool failing_growth(unsigned n, const char **wrong)
{
	struct weir_block b[2], c = { .heap = NULL };
	struct weir_heap *heap = holed_heap(b);
	uint64_t before = device_bytes();
	unsigned long strikes = fake.struck();
	bool struck;
	int r;

	fake.arm("*", n, FAKECUDA_ONCE, UNKNOWN);
	r = weir_heap_alloc(heap, 12 * MIB, 0, NULL, &c);
	struck = fake.struck() != strikes;
	fake.disarm();
	if (r < 0 && !strstr(weir_error(), "CUDA"))
		*wrong = "a sentence";
	if (r < 0 && device_bytes() != before)
		*wrong = "memory is left";
	if (r < 0 && reserved_by(heap) != 12 * MIB)
		*wrong = "the heap has changed";
	if (r < 0)
		c = alloc(heap, 12 * MIB);
	fill(&c, 3);
	if (!holds(&b[0], 1) || !holds(&b[1], 2) || !holds(&c, 3))
		*wrong = "bytes have changed";
	if (device_bytes() != before + 8 * MIB)
		*wrong = "the heap has grown by another size";
	destroy(heap);
	return struck;
}

static bool failing_trim(unsigned n, const char **wrong)
{
	struct weir_block b[2], c;
	struct weir_heap *heap = holed_heap(b);
	unsigned long strikes = fake.struck();
	bool struck;

	fake.arm("*", n, FAKECUDA_ONCE, UNKNOWN);
	weir_heap_trim(heap, 0);
	struck = fake.struck() != strikes;
	fake.disarm();
	if (device_bytes() != reserved_by(heap))
		*wrong = "the heap and the driver disagree";
	must(weir_heap_trim(heap, 0));
	if (device_bytes() != 8 * MIB || reserved_by(heap) != 8 * MIB)
		*wrong = "a later trim does not give all back";
	c = alloc(heap, 12 * MIB);
	fill(&c, 3);
	if (!holds(&b[0], 1) || !holds(&b[1], 2) || !holds(&c, 3))
		*wrong = "bytes have changed";
	destroy(heap);
	return struck;
}

static bool failing_start(unsigned n, const char **wrong)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;
	unsigned long strikes = fake.struck();
	bool struck;
	int r;

	o.reserve = 64 * MIB;
	fake.arm("*", n, FAKECUDA_ONCE, UNKNOWN);
	r = weir_heap_new(buft, &o, &heap);
	struck = fake.struck() != strikes;
	fake.disarm();
	if (r < 0 && !strstr(weir_error(), "CUDA"))
		*wrong = "a sentence";
	if (r == 0)
		destroy(heap);
	return struck;
}

static void each_fault(const char *what,
		       bool (*run)(unsigned n, const char **wrong))
{
	const char *wrong = NULL;
	unsigned n = 1;

	while (run(n, &wrong) && !wrong)
		n++;
	ok(!wrong && n > 2, "%s: each driver call fails in turn%s%s", what,
	   wrong ? ": " : "", wrong ? wrong : "");
}

/* The memory that cannot be unmapped after a failure is mapped already. */
static void failed_undo(void)
{
	struct weir_heap *heap = new_heap(buft, 64 * MIB, 1, 0);
	struct weir_block b;

	fake.arm("cuMemSetAccess", 1, FAKECUDA_ONCE, UNKNOWN);
	fake.arm("cuMemUnmap", 1, FAKECUDA_ONCE, UNKNOWN);
	ok(weir_heap_alloc(heap, 6 * MIB, 0, NULL, &b) < 0,
	   "a heap does not grow, and the driver does not undo it: %s",
	   weir_error());
	fake.disarm();
	is_int(reserved_by(heap), 0, "the heap has no memory");
	b = alloc(heap, 10 * MIB);
	fill(&b, 1);
	ok(holds(&b, 1), "it grows over what was mapped then");
	is_int(device_bytes(), 10 * MIB, "which is not mapped twice");
	destroy(heap);
}

static void lost_device(void)
{
	struct weir *root = open_cuda();
	struct weir_heap *heap =
		new_heap(gpu_memory(root, WEIR_MEM_DEVICE), 64 * MIB, 1, 0);
	struct weir_block a = alloc(heap, 4 * MIB), b;

	fake.arm("cuMemCreate", 1, FAKECUDA_STICKY, ILLEGAL_ADDR);
	is_err(weir_heap_alloc(heap, 4 * MIB, 0, NULL, &b), -ENODEV, "CUDA0",
	       "a heap of a lost device does not grow");
	fake.disarm();
	free_block(a);
	is_int(weir_heap_trim(heap, 0), 0, "a trim of it does nothing");
	is_int(reserved_by(heap), 4 * MIB, "its memory stays");
	weir_heap_destroy(heap);
	weir_close(root);
}

static void between_devices(void)
{
	struct weir_heap *heap[2];
	struct weir_block b[2];
	struct weir_tensor t[2];
	struct weir_stream *s;
	struct weir_buft *other;
	struct weir_dev *dev;

	must(weir_dev_find(weir, "CUDA1", &dev));
	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &other));
	heap[0] = new_heap(buft, 64 * MIB, 1, 0);
	heap[1] = new_heap(other, 64 * MIB, 1, 0);
	for (unsigned i = 0; i < 2; i++) {
		b[i] = alloc(heap[i], 9 * MIB);
		t[i] = tensor_of(&b[i]);
	}
	fill(&b[0], 7);
	s = gpu_stream(weir, "peer", 0);
	is_int(weir_stream_copy(s, &t[1], &t[0]), 0,
	       "a block is copied to a block of another device");
	must(weir_stream_sync(s, -1));
	ok(holds(&b[1], 7), "across granules, with every byte");
	ok(fake.calls("cuMemSetAccess") >= 2,
	   "other devices have access to committed memory");
	weir_stream_free(s);
	weir_heap_destroy(heap[0]);
	destroy(heap[1]);
}

static void refused(struct weir_buft *of, uint32_t flags, const char *why,
		    const char *what)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.reserve = 64 * MIB;
	o.flags = flags;
	must(weir_heap_new(of, &o, &heap));
	is_int(stats_of(heap).addresses, 0, "%s has buffers instead", what);
	destroy(heap);
	o.flags |= WEIR_BUF_STRICT;
	is_err(weir_heap_new(of, &o, &heap), -EOPNOTSUPP, why,
	       "or it is refused if that is asked for");
}

static void without_calls(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
		struct weir_heap *heap;

		setenv("FAKECUDA_NO", "virtual", 1);
		open_fake();
		weir = open_cuda();
		o.reserve = 64 * MIB;
		o.flags = WEIR_BUF_STRICT;
		_exit(weir_heap_new(gpu_memory(weir, WEIR_MEM_DEVICE), &o,
				    &heap) == -EOPNOTSUPP &&
				      strstr(weir_error(), "virtual memory")
			      ? 0
			      : 1);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
	   "a driver without virtual memory cannot commit memory in parts");
}

int main(void)
{
	const char *dir = getenv("WEIR_T_FAKECUDA");

	if (dir && !*dir)
		skip_all("needs the stand-in for the driver");
	plan(59);
	setenv("FAKECUDA_DEVICES", "2", 1);
	without_calls();
	open_fake();
	weir = open_cuda();
	buft = gpu_memory(weir, WEIR_MEM_DEVICE);
	grows_in_place();
	no_fragments();
	growth();
	granules();
	out_of_memory();
	unused_memory(64 * MIB, "reserved addresses");
	unused_memory(0, "buffers");
	destroyed_when_visited();
	between_devices();
	refused(buft, WEIR_BUF_PARKABLE, "parked",
		"a heap of memory that can be parked");
	refused(buft, WEIR_BUF_SHARED, "shared",
		"a heap of memory that can be shared");
	refused(gpu_memory(weir, WEIR_MEM_PINNED), 0, "page-locked",
		"a heap of page-locked memory");
	each_fault("a heap that starts", failing_start);
	each_fault("a heap that grows", failing_growth);
	each_fault("a heap that is trimmed", failing_trim);
	failed_undo();
	weir_close(weir);
	all_given_back("after all,");
	lost_device();
	return done_testing();
}
