/* SPDX-License-Identifier: MIT */
/* Copies and conversions, and rows that indices choose. */
#include "cuda/kernels/indices.cuh"
#include "cuda/kernels/quants.cuh"

/* A unit of @bytes; those of elements are copied at once if they may be. */
__device__ static inline void unit_copy(const struct weir__cuda_copy &p,
					char *dst, const char *a)
{
	bool unaligned = p.dst.unaligned || p.a.unaligned;

	if (!unaligned && p.unit == 4) {
		*(uint32_t *)dst = *(const uint32_t *)a;
	} else if (!unaligned && p.unit == 2) {
		*(uint16_t *)dst = *(const uint16_t *)a;
	} else if (!unaligned && p.unit == 8) {
		*(uint64_t *)dst = *(const uint64_t *)a;
	} else {
		for (uint32_t i = 0; i < p.unit; i++)
			dst[i] = a[i];
	}
}

KERNEL(copy_units, copy)
{
	for (uint64_t i = thread_first(); i < p.n; i += thread_step()) {
		place w = place_of(p.dst, 0, i);
		place v = p.repeat ? w : place_of(p.a, 0, i);

		unit_copy(p, at_repeated(p.dst, w, 0, WEIR__CUDA_DIMS),
			  at_repeated(p.a, v, 0, WEIR__CUDA_DIMS));
	}
}

/* The source may have a quantised dtype; its rows are whole blocks. */
KERNEL(copy_floats, copy)
{
	for (uint64_t i = thread_first(); i < p.n; i += thread_step()) {
		place w = place_of(p.dst, 0, i), v = place_of(p.a, 0, i);
		const char *row = at_repeated(p.a, v, 1, WEIR__CUDA_DIMS);

		element_out(p.dst, at_repeated(p.dst, w, 0, WEIR__CUDA_DIMS),
			    stored_in(p.a, row, v.i[0]));
	}
}

/* A result whose index is out of range stays as it was. */
KERNEL(get_rows, index)
{
	for (uint64_t i = thread_first(); i < p.n; i += thread_step()) {
		place w = place_of(p.dst, 0, i);
		int64_t index = index_in(p.ids, w);
		char *dst = at_repeated(p.dst, w, 0, WEIR__CUDA_DIMS);
		const char *row;

		if (index < 0 || index >= p.a.dim[1]) {
			found_index(workspace, p.node, index, w.i[1],
				    p.a.dim[1]);
			continue;
		}
		row = at_repeated(p.a, w, 2, WEIR__CUDA_DIMS) +
		      index * p.a.stride[1];
		if (p.dst.dtype == WEIR_DTYPE_I32)
			word_out<uint32_t>(
				p.dst, dst,
				word_in<uint32_t>(
					p.a, row + w.i[0] * p.a.stride[0]));
		else
			element_out(p.dst, dst, stored_in(p.a, row, w.i[0]));
	}
}

/*
 * A thread writes a column of all rows, in their order: so the last of equal
 * indices has its way. a is the source.
 */
KERNEL(set_rows, index)
{
	set_rows_of(p, workspace, thread_first(), p.n, thread_step());
}
