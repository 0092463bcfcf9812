/* SPDX-License-Identifier: MIT */
#include "kind.h"

#include "tap.h"

struct weir_buft *kind_of(struct weir *weir, const char *dev,
			  enum weir_mem kind)
{
	struct weir_buft *buft;
	struct weir_dev *found;

	if (weir_dev_find(weir, dev, &found) < 0 ||
	    weir_dev_buft(found, kind, &buft) < 0)
		bail("%s", weir_error());
	return buft;
}
