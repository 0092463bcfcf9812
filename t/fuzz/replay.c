/* SPDX-License-Identifier: MIT */
/* A fuzz target without a fuzzer: each input of the corpus is a test. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "fuzz.h"

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Exactly as many bytes as the file, so that sanitizers see an overrun. */
static void replay(const char *path)
{
	static uint8_t room[1 << 20];
	FILE *f = fopen(path, "rb");
	uint8_t *bytes;
	size_t n;

	if (!f)
		bail("%s: %s", path, strerror(errno));
	n = fread(room, 1, sizeof(room), f);
	fclose(f);
	bytes = malloc(n ? n : 1);
	memcpy(bytes, room, n);
	LLVMFuzzerTestOneInput(bytes, n);
	free(bytes);
}

int main(void)
{
	const char *top = getenv("srcdir");
	struct dirent **list;
	char path[4096];
	int n;

	snprintf(path, sizeof(path), "%s/t/corpus/%s", top ? top : ".",
		 fz_corpus);
	n = scandir(path, &list, visible, alphasort);
	if (n < 0)
		bail("%s: %s", path, strerror(errno));
	plan((unsigned)n);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/t/corpus/%s/%s",
			 top ? top : ".", fz_corpus, list[i]->d_name);
		replay(path);
		ok(1, "%s/%s is accepted or refused, and breaks nothing",
		   fz_corpus, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return done_testing();
}
