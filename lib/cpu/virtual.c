/* SPDX-License-Identifier: MIT */
/*
 * Virtual devices: the CPUs as several devices of the root, by the parameter
 * devices=N of CPU, which adds CPU1 and so on. They divide the CPUs, and the
 * threads; each has a team of its own.
 */
#include "cpu/cpu.h"

#include <errno.h>

#define lib weir__cpu_host

/* From the lowest bit: 8 bits of part, 8 of parts, 1 of apart, the threads. */
struct weir__cpu_number weir__cpu_number(unsigned i)
{
	return (struct weir__cpu_number){ { i & 0xff, i >> 8 & 0xff },
					  i >> 17,
					  i >> 16 & 1 };
}

static unsigned number_code(struct weir__cpu_number n)
{
	return n.share.part | n.share.parts << 8 | (unsigned)n.apart << 16 |
	       n.threads << 17;
}

int weir__cpu_add(struct weir_dev *dev, struct weir__cpu_number first)
{
	struct weir__cpu_number more = first;
	int r = 0;

	for (unsigned part = 1; part < first.share.parts && r >= 0; part++) {
		struct weir__cpu_desc desc;

		more.share.part = part;
		weir__cpu_describe(part, &desc);
		r = lib->dev_add(dev, &desc.dev, number_code(more));
		if (r == -EEXIST) /* added by an open that failed later */
			r = 0;
	}
	return r;
}
