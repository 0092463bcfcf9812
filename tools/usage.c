/* SPDX-License-Identifier: MIT */
#include "usage.h"

#include <stdio.h>
#include <sys/resource.h>

double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* VmHWM, since ru_maxrss includes what the process had before execve(2). */
uint64_t peak_rss(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	struct rusage u;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	if (kib)
		return kib * 1024;
	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)u.ru_maxrss * 1024;
}
