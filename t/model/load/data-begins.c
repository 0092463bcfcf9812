/* SPDX-License-Identifier: MIT */
/*
 * Safetensors files whose data begins at any byte, as files of writers that do
 * not pad their headers: with default options all of it is still read directly.
 * Where the memory can have the layout of the file, it is read into its place;
 * where that would misalign tensors, it goes through slots.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "tap.h"

#define TENSOR (2u << 20)
#define TENSORS 4u
#define BYTES ((size_t)TENSORS * TENSOR)
#define HEADER 1024u /* bytes of its text, and up to 7 more */

static struct weir *root;
static struct weir_buft *host;
static uint8_t data[BYTES];

/* The data of tensors of @dtype begins at byte @mod, modulo 8, not cached. */
static void write_file(const char *dtype, unsigned size, unsigned mod)
{
	char text[HEADER + 8];
	uint64_t len = HEADER + mod;
	size_t n = 1;
	int fd;

	memset(text, ' ', sizeof(text));
	text[0] = '{';
	for (unsigned i = 0; i < TENSORS; i++)
		n += (size_t)sprintf(
			text + n,
			"%s\"t%u\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[%u,%u]}",
			i ? "," : "", i, dtype, TENSOR / size, i * TENSOR,
			(i + 1) * TENSOR);
	text[n] = '}';
	fd = open(files_path("m.safetensors"), O_WRONLY | O_CREAT | O_TRUNC,
		  0644);
	if (fd < 0 || write(fd, &len, 8) != 8 ||
	    write(fd, text, len) != (ssize_t)len ||
	    write(fd, data, BYTES) != (ssize_t)BYTES || fdatasync(fd) < 0)
		bail("%s: %s", files_path("m.safetensors"), strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static bool right_bytes(const struct weir_weights *w)
{
	char name[] = "t0";

	for (unsigned i = 0; i < TENSORS; i++, name[1]++) {
		const struct weir_tensor *t = weir_weights_find(w, name);
		const uint8_t *at = weir_tensor_data(t);

		if (memcmp(at, data + (size_t)i * TENSOR, TENSOR))
			return false;
	}
	return true;
}

/* Load all with default options. True: the bytes are right. */
static bool load(struct weir_load_report *report)
{
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;
	bool right;

	report->size = sizeof(*report);
	if (weir_model_open(root, files_path("m.safetensors"), NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 || weir_plan_add(p, "*", host, NULL) < 0 ||
	    weir_load_start(p, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_report(l, report) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	right = right_bytes(w);
	weir_weights_free(w);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	return right;
}

/*
 * Check whether all tensors are aligned in memory that is congruent to the
 * file.
 */
static void data_begins(const char *dtype, unsigned size, unsigned mod)
{
	bool fits = mod % size == 0;
	struct weir_load_report r;

	write_file(dtype, size, mod);
	ok(load(&r), "%s that begin at %u modulo 8 have the bytes of the file",
	   dtype, mod);
	if (r.fallbacks) {
		skip(2, "no direct reads in %s", files_path(""));
		return;
	}
	ok(r.in_place + r.staged == BYTES,
	   "%s that begin at %u modulo 8 are all read directly", dtype, mod);
	ok(fits ? r.staged <= 8192 : r.in_place == 0,
	   "%s that begin at %u modulo 8 are read %s", dtype, mod,
	   fits ? "into their place"
		: "into slots, as they would be misaligned");
	if (r.in_place + r.staged != BYTES)
		diag("in place %llu, staged %llu, buffered %llu",
		     (unsigned long long)r.in_place,
		     (unsigned long long)r.staged,
		     (unsigned long long)r.buffered);
}

int main(void)
{
	struct weir_dev *cpu;

	plan(8 * 3 * 3);
	files_begin();
	if (weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &host) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16));
	for (unsigned mod = 0; mod < 8; mod++) {
		data_begins("U8", 1, mod);
		data_begins("BF16", 2, mod);
		data_begins("F32", 4, mod);
	}
	weir_close(root);
	return done_testing();
}
