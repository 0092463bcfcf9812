/* SPDX-License-Identifier: MIT */
#pragma once

struct CUstream_st;

namespace rmm
{
class cuda_stream_view
{
      public:
	cuda_stream_view() = default;
	cuda_stream_view(::CUstream_st *stream) : stream_(stream)
	{
	}
	::CUstream_st *value() const noexcept
	{
		return stream_;
	}

      private:
	::CUstream_st *stream_ = nullptr;
};
} // namespace rmm
