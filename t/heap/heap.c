/* SPDX-License-Identifier: MIT */
/* Heaps without streams: blocks, sizes, growth, statistics, records, errors. */
#include <errno.h>
#include <fcntl.h>

#include "streams.h"

#define MIB ((size_t)1 << 20)

static struct weir *weir;
static struct weir_buft *buft;

static struct weir_heap *new_heap(size_t grow, size_t limit)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.grow = grow;
	o.limit = limit;
	must(weir_heap_new(buft, &o, &heap));
	return heap;
}

static struct weir_heap_stats stats_of(struct weir_heap *heap)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(heap, &s));
	return s;
}

static struct weir_block alloc(struct weir_heap *heap, size_t size,
			       size_t align)
{
	struct weir_block b;

	must(weir_heap_alloc(heap, size, align, NULL, &b));
	return b;
}

static void test_blocks(void)
{
	struct weir_heap *heap = new_heap(MIB, 0);
	struct weir_block a, b, c;

	is_int(stats_of(heap).reserved, 0,
	       "a new heap has no buffer before the first block");
	a = alloc(heap, 1000, 0);
	b = alloc(heap, 100000, 4096);
	ok(b.addr % 4096 == 0, "a block has the alignment that was asked for");
	ok(a.addr + a.bytes <= b.addr || b.addr + b.bytes <= a.addr,
	   "two blocks do not overlap");
	is_int(b.addr - (uintptr_t)weir_buf_data(b.buf), b.offset,
	       "a block's address is that of its buffer plus its offset");
	is_int(stats_of(heap).used, a.bytes + b.bytes,
	       "the statistics count the bytes of used blocks");
	must(weir_heap_free(&a, NULL));
	is_err(weir_heap_free(&a, NULL), -EINVAL, "freed before",
	       "a block that was freed cannot be freed again");
	must(weir_heap_find(heap, b.addr, &c));
	is_int(c.id, b.id, "a block is found by its address");
	must(weir_heap_free(&b, NULL));
	is_err(weir_heap_free(&b, NULL), -EINVAL, "freed before",
	       "a large block that was freed cannot be freed again");
	is_int(weir_heap_find(heap, b.addr, &c), -ENOENT,
	       "a block that was freed is not found");
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).reserved, 0, "trim gives empty buffers back");
	weir_heap_destroy(heap);
	weir_heap_destroy(NULL);
}

static void test_again(void)
{
	struct weir_heap *heap = new_heap(MIB, 0);
	struct weir_block a = alloc(heap, 1000, 0), b = alloc(heap, 1000, 0), c;

	must(weir_heap_free(&a, NULL));
	c = alloc(heap, 1000, 0);
	is_int(c.addr, a.addr, "memory of a freed block is used again");
	is_err(weir_heap_free(&a, NULL), -EINVAL, "freed before",
	       "a freed block does not stand for a later one at its address");
	is_int(weir_heap_free(&c, NULL), 0, "the later one can be freed");
	must(weir_heap_free(&b, NULL));
	weir_heap_destroy(heap);
}

static void test_best_fit(void)
{
	struct weir_heap *heap = new_heap(64 * MIB, 0);
	struct weir_block b[9];

	for (int i = 0; i < 9; i++)
		b[i] = alloc(heap, i % 2 ? MIB : MIB + (size_t)i * 65536, 0);
	for (int i = 8; i >= 0; i -= 2)
		must(weir_heap_free(&b[i], NULL));
	is_int(alloc(heap, MIB + 200000, 0).addr, b[4].addr,
	       "the smallest free part that is large enough is used");
	must(weir_heap_free(&b[1], NULL));
	must(weir_heap_free(&b[3], NULL));
	must(weir_heap_free(&b[7], NULL));
	is_int(alloc(heap, 4 * MIB, 0).addr, b[0].addr,
	       "freed neighbours are one part");
	weir_heap_destroy(heap);
}

static void test_cache_fit(void)
{
	struct weir_heap *heap = new_heap(32 * MIB, 0);
	struct weir_block a = alloc(heap, 8192, 0), wall = alloc(heap, 1, 0);
	struct weir_block less;

	must(weir_heap_free(&a, NULL));
	less = alloc(heap, 8192 - 8192 / 8, 0);
	ok(less.addr != a.addr,
	   "a block in a cache is not used for a size that is 1/8 less");
	must(weir_heap_free(&less, NULL));
	less = alloc(heap, 8192 - 8192 / 18, 0);
	is_int(less.addr, a.addr,
	       "a block in a cache is used for a size that is 1/18 less");
	is_int(less.bytes, a.bytes, "the block has the bytes that it had");
	must(weir_heap_free(&less, NULL));
	must(weir_heap_free(&wall, NULL));
	is_int(stats_of(heap).used, 0,
	       "a block of another size is counted with its own bytes");
	weir_heap_destroy(heap);
}

