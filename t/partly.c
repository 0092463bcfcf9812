/* SPDX-License-Identifier: MIT */
/* Loads of a file of which the page cache has a part. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "io/file.h"
#include "sample.h"
#include "tap.h"

#define MIB ((uint64_t)1 << 20)
#define BYTES (96 * MIB)
#define N_TESTS 12

static struct weir *root;
static struct weir_file *file;
static char path[256];
static int fd;

/* Of each 16 MiB of the file the first @cached MiB stay in the page cache. */
static void make_state(uint64_t cached)
{
	static unsigned char some[MIB];

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	for (uint64_t at = 0; at < BYTES; at += MIB)
		if (at % (16 * MIB) < cached * MIB &&
		    pread(fd, some, MIB, (off_t)at) != (ssize_t)MIB)
			bail("%s: %s", path, strerror(errno));
}

static bool obeys(void)
{
	unsigned half;

	if (!file->nowait || !atomic_load(&file->direct_ok))
		return false;
	make_state(8);
	half = weir__file_resident(file, 0, BYTES);
	make_state(0);
	return half > 400 && half < 600 && !weir__file_resident(file, 0, BYTES);
}

/* The bytes are right, and @buffered says whether they came by the page cache. */
static void loads(uint64_t cached, bool buffered, const char *what)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_weights *weights;
	struct weir_model *model;
	struct weir_buft *buft;
	struct weir_plan *plan;
	struct weir_load *load;
	struct weir_dev *dev;
	unsigned share;

	make_state(cached);
	share = weir__file_resident(file, 0, BYTES);
	if (weir_dev_find(root, "CPU", &dev) < 0 ||
	    weir_dev_buft(dev, WEIR_MEM_HUGE, &buft) < 0 ||
	    weir_model_open(root, path, NULL, &model) < 0 ||
	    weir_plan_new(model, &plan) < 0 ||
	    weir_plan_put(plan, NULL, buft, NULL) < 0 ||
	    weir_load_start(plan, NULL, &load) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(load, -1), 0, "%s: the load ends", what);
	if (weir_load_report(load, &rep) < 0 ||
	    weir_load_weights(load, &weights) < 0)
		bail("%s", weir_error());
	ok(sample_holds(weights, 0, 1), "%s: the bytes are right", what);
	is_int(rep.retries, 0, "%s: missing pages are not retries", what);
	ok(buffered ? rep.buffered > BYTES * 9 / 10 : rep.buffered < BYTES / 10,
	   "%s (%u of 1000): %llu bytes by the page cache", what, share,
	   (unsigned long long)rep.buffered);
	weir_load_free(load);
	weir_plan_free(plan);
	weir_model_close(model);
	weir_weights_free(weights);
}

int main(void)
{
	const struct sample_tensor tensor = { "a", "U8", BYTES, 1 };

	plan(N_TESTS);
	files_begin();
	snprintf(path, sizeof(path), "%s", files_path("m.safetensors"));
	sample_write(path, &tensor, 1, 0, 1);
	fd = open(path, O_RDONLY);
	if (fd < 0 || weir_open(NULL, &root) < 0 ||
	    weir_file_open(root, path, NULL, &file) < 0)
		bail("%s: %s", path, weir_error());
	/* The pages that a read leaves beyond its own are not wanted. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	if (obeys()) {
		loads(8, true, "half of it");
		loads(2, false, "an eighth of it");
		loads(0, false, "nothing of it");
	} else {
		skip(N_TESTS, "this page cache cannot be told what to keep");
	}
	weir_file_close(file);
	weir_close(root);
	close(fd);
	return done_testing();
}
