/* SPDX-License-Identifier: MIT */
#ifndef BENCH_MUST_H
#define BENCH_MUST_H

#include <weir.h>

#include "raw.h"

/* Exit with the library's sentence if a call failed. */
static inline void must(int r)
{
	if (r < 0)
		die("%s", weir_error());
}

#endif
