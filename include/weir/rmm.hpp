/* SPDX-License-Identifier: MIT */
/*
 * A heap as a memory resource of RMM: weir_rmm_resource, see weir-hooks(7).
 * Needs C++17 and RMM of 24.04 or newer. Up to 26.04 it is derived from
 * rmm::mr::device_memory_resource; RMM of 26.06 and newer has no such class, and
 * takes any class that fulfils the concept cuda::mr::resource.
 */
#ifndef WEIR_RMM_HPP
#define WEIR_RMM_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

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
 * A heap of device memory, and a weir stream around each CUDA stream that it was
 * used with. A stream of NULL means none here (see weir/heap.h).
 */
class weir_rmm_heap
{
      public:
	weir_rmm_heap(weir_dev *dev, weir_heap *heap)
	    : dev_(dev), heap_(heap)
	{
	}

	/* The weir stream of a CUDA stream. */
	weir_stream *stream(CUstream_st *cuda)
	{
		std::lock_guard<std::mutex> guard(lock_);
		auto &entry = streams_[cuda];
		weir_stream *made;

		if (!entry) {
			check(weir_cuda_stream_wrap(dev_, cuda, &made));
			entry.reset(made);
		}
		return entry.get();
	}

	void *allocate(std::size_t bytes, std::size_t align,
		       weir_stream *stream)
	{
		weir_block block;

		if (bytes == 0)
			return nullptr;
		check(weir_heap_alloc(heap_, bytes, align, stream, &block));
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
	static void check(int r)
	{
		if (r < 0)
			throw rmm::out_of_memory(weir_error());
	}

	struct closer {
		void operator()(weir_stream *stream) const
		{
			weir_stream_free(stream);
		}
	};

	weir_dev *dev_;
	weir_heap *heap_;
	std::mutex lock_; /* guards streams_ */
	std::unordered_map<CUstream_st *,
			   std::unique_ptr<weir_stream, closer>>
		streams_;
};

/*
 * The resource. Copies share the heap's streams. The heap belongs to the caller,
 * and must exist until the last copy is destroyed. Allocating throws
 * rmm::out_of_memory with the sentence of weir_error(). A block that cannot be
 * freed stays allocated, since work may still use it.
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

	/* For memory that any stream may use at once. */
	void *allocate_sync(std::size_t bytes, std::size_t align = 256)
	{
		return heap_->allocate(bytes, align, nullptr);
	}

	/* No work uses the memory any more. */
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
