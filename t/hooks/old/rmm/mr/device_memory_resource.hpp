/* SPDX-License-Identifier: MIT */
/* The base class of resources of RMM up to 26.04. */
#pragma once
#include <cstddef>
#include <rmm/cuda_stream_view.hpp>

namespace rmm
{
namespace mr
{
class device_memory_resource
{
      public:
	virtual ~device_memory_resource() = default;
	void *allocate(cuda_stream_view stream, std::size_t bytes)
	{
		return do_allocate(bytes, stream);
	}
	void deallocate(cuda_stream_view stream, void *ptr,
			std::size_t bytes) noexcept
	{
		do_deallocate(ptr, bytes, stream);
	}
	bool operator==(const device_memory_resource &other) const noexcept
	{
		return do_is_equal(other);
	}

      private:
	virtual void *do_allocate(std::size_t bytes,
				  cuda_stream_view stream) = 0;
	virtual void do_deallocate(void *ptr, std::size_t bytes,
				   cuda_stream_view stream) noexcept = 0;
	virtual bool
	do_is_equal(const device_memory_resource &other) const noexcept
	{
		return this == &other;
	}
};
} // namespace mr
using resource_ref = mr::device_memory_resource &;
} // namespace rmm
