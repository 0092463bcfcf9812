/* SPDX-License-Identifier: MIT */
/* A test that hangs, gives up or is slow, as its argument says. For tap.sh. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	volatile bool on = true;

	plan(3);
	ok(true, "the first check passes");
	if (!strcmp(how, "bail"))
		bail("no more of %s", how);
	while (!strcmp(how, "spin") && on)
		;
	while (!strcmp(how, "sleep") && on)
		pause();
	for (int i = 0; i < 2; i++) {
		if (!strcmp(how, "slow"))
			sleep(6);
		ok(true, "a check after a pause passes");
	}
	return done_testing();
}
