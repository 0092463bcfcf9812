/* SPDX-License-Identifier: MIT */
/*
 * Virtual devices: one GPU as several devices of the root, by the parameter
 * virtual=N. CUDA0-1 and so on are added to CUDA0, in the same context; each
 * reports its share of the memory, which nothing enforces.
 */
#include "cuda/cuda.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#define MAX_VIRTUAL 16u

struct weir__cuda_number weir__cuda_number(unsigned i)
{
	return (struct weir__cuda_number){ i & 0xff, i >> 8 & 0xff, i >> 16 };
}

static unsigned number_code(struct weir__cuda_number n)
{
	return n.ordinal | n.part << 8 | n.parts << 16;
}

int weir__cuda_virtual_parse(const char *text, size_t n, unsigned ordinal,
			     unsigned *ret_parts)
{
	char *end;
	unsigned long parts = strtoul(text, &end, 10);

	if (!isdigit((unsigned char)*text) || end != text + n || parts < 1 ||
	    parts > MAX_VIRTUAL)
		return weir__cuda_host.fail(
			-EINVAL,
			"CUDA%u: virtual=%.*s is not a number from 1 to %u",
			ordinal, (int)n, text, MAX_VIRTUAL);
	*ret_parts = (unsigned)parts;
	return 0;
}

int weir__cuda_virtual_add(struct weir_dev *dev, unsigned ordinal,
			   unsigned parts)
{
	int r = 0;

	for (unsigned part = 1; part < parts && r >= 0; part++) {
		struct weir__cuda_number more = { ordinal, part, parts };
		struct weir__cuda_desc desc;

		r = weir__cuda_describe(more, &desc);
		if (r >= 0)
			r = weir__cuda_host.dev_add(dev, &desc.dev,
						    number_code(more));
		if (r == -EEXIST) /* added by an open that failed later */
			r = 0;
	}
	return r;
}

void weir__cuda_virtual_share(struct weir__cuda_number n, uint64_t *free_bytes,
			      uint64_t *total)
{
	if (n.parts) {
		*free_bytes /= n.parts;
		*total /= n.parts;
	}
}
