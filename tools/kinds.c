/* SPDX-License-Identifier: MIT */
#include "kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

const char *kind_name(uint32_t kind)
{
	static const char *const names[KINDS] = {
		[WEIR_MEM_DEVICE] = "device", [WEIR_MEM_PLAIN] = "plain",
		[WEIR_MEM_HUGE] = "huge",     [WEIR_MEM_LOCKED] = "locked",
		[WEIR_MEM_PINNED] = "pinned", [WEIR_MEM_MAPPED] = "mapped",
		[WEIR_MEM_HBM] = "hbm",       [WEIR_MEM_FAR] = "far",
	};

	return kind < KINDS ? names[kind] : "?";
}

/* A kind that has the device's own name is found as the device. */
static bool find_of(struct weir_dev *dev, const char *name,
		    struct weir_buft **ret_buft)
{
	struct weir_dev_info d = { .size = sizeof(d) };
	struct weir_buft_info b = { .size = sizeof(b) };

	if (weir_dev_info(dev, &d) < 0 || !strcmp(d.name, name))
		return false;
	for (unsigned kind = 0; kind < KINDS; kind++)
		if (weir_dev_buft(dev, (enum weir_mem)kind, ret_buft) == 0 &&
		    weir_buft_info(*ret_buft, &b) == 0 && !strcmp(b.name, name))
			return true;
	return false;
}

/* Names of the CPU's that were not found: the sentence says why. */
static int find_missing(struct weir *weir, const char *name,
			struct weir_buft **ret_buft)
{
	struct weir_dev *cpu = weir_dev_get(weir, 0);
	struct weir_dev *dev;

	if (!strcmp(name, "CPU_HBM"))
		return weir_dev_buft(cpu, WEIR_MEM_HBM, ret_buft);
	if (!strcmp(name, "CPU_Far"))
		return weir_dev_buft(cpu, WEIR_MEM_FAR, ret_buft);
	return weir_dev_configure(weir, name, &dev);
}

int kind_find(struct weir *weir, const char *name, struct weir_buft **ret_buft)
{
	struct weir_dev *dev;
	int r;

	/* The CPU's first: other devices need the search for modules. */
	if (find_of(weir_dev_get(weir, 0), name, ret_buft))
		return 0;
	r = weir_dev_configure(weir, name, &dev);
	if (r == 0)
		return weir_dev_buft(dev, WEIR_MEM_DEVICE, ret_buft);
	if (r != -ENODEV)
		return r;
	for (unsigned i = 1; i < weir_dev_count(weir); i++)
		if (find_of(weir_dev_get(weir, i), name, ret_buft))
			return 0;
	return find_missing(weir, name, ret_buft);
}