static void test_caches_flushed(void)
{
	struct weir_heap *heap = new_heap(32 * MIB, 0);
	struct weir_block low = alloc(heap, 4 * MIB, 0);
	struct weir_block small = alloc(heap, 1000, 0);
	struct weir_block high = alloc(heap, 4 * MIB, 0);
	struct weir_block large;

	must(weir_heap_free(&small, NULL));
	must(weir_heap_free(&low, NULL));
	must(weir_heap_free(&high, NULL));
	large = alloc(heap, 8 * MIB, 0);
	is_int(large.offset, low.offset,
	       "small blocks in caches do not keep a large block out of free memory");
	must(weir_heap_free(&large, NULL));
	weir_heap_destroy(heap);
}

static void test_growth(void)
{
	struct weir_heap *heap = new_heap(MIB, 3 * MIB);
	struct weir_block a = alloc(heap, MIB, 0), b, c;

	is_int(stats_of(heap).reserved, MIB, "the heap grows by opts.grow");
	b = alloc(heap, MIB + 1, 0);
	is_int(stats_of(heap).reserved, 3 * MIB,
	       "a block that is larger gets a buffer of its size");
	is_err(weir_heap_alloc(heap, MIB, 0, NULL, &c), -ENOMEM,
	       "3145728 bytes", "the heap does not grow above its limit");
	is_int(stats_of(heap).failures, 1, "the failure is counted");
	must(weir_heap_free(&b, NULL));
	must(weir_heap_trim(heap, 2 * MIB));
	is_int(stats_of(heap).buffers, 1,
	       "trim gives back a buffer that is empty");
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).buffers, 1,
	       "trim keeps a buffer that has a block");
	must(weir_heap_free(&a, NULL));
	must(weir_heap_trim(heap, MIB));
	is_int(stats_of(heap).buffers, 1,
	       "weir_heap_trim keeps as many bytes as were asked for");
	weir_heap_destroy(heap);
}

static void test_own_buffer(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	static unsigned char memory[10000];
	struct weir_heap *heap;
	struct weir_block a;

	must(weir_buf_wrap(buft, memory + 1, 9000, NULL, NULL, &o.buf));
	must(weir_heap_new(NULL, &o, &heap));
	a = alloc(heap, 5000, 0);
	ok(a.buf == o.buf && a.addr % 64 == 0,
	   "blocks of the caller's buffer are aligned even if it is not");
	is_err(weir_heap_alloc(heap, 5000, 0, NULL, &a), -ENOMEM,
	       "it does not grow",
	       "a heap of the caller's buffer does not grow by itself");
	must(weir_heap_trim(heap, 0));
	is_int(stats_of(heap).buffers, 1, "trim keeps the caller's buffer");
	weir_heap_destroy(heap);
	weir_buf_free(o.buf);
}

static int try_new(size_t align, struct weir_buf *buf, uint64_t limit)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;

	o.align = align;
	o.buf = buf;
	o.limit = limit;
	return weir_heap_new(buft, &o, &heap);
}

static void test_bad_heaps(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_buf *buf, *joined, *other;
	struct weir_buft *huge;
	struct weir_heap *heap;

	must(weir_buf_alloc(buft, MIB, NULL, &buf));
	must(weir_buf_join(&buf, 1, &joined));
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_HUGE, &huge));
	must(weir_buf_alloc(huge, MIB, NULL, &other));
	is_err(try_new(48, NULL, 0), -EINVAL, "48",
	       "an alignment that is no power of two is refused");
	is_err(try_new(8192, NULL, 0), -EINVAL, "8192",
	       "a unit above 4096 is refused");
	is_err(try_new(0, joined, 0), -EINVAL, "joined",
	       "a joined buffer is refused");
	is_err(try_new(0, other, 0), -EINVAL, "CPU_Huge",
	       "a buffer of another kind of memory is refused");
	is_err(try_new(0, buf, MIB - 1), -EINVAL, "1048575",
	       "a buffer above the limit is refused");
	o.flags = 0x8000;
	is_err(weir_heap_new(buft, &o, &heap), -EINVAL, "0x8000",
	       "unknown flags are refused");
	o.flags = WEIR_BUF_WRITE_COMBINED;
	is_err(weir_heap_new(buft, &o, &heap), -EINVAL, "write-combined",
	       "flags that this kind of memory does not have are refused");
	is_err(weir_heap_new(NULL, NULL, &heap), -EINVAL, "neither",
	       "a heap needs a kind of memory or a buffer");
	weir_buf_free(buf);
	weir_buf_free(joined);
	weir_buf_free(other);
}

