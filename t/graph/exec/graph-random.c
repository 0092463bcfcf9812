/* SPDX-License-Identifier: MIT */
/*
 * Random graphs over 1 to 4 devices that are CPUs. WEIR_T_NODES is about how
 * many nodes are made on each kind of devices.
 */
#include <stdio.h>

#include "random_run.h"
#include "tap.h"

/* On as many devices as there are, whose first one has the parameters. */
static void on_devices(const char *params, const char *what, uint64_t nodes)
{
	struct random_devices on = { .n = 0 };
	struct weir *weir;
	char name[8] = "CPU";

	if (weir_open(NULL, &weir) < 0 ||
	    weir_dev_configure(weir, params, &on.dev[0]) < 0)
		bail("%s", weir_error());
	on.weir = weir;
	do {
		if (weir_dev_buft(on.dev[on.n], WEIR_MEM_PLAIN,
				  &on.buft[on.n]) < 0)
			bail("%s", weir_error());
		on.n++;
		snprintf(name, sizeof(name), "CPU%u", on.n);
	} while (on.n < RANDOM_DEVS &&
		 weir_dev_find(weir, name, &on.dev[on.n]) == 0);
	on.n_bufts = on.n < 2 ? 1 : 2;
	random_run(&on, nodes, what);
	weir_close(weir);
}

int main(void)
{
	uint64_t nodes = random_number_from("WEIR_T_NODES", 30000);

	plan(10);
	on_devices("CPU", "on one device", nodes);
	ok(!random_seen.lanes, "one device has one lane");
	on_devices("CPU:devices=4", "on devices that share memory", nodes);
	ok(random_seen.lanes, "graphs were computed by several devices");
	on_devices("CPU:devices=4,apart=1",
		   "on devices with memory of their own", nodes);
	ok(random_seen.transfers, "bytes were copied between devices");
	if (nodes < 30000)
		skip(1, "few graphs have leaves that are prefetched");
	else
		ok(random_seen.prefetched, "constant leaves were prefetched");
	ok(random_seen.observed && random_seen.in_place,
	   "observed nodes were reported, and results took the places of sources");
	ok(random_seen.waits, "runs waited for bytes that arrived later");
	ok(random_seen.cancelled, "runs were cancelled before they ended");
	return done_testing();
}
