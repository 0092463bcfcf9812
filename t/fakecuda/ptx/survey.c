/* SPDX-License-Identifier: MIT */
/*
 * t/fakecuda/ptx/survey FILE.ptx...: does the interpreter read PTX that others
 * have written? For each file whether all of it is read, how many kernels and
 * instructions it has, and which instructions are not executed. Run by hand:
 * README.md. The status is 1 if a file cannot be read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

#define MOST 1000

/* The refusals of one kind, in all files. */
static struct kind {
	char *op, *why;
	unsigned long times;
	const char *file; /* of the first */
	unsigned line;
} kinds[MOST];
static size_t n_kinds;

static const char *file_name;
static unsigned long refusals;

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "survey: no memory\n");
	exit(2);
}

/* @sentence is "line 12: operation: why". */
static void refused(void *arg, const char *op, const char *sentence)
{
	const char *why = strstr(sentence, op);
	size_t i = 0;

	(void)arg;
	refusals++;
	why = why ? why + strlen(op) + 2 : sentence;
	while (i < n_kinds &&
	       (strcmp(kinds[i].op, op) || strcmp(kinds[i].why, why)))
		i++;
	if (i == MOST)
		return;
	if (i == n_kinds) {
		kinds[i].op = need(strdup(op));
		kinds[i].why = need(strdup(why));
		kinds[i].file = file_name;
		sscanf(sentence, "line %u", &kinds[i].line);
		n_kinds++;
	}
	kinds[i].times++;
}

static char *read_file(const char *path, size_t *ret)
{
	FILE *file = fopen(path, "rb");
	size_t room = 1 << 20, n = 0, got;
	char *text = need(malloc(room));

	if (!file) {
		perror(path);
		exit(2);
	}
	while ((got = fread(text + n, 1, room - n, file)) > 0) {
		n += got;
		if (n == room)
			text = need(realloc(text, room *= 2));
	}
	fclose(file);
	*ret = n;
	return text;
}

/* The totals of all files. */
static struct {
	size_t files, read, kernels, instructions;
} total;

static void survey(const char *path)
{
	char sentence[PTX_SENTENCE] = "";
	struct ptx_module *module;
	size_t length, n = 0;
	char *text = read_file(path, &length);
	unsigned long before = refusals;
	int r = -1;

	file_name = path;
	total.files++;
	module = ptx_module_parse(text, length, sentence);
	if (module)
		r = ptx_module_survey(module, refused, NULL, &n, sentence);
	if (r < 0) {
		printf("%s: NOT READ: %s\n", path, sentence);
	} else {
		printf("%s: %zu kernels, %zu instructions, %lu not executed\n",
		       path, ptx_module_kernels(module), n, refusals - before);
		total.read++;
		total.kernels += ptx_module_kernels(module);
		total.instructions += n;
	}
	if (module)
		ptx_module_free(module);
	free(text);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: survey FILE.ptx...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++)
		survey(argv[i]);
	printf("%zu of %zu files are read: %zu kernels, %zu instructions; %lu are not executed%s\n",
	       total.read, total.files, total.kernels, total.instructions,
	       refusals, refusals ? ":" : "");
	for (size_t i = 0; i < n_kinds; i++) {
		printf("%6lu %s: %s (%s:%u)\n", kinds[i].times, kinds[i].op,
		       kinds[i].why, kinds[i].file, kinds[i].line);
		free(kinds[i].op);
		free(kinds[i].why);
	}
	return total.read < total.files;
}
