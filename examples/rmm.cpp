/* SPDX-License-Identifier: MIT */
/*
 * A buffer of RMM in a heap of weir, which has at most 1 GiB of the GPU. Needs
 * C++17 and RMM of 24.04 or newer:
 *
 *	c++ -std=c++17 rmm.cpp -o rmm $(pkg-config --cflags --libs weir) -lrmm
 */
#include <cstdio>
#include <exception>

#include <rmm/device_buffer.hpp>

#include <weir.h>
#include <weir/rmm.hpp>

static void use(weir_dev *gpu, weir_heap *heap)
{
	weir_rmm_resource resource(gpu, heap);
	struct weir_heap_stats stats = {};
	rmm::device_buffer buffer(1 << 20, rmm::cuda_stream_view{}, resource);

	stats.size = sizeof(stats);
	weir_heap_stats(heap, &stats);
	std::printf("%zu bytes at %p, %llu blocks\n", buffer.size(),
		    buffer.data(),
		    static_cast<unsigned long long>(stats.blocks));
}

static int run(weir *root)
{
	weir_heap_opts opts = WEIR_HEAP_OPTS_INIT;
	weir_heap *heap;
	weir_buft *memory;
	weir_dev *gpu;

	opts.limit = 1u << 30;
	if (weir_dev_find_type(root, WEIR_DEV_GPU, &gpu) < 0 ||
	    weir_dev_buft(gpu, WEIR_MEM_DEVICE, &memory) < 0 ||
	    weir_heap_new(memory, &opts, &heap) < 0)
		return std::fprintf(stderr, "%s\n", weir_error()), 1;
	try {
		use(gpu, heap);
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s\n", e.what());
	}
	weir_heap_destroy(heap);
	return 0;
}

int main()
{
	weir *root;
	int status;

	if (weir_open(nullptr, &root) < 0)
		return std::fprintf(stderr, "%s\n", weir_error()), 1;
	status = run(root);
	weir_close(root);
	return status;
}
