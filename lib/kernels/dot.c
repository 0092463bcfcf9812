/* SPDX-License-Identifier: MIT */
/*
 * Products of floats by the portable vectors of the compiler; the choice of a
 * set.
 */
#include "kernels/dot.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <weir/tensor.h>

#include "kernels/kernels.h"

#define WIDTH 4
#define FLOAT_COLS 3u
#define PANEL_COLS 4
#define TARGET WEIR__NO_UBSAN
#define INLINE static inline TARGET __attribute__((always_inline))
#define NAME(x) portable_##x

typedef float portable_vf __attribute__((vector_size(16)));

/*
 * Return the value of an F16. The bits, moved to those of an F32, are the value
 * / 2^112, and the product is exact.
 */
static inline float half_of(uint32_t x)
{
	uint32_t moved = (x & 0x7fff) << 13, sign = (x & 0x8000) << 16;
	float value;

	if (moved >= 0x7c00u << 13) {
		sign |= 0x7f800000 | moved;
		memcpy(&value, &sign, sizeof(value));
		return value;
	}
	moved |= sign;
	memcpy(&value, &moved, sizeof(value));
	return value * 0x1p112f;
}

static inline portable_vf portable_load_F16(const unsigned char *p)
{
	uint16_t x[4];

	memcpy(x, p, sizeof(x));
	return (portable_vf){ half_of(x[0]), half_of(x[1]), half_of(x[2]),
			      half_of(x[3]) };
}

static inline portable_vf portable_load_BF16(const unsigned char *p)
{
	uint16_t x[4];
	uint32_t bits[4];
	portable_vf v;

	memcpy(x, p, sizeof(x));
	for (unsigned i = 0; i < 4; i++)
		bits[i] = (uint32_t)x[i] << 16;
	memcpy(&v, bits, sizeof(v));
	return v;
}

#include "kernels/dot_float.inc"
#include "kernels/dot_panel.inc"

static const struct weir__dot list[] = { FLOAT_LIST };

const int8_t weir__dot_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
				   1,    13,   25,  38,  53,  69,  89,  113 };
const uint8_t weir__dot_fp4[16] = { 128, 129, 130, 131, 132, 134, 136, 140,
				    128, 127, 126, 125, 124, 122, 120, 116 };

const uint16_t *weir__dot_grid(uint32_t dtype)
{
	return weir__cpu_host->dtype_grid(dtype);
}

static bool portable_usable(void)
{
	return true;
}

static const struct weir__dot_set portable = {
	.name = "portable",
	.usable = portable_usable,
	.panel = &portable_panel,
	.panels_floats = 17,
	.panels_bytes = 17,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
};

const struct weir__dot_set *const weir__dot_sets[] = {
#ifdef __x86_64__
	&weir__dot_avx512,
	&weir__dot_avx2,
#endif
	&portable,
	NULL,
};

/* The set is kept: asking the CPU takes long on a virtual machine. */
const struct weir__dot_set *weir__dot_set(void)
{
	static const struct weir__dot_set *_Atomic best;
	const struct weir__dot_set *set =
		atomic_load_explicit(&best, memory_order_relaxed);

	if (set)
		return set;
	for (size_t i = 0; !set; i++)
		if (weir__dot_sets[i]->usable())
			set = weir__dot_sets[i];
	atomic_store_explicit(&best, set, memory_order_relaxed);
	return set;
}

const struct weir__dot *weir__dot_in(const struct weir__dot_set *set,
				     uint32_t dtype)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->list[i].dtype == dtype)
			return &set->list[i];
	for (const struct weir__dot *dot = set->low; dot && dot->run; dot++)
		if (dot->dtype == dtype)
			return dot;
	return NULL;
}