static void test_bad_calls(void)
{
	struct weir_heap *heap = new_heap(MIB, MIB), *second = new_heap(MIB, 0);
	struct weir_block a = alloc(heap, 1000, 0), b, bad;

	is_err(weir_heap_alloc(heap, 0, 0, NULL, &b), -EINVAL, "0 bytes",
	       "a block of 0 bytes is refused");
	is_err(weir_heap_alloc(heap, SIZE_MAX, 0, NULL, &b), -EINVAL,
	       "18446744073709551615", "a size that wraps is refused");
	is_err(weir_heap_alloc(heap, SIZE_MAX - 100, 64, NULL, &b), -EINVAL,
	       "2^47", "a size that wraps when it is rounded is refused");
	is_err(weir_heap_alloc(heap, (size_t)1 << 46, (size_t)1 << 47, NULL,
			       &b),
	       -ENOMEM, "1048576", "a size above the limit is refused");
	is_err(weir_heap_alloc(heap, 100, 3, NULL, &b), -EINVAL, "3",
	       "an alignment that is no power of two is refused for a block");
	is_err(weir_heap_alloc(heap, 100, (size_t)1 << 63, NULL, &b), -EINVAL,
	       "2^47", "an alignment that wraps is refused");
	bad = a;
	bad.heap = second;
	is_err(weir_heap_free(&bad, NULL), -EINVAL, "not of",
	       "a block of another heap is refused");
	bad = a;
	bad.addr += 64;
	is_err(weir_heap_free(&bad, NULL), -EINVAL, "not of",
	       "a block with another address is refused");
	bad = a;
	bad.id ^= 0xfffffff0;
	is_err(weir_heap_free(&bad, NULL), -EINVAL, "not of",
	       "a block with a number that does not exist is refused");
	memset(&bad, 0, sizeof(bad));
	is_err(weir_heap_free(&bad, NULL), -EINVAL, "of no heap",
	       "a zeroed block is refused");
	is_int(weir_heap_free(&a, NULL), 0,
	       "a block can be freed after these attempts");
	weir_heap_destroy(heap);
	weir_heap_destroy(second);
}

static void test_exhaustion(void)
{
	struct weir_heap *heap = new_heap(MIB, MIB);
	static struct weir_block b[MIB / 64];
	struct weir_block large;
	size_t n = 0;

	while (weir_heap_alloc(heap, 64, 0, NULL, &b[n]) == 0)
		n++;
	is_int(n, MIB / 64, "all memory of a heap can be handed out");
	for (size_t i = 0; i < n; i++)
		must(weir_heap_free(&b[i], NULL));
	ok(stats_of(heap).cached > 0, "caches keep some of what was freed");
	is_int(weir_heap_alloc(heap, MIB, 0, NULL, &large), 0,
	       "what caches keep is used for a large block");
	weir_heap_destroy(heap);
}

static void test_record(void)
{
	char path[] = "/var/tmp/weir-heap-XXXXXX", text[1024], want[1024];
	struct weir_heap *heap = new_heap(MIB, MIB);
	int fd = mkstemp(path), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct weir_block a, b;
	ssize_t n;

	unlink(path);
	must(weir_heap_record(heap, fd));
	is_int(weir_heap_record(heap, fd), -EBUSY,
	       "a second record at the same time is refused");
	a = alloc(heap, 1000, 0);
	b = alloc(heap, 4096, 4096);
	must(weir_heap_free(&a, NULL));
	(void)!weir_heap_alloc(heap, 2 * MIB, 0, NULL, &a);
	is_int(weir_heap_record(heap, -2), -EBUSY, "only -1 ends a record");
	must(weir_heap_record(heap, -1));
	is_int(weir_heap_record(heap, -2), -EBADF,
	       "there is no record in descriptor -2");
	must(weir_heap_free(&b, NULL));
	n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	snprintf(want, sizeof(want),
		 "# weir heap 1\n# align 64\n+ %u 1000 0 0 %d\n"
		 "+ %u 4096 4096 0 %d\n- %u 0 %d\n+ 0 2097152 0 0 %d\n",
		 (uint32_t)a.id, getpid(), (uint32_t)b.id, getpid(),
		 (uint32_t)a.id, getpid(), getpid());
	is_str(text, want, "a record has a line for each call");
	must(weir_heap_record(heap, full));
	is_int(weir_heap_record(heap, -1), -ENOSPC,
	       "the end of a record returns the error of writing");
	is_int(weir_heap_record(heap, -1), 0,
	       "to end a record that does not run is no error");
	weir_heap_destroy(heap);
	close(fd);
	close(full);
}

int main(void)
{
	plan(58);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	test_blocks();
	test_again();
	test_best_fit();
	test_cache_fit();
	test_caches_flushed();
	test_growth();
	test_own_buffer();
	test_bad_heaps();
	test_bad_calls();
	test_exhaustion();
	test_record();
	weir_close(weir);
	return done_testing();
}
