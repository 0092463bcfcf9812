/* SPDX-License-Identifier: MIT */
/* Memory of a device, for tests. */
#ifndef T_KIND_H
#define T_KIND_H

#include <weir.h>

/* The memory of @kind of the device @dev, or bail out. */
struct weir_buft *kind_of(struct weir *weir, const char *dev,
			  enum weir_mem kind);

#endif
