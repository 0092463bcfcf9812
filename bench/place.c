/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw.h"

/* This program is FOLDER/bench/NAME, or FOLDER/bench/.libs/NAME. */
static size_t folder(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);

	for (; n > 0; n--)
		if (!strncmp(path + n - 1, "/bench/", 7))
			return (size_t)n - 1;
	die("this program is not in a folder 'bench'");
}

const char *place(const char *name)
{
	static struct {
		const char *name;
		char *whole;
	} known[8];
	char path[4096] = "";
	unsigned i = 0;
	size_t n;

	for (; i < 8 && known[i].name; i++)
		if (!strcmp(known[i].name, name))
			return known[i].whole;
	n = folder(path, sizeof(path));
	if (i == 8 ||
	    asprintf(&known[i].whole, "%.*s/%s", (int)n, path, name) < 0)
		die("no place for %s", name);
	known[i].name = name;
	return known[i].whole;
}

const char *place_modules(void)
{
	return getenv("WEIR_MODULE_PATH") ? NULL : place("lib/cuda/.libs");
}
