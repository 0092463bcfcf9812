/* SPDX-License-Identifier: MIT */
/* The grids of IQ1, IQ2 and IQ3, and which dtype has which. */
#include "mem/quants_grids.h"

#include <stddef.h>

#include <weir/tensor.h>

#include "mem/dtype.h"

#define WEIR__GRID(name, n) const uint16_t weir__grid_##name[n]
#include "mem/quants_grids.inc"

const uint16_t *weir__dtype_grid(uint32_t dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_IQ1_S:
	case WEIR_DTYPE_IQ1_M:
		return weir__grid_iq1;
	case WEIR_DTYPE_IQ2_XXS:
		return weir__grid_iq2_xxs;
	case WEIR_DTYPE_IQ2_XS:
		return weir__grid_iq2_xs;
	case WEIR_DTYPE_IQ2_S:
		return weir__grid_iq2_s;
	case WEIR_DTYPE_IQ3_XXS:
		return weir__grid_iq3_xxs;
	case WEIR_DTYPE_IQ3_S:
		return weir__grid_iq3_s;
	default:
		return NULL;
	}
}
