/* SPDX-License-Identifier: MIT */
/*
 * The large arrays of a load. With thousands of buffers the kernel needs as long
 * to clear new pages for them as weir to fill them in. So a layout that a plan
 * keeps has the arrays of a load that has ended, for the next one.
 */
#include "core/array.h"
#include "core/sys.h"
#include "model/load/load.h"

void weir__load_arrays_free(struct weir__load_arrays *a)
{
	if (!a)
		return;
	weir__array_free(a->ext);
	weir__array_free(a->ext_run);
	weir__free(a);
}

struct weir__load_arrays *weir__load_arrays_take(struct weir__layout *layout)
{
	struct weir__load_arrays *a = atomic_exchange(&layout->spare, NULL);

	return a ? a : weir__calloc(1, sizeof(*a));
}

void weir__load_arrays_give(struct weir__layout *layout,
			    struct weir__load_arrays *a)
{
	if (a && atomic_load(&layout->kept))
		a = atomic_exchange(&layout->spare, a);
	weir__load_arrays_free(a);
}
