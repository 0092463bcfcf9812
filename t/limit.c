/* SPDX-License-Identifier: MIT */
#include "limit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static bool is_sanitized(void)
{
	const char *sanitizer = getenv("WEIR_T_SANITIZER");

	return sanitizer && strcmp(sanitizer, "no");
}

void limit_memory(size_t more)
{
	unsigned long pages = 0;
	struct rlimit limit;
	FILE *f;

	if (is_sanitized())
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

void limited_child(int (*child)(void), const char *title)
{
	int status = -1;
	pid_t pid;

	if (is_sanitized()) {
		skip(1, "a sanitizer takes all addresses");
		return;
	}
	pid = fork();
	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	is_int(status, 0, "%s", title);
}
