/* SPDX-License-Identifier: MIT */
#pragma once
#include <cstddef>
#include <functional>
#include <rmm/cuda_stream_view.hpp>

namespace rmm
{
class device_buffer
{
      public:
	template <class R>
	device_buffer(std::size_t size, cuda_stream_view stream, R resource)
	    : size_(size), data_(resource.allocate(stream, size)),
	      free_([=]() mutable {
		      resource.deallocate(stream, data_, size_);
	      })
	{
	}
	device_buffer(const device_buffer &) = delete;
	~device_buffer()
	{
		free_();
	}
	void *data() const
	{
		return data_;
	}
	std::size_t size() const
	{
		return size_;
	}

      private:
	std::size_t size_;
	void *data_;
	std::function<void()> free_;
};
} // namespace rmm
