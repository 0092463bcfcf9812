/* SPDX-License-Identifier: MIT */
#pragma once
#include <cuda/stream_ref>

namespace rmm
{
class cuda_stream_view
{
      public:
	cuda_stream_view() = default;
	cuda_stream_view(::CUstream_st *stream) : stream_(stream)
	{
	}
	operator ::cuda::stream_ref() const noexcept
	{
		return stream_;
	}

      private:
	::CUstream_st *stream_ = nullptr;
};
} // namespace rmm
