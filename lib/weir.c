/* SPDX-License-Identifier: MIT */
/* weir_open(): the one place that knows which parts a new root begins with. */
#include <weir.h>

#include "core/debug.h"
#include "core/error.h"
#include "core/root.h"
#include "cpu/cpu.h"
#include "dev/registry.h"
#include "races/races.h"

const char *weir_version_string(void)
{
	return PACKAGE_VERSION;
}

unsigned weir_version(void)
{
	return WEIR_VERSION;
}

int weir_open(const struct weir_opts *opts, struct weir **ret_weir)
{
	struct weir__part *registry;
	struct weir *weir;
	int r;

	WEIR__ENTER();
	r = weir__root_new(opts, &weir);
	if (r < 0)
		return r;
	if (weir__debug_has(weir, "races"))
		r = weir__races_start(weir);
	if (r >= 0)
		r = weir__root_part(weir, WEIR__PART_DEV, weir__registry_new,
				    &registry);
	if (r >= 0)
		r = weir__registry_enter(weir, weir__cpu_entry, NULL);
	if (r < 0) {
		weir__root_put(weir);
		return r;
	}
	*ret_weir = weir;
	return 0;
}
