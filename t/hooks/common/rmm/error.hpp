/* SPDX-License-Identifier: MIT */
/*
 * Declarations for tests of <weir/rmm.hpp>, written from RMM's documentation: as
 * few as the header and the example need.
 */
#pragma once
#include <new>
#include <string>

namespace rmm
{
class out_of_memory : public std::bad_alloc
{
      public:
	explicit out_of_memory(const char *text) : text_(text)
	{
	}
	const char *what() const noexcept override
	{
		return text_.c_str();
	}

      private:
	std::string text_;
};
} // namespace rmm
