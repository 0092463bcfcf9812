/* SPDX-License-Identifier: MIT */
/*
 * Uses weir_rmm_resource on the stand-in driver. Prints "ok SENTENCE" for each
 * behaviour; t/cuda/hooks.sh compiles it with the declarations in old and in new.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <rmm/device_buffer.hpp>

#include <weir.h>
#include <weir/rmm.hpp>

#define KIB 1024u
#define MIB (1024u * KIB)

/* Inside of the library: this thread contends for the heap's lock. */
extern "C" int weir__shard_want(weir_heap *heap);

#ifdef __has_include
#if !__has_include(<rmm/mr/device_memory_resource.hpp>)
static_assert(cuda::mr::is_resource<weir_rmm_resource>,
	      "it fulfils the concept cuda::mr::resource");
#endif
#endif

static weir *root;
static weir_dev *gpu;
static weir_heap *heap;

static void ok(bool is_true, const char *what)
{
	std::printf("%s %s\n", is_true ? "ok" : "not ok", what);
}

static void must(int r)
{
	if (r >= 0)
		return;
	std::printf("not ok %s\n", weir_error());
	std::exit(1);
}

/* A CUDA stream; weir makes and owns it. */
static weir_stream *native_stream(CUstream_st **ret_cuda)
{
	weir_stream_opts o = WEIR_STREAM_OPTS_INIT;
	weir_stream *stream;

	o.flags = WEIR_STREAM_NATIVE;
	must(weir_stream_new(gpu, &o, &stream));
	must(weir_cuda_stream_native(stream, ret_cuda));
	return stream;
}

static struct weir_heap_stats stats()
{
	struct weir_heap_stats s;

	std::memset(&s, 0, sizeof(s));
	s.size = sizeof(s);
	must(weir_heap_stats(heap, &s));
	return s;
}

static std::uint64_t live()
{
	return stats().blocks;
}

/* Parts that threads divide by themselves are of 1 MiB here. */
static void shards(rmm::cuda_stream_view stream)
{
	weir_rmm_resource mr(gpu, heap);
	void *p = mr.allocate(stream, 100 * KIB);
	bool small = stats().peak < MIB;

	mr.deallocate(stream, p, 100 * KIB);
	must(weir__shard_want(heap));
	p = mr.allocate(stream, 100 * KIB);
	mr.deallocate(stream, p, 100 * KIB);
	p = mr.allocate(stream, 100 * KIB);
	ok(small && stats().peak >= MIB,
	   "threads that contend divide memory by themselves");
	mr.deallocate(stream, p, 100 * KIB);
}

/* Each block is a little larger than the buffer of the last one. */
static void growing_sizes(rmm::cuda_stream_view stream)
{
	weir_rmm_resource mr(gpu, heap);
	std::size_t n;

	try {
		for (n = 80 * MIB; n < 250 * MIB; n += 7 * MIB)
			mr.deallocate(stream, mr.allocate(stream, n), n);
	} catch (const rmm::out_of_memory &) {
	}
	ok(n >= 250 * MIB, "with all buffers empty there is memory");
}

static void one_stream(rmm::cuda_stream_view stream)
{
	weir_rmm_resource mr(gpu, heap);
	void *first = mr.allocate(stream, 100 * KIB), *second;

	ok(first && live() == 1, "a resource allocates a block of its heap");
	ok(reinterpret_cast<std::uintptr_t>(first) % 256 == 0,
	   "a block for RMM is aligned to 256 bytes");
	mr.deallocate(stream, first, 100 * KIB);
	ok(live() == 0, "a resource frees the block of an address");
	second = mr.allocate(stream, 100 * KIB);
	ok(first == second,
	   "memory that was freed in a stream is used again there");
	mr.deallocate(stream, second, 100 * KIB);
}

static void nothing(rmm::cuda_stream_view stream)
{
	weir_rmm_resource mr(gpu, heap);
	void *none = mr.allocate(stream, 0);

	ok(!none && live() == 0, "a resource allocates no block of 0 bytes");
	mr.deallocate(stream, none, 0);
}

static void too_much(rmm::cuda_stream_view stream)
{
	weir_rmm_resource mr(gpu, heap);
	const char *what = "";

	try {
		(void)mr.allocate(stream, std::size_t(1) << 40);
	} catch (const rmm::out_of_memory &e) {
		what = std::strstr(e.what(), "weir_heap_alloc") ? "it" : "";
	}
	ok(*what,
	   "without memory a resource throws rmm::out_of_memory with the sentence");
}

static void copies(rmm::cuda_stream_view stream)
{
	weir_rmm_resource mr(gpu, heap), other(gpu, heap);
	weir_rmm_resource copy = mr;

	ok(copy == mr && !(other == mr),
	   "a resource equals its copies and no other one");
	{
		rmm::device_buffer buffer(10 * KIB, stream, mr);

		ok(live() == 1, "a buffer of RMM is a block of the heap");
	}
	ok(live() == 0, "a buffer of RMM frees its block");
}

int main()
{
	weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	CUstream_st *cuda;
	weir_stream *stream;
	weir_buft *memory;

	must(weir_open(nullptr, &root));
	must(weir_dev_find(root, "CUDA0", &gpu));
	must(weir_dev_buft(gpu, WEIR_MEM_DEVICE, &memory));
	o.limit = 256u << 20;
	must(weir_heap_new(memory, &o, &heap));
	stream = native_stream(&cuda);
	shards(cuda);
	one_stream(cuda);
	growing_sizes(cuda);
	nothing(cuda);
	too_much(cuda);
	copies(cuda);
	weir_heap_destroy(heap);
	weir_stream_free(stream);
	weir_close(root);
	return 0;
}
