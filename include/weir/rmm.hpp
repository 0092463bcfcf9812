/* SPDX-License-Identifier: MIT */
/*
 * A heap as a memory resource of RMM: weir_rmm_resource, see weir-hooks(7).
 * Needs C++17 and RMM 24.04 or newer. Up to RMM 26.04 it is derived from
 * rmm::mr::device_memory_resource; RMM 26.06 and newer has no such class, and
 * accepts any class that fulfils the concept cuda::mr::resource.
 */
#ifndef WEIR_RMM_HPP
#define WEIR_RMM_HPP

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#if __has_include(<rmm/error.hpp>)
#include <rmm/error.hpp>
#else
#include <rmm/detail/error.hpp>
#endif
#if __has_include(<rmm/mr/device_memory_resource.hpp>)
#include <rmm/mr/device_memory_resource.hpp>
#define WEIR__RMM_BASE 1
#elif __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#include <rmm/mr/device/device_memory_resource.hpp>
#define WEIR__RMM_BASE 1
#else
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#endif

#include <weir/cuda.h>
#include <weir/heap.h>

/*
 * A heap of device memory, and a weir stream around each CUDA stream with which
 * it was used. A weir stream of NULL means that there is none (see weir/heap.h).
 * Any thread; takes no lock.
 */
class weir_rmm_heap
{
      public:
	weir_rmm_heap(weir_dev *dev, weir_heap *heap) : dev_(dev), heap_(heap)
	{
	}

	weir_rmm_heap(const weir_rmm_heap &) = delete;
	weir_rmm_heap &operator=(const weir_rmm_heap &) = delete;

	~weir_rmm_heap()
	{
		for (auto &list : streams_)
			while (entry *e = list) {
				list = e->next;
				delete e;
			}
	}

	/* The weir stream around a CUDA stream, which is made at the first use. */
	weir_stream *stream(CUstream_st *cuda)
	{
		auto key = reinterpret_cast<std::uintptr_t>(cuda) >> 4;
		auto &list = streams_[(key ^ key >> 6) % lists];
		entry *first = list;

		if (entry *known = find(first, cuda))
			return known->stream;
		auto made = std::make_unique<entry>(cuda);
		check(weir_cuda_stream_wrap(dev_, cuda, &made->stream));
		do {
			/* Another thread may have added the same stream. */
			if (entry *known = find(first, cuda))
				return known->stream;
			made->next = first;
		} while (!list.compare_exchange_weak(first, made.get()));
		return made.release()->stream;
	}

	/* If there is no memory, wait for the memory that is pending. */
	void *allocate(std::size_t bytes, std::size_t align,
		       weir_stream *stream)
	{
		weir_block block;
		int r;

		if (bytes == 0)
			return nullptr;
		r = weir_heap_alloc(heap_, bytes, align, stream, &block);
		if (r == -ENOMEM) {
			wait();
			r = weir_heap_alloc(heap_, bytes, align, stream,
					    &block);
		}
		check(r);
		return reinterpret_cast<void *>(
			static_cast<std::uintptr_t>(block.addr));
	}

	void deallocate(void *ptr, weir_stream *stream)
	{
		auto addr = reinterpret_cast<std::uintptr_t>(ptr);
		weir_block block;

		if (!ptr)
			return;
		check(weir_heap_find(heap_, addr, &block));
		check(weir_heap_free(&block, stream));
	}

      private:
	struct entry {
		explicit entry(CUstream_st *s) : cuda(s)
		{
		}

		entry(const entry &) = delete;
		entry &operator=(const entry &) = delete;

		~entry()
		{
			weir_stream_free(stream);
		}

		CUstream_st *cuda;
		weir_stream *stream = nullptr;
		entry *next = nullptr;
	};

	static void check(int r)
	{
		if (r < 0)
			throw rmm::out_of_memory(weir_error());
	}

	static entry *find(entry *first, const CUstream_st *cuda)
	{
		while (first && first->cuda != cuda)
			first = first->next;
		return first;
	}

	/*
	 * Wait for all work. A trim marks the present ends of the streams, but
	 * those of streams with an older mark only when that is done, so there
	 * are two rounds. Failures are ignored: the next allocation fails.
	 */
	void wait()
	{
		for (int i = 0; i < 2; i++) {
			(void)!weir_heap_trim(heap_, SIZE_MAX);
			for (auto &list : streams_)
				for (entry *e = list; e; e = e->next)
					(void)!weir_stream_sync(e->stream, -1);
		}
	}

	static constexpr std::size_t lists = 64;

	weir_dev *dev_;
	weir_heap *heap_;
	std::atomic<entry *> streams_[lists] = {}; /* only added to */
};

/*
 * The resource. Its copies share the wrapped streams. The heap belongs to the
 * caller, and must exist until the last copy is destroyed. An allocation that
 * fails throws rmm::out_of_memory with the sentence of weir_error(). A block that
 * cannot be freed stays allocated, since work may still use it.
 */
#ifdef WEIR__RMM_BASE
class weir_rmm_resource final : public rmm::mr::device_memory_resource
{
      public:
	weir_rmm_resource(weir_dev *dev, weir_heap *heap)
	    : heap_(std::make_shared<weir_rmm_heap>(dev, heap))
	{
	}

      private:
	void *do_allocate(std::size_t bytes, rmm::cuda_stream_view s) override
	{
		return heap_->allocate(bytes, 256, heap_->stream(s.value()));
	}

	void do_deallocate(void *ptr, std::size_t,
			   rmm::cuda_stream_view s) noexcept override
	{
		try {
			heap_->deallocate(ptr, heap_->stream(s.value()));
		} catch (...) {
		}
	}

	bool do_is_equal(const rmm::mr::device_memory_resource &other)
		const noexcept override
	{
		auto same = dynamic_cast<const weir_rmm_resource *>(&other);

		return same && same->heap_ == heap_;
	}

	std::shared_ptr<weir_rmm_heap> heap_;
};
#else
class weir_rmm_resource
{
      public:
	weir_rmm_resource(weir_dev *dev, weir_heap *heap)
	    : heap_(std::make_shared<weir_rmm_heap>(dev, heap))
	{
	}

	void *allocate(cuda::stream_ref s, std::size_t bytes,
		       std::size_t align = 256)
	{
		return heap_->allocate(bytes, align, heap_->stream(s.get()));
	}

	void deallocate(cuda::stream_ref s, void *ptr, std::size_t,
			std::size_t = 256) noexcept
	{
		try {
			heap_->deallocate(ptr, heap_->stream(s.get()));
		} catch (...) {
		}
	}

	/* Allocate memory that any stream may use at once. */
	void *allocate_sync(std::size_t bytes, std::size_t align = 256)
	{
		return heap_->allocate(bytes, align, nullptr);
	}

	/* Free memory that no work uses any more. */
	void deallocate_sync(void *ptr, std::size_t, std::size_t = 256) noexcept
	{
		try {
			heap_->deallocate(ptr, nullptr);
		} catch (...) {
		}
	}

	bool operator==(const weir_rmm_resource &other) const noexcept
	{
		return heap_ == other.heap_;
	}

	bool operator!=(const weir_rmm_resource &other) const noexcept
	{
		return heap_ != other.heap_;
	}

	friend void get_property(const weir_rmm_resource &,
				 cuda::mr::device_accessible) noexcept
	{
	}

      private:
	std::shared_ptr<weir_rmm_heap> heap_;
};
#endif

#undef WEIR__RMM_BASE
#endif
