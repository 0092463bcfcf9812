/* SPDX-License-Identifier: MIT */
#include "limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tap.h"

void limit_memory(size_t more)
{
	const char *sanitizer = getenv("WEIR_T_SANITIZER");
	unsigned long pages = 0;
	struct rlimit limit;
	FILE *f;

	if (sanitizer && strcmp(sanitizer, "no"))
		return;
	f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%lu", &pages) != 1)
		bail("/proc/self/statm cannot be read");
	fclose(f);
	getrlimit(RLIMIT_AS, &limit);
	limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
	if (setrlimit(RLIMIT_AS, &limit) < 0)
		bail("RLIMIT_AS: %s", strerror(errno));
}
