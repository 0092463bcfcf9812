/* SPDX-License-Identifier: MIT */
#include "reserve.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "tap.h"

#define DIR "/sys/kernel/mm/hugepages"

static long value(size_t page, const char *name)
{
	char path[128];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), DIR "/hugepages-%zukB/%s", page >> 10,
		 name);
	f = fopen(path, "r");
	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static long set_number(size_t page, long n)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), DIR "/hugepages-%zukB/nr_hugepages",
		 page >> 10);
	f = fopen(path, "w");
	if (!f)
		return -1;
	fprintf(f, "%ld\n", n);
	return fclose(f) ? -1 : value(page, "nr_hugepages");
}

/* Only one test at a time; until it has ended, and its children too. */
static void lock_reserve(void)
{
	int fd = open(DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		bail(DIR " cannot be locked");
	tap_renew();
}

/* A process that takes @n pages away when the test has ended. */
static void guard(size_t page, long n)
{
	int ends[2];
	char byte;

	if (pipe2(ends, O_CLOEXEC) < 0)
		bail("no pipe");
	switch (fork()) {
	case 0:
		setsid();
		signal(SIGTERM, SIG_IGN);
		signal(SIGINT, SIG_IGN);
		close(STDOUT_FILENO);
		close(ends[1]);
		while (read(ends[0], &byte, 1) > 0)
			;
		set_number(page, value(page, "nr_hugepages") - n);
		_exit(0);
	case -1:
		bail("no process");
	}
	close(ends[0]);
}

const char *reserve_pages(size_t page, unsigned n)
{
	static char why[128];
	static int locked;
	long was, now;

	if (value(page, "nr_hugepages") < 0)
		return "the kernel has no reserved pages of this size";
	if (!locked++)
		lock_reserve();
	was = value(page, "nr_hugepages");
	now = set_number(page, was + (long)n);
	if (now < 0)
		return "only root can reserve huge pages";
	if (now > was)
		guard(page, now - was);
	if (now >= was + (long)n)
		return NULL;
	snprintf(why, sizeof(why), "the kernel has reserved %ld of %u pages",
		 now - was, n);
	return why;
}

uint64_t reserve_free(size_t page)
{
	long idle = value(page, "free_hugepages"),
	     taken = value(page, "resv_hugepages");

	return idle > taken ? (uint64_t)(idle - taken) : 0;
}
