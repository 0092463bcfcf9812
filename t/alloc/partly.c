/* SPDX-License-Identifier: MIT */
/* Loads of a file of which the page cache has a part. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "io/file.h"
#include "sample.h"
#include "tap.h"

#define MIB ((uint64_t)1 << 20)
#define N_SMALL 1500u
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))
#define CHECKS 4
#define N_ALIKE 4
#define N_TESTS (3 * CHECKS * N_WAYS + N_ALIKE)

/* Ways to load the model: how copiers read them out of the page cache. */
static const struct way {
	const char *what, *glob;
	uint64_t enough, less; /* MiB of each 16 in the page cache */
	struct weir_select_opts put;
} ways[] = {
	{ "tensors as they are", "*", 5, 2, WEIR_SELECT_OPTS_INIT },
	{ "rows with gaps of 2 KiB",
	  "narrow",
	  11,
	  4,
	  { .size = sizeof(struct weir_select_opts),
	    .slice = &(struct weir_slice){ .dim = 1,
					   .start = 1024,
					   .n = 1024 } } },
	{ "rows with gaps of 192 KiB",
	  "wide",
	  11,
	  4,
	  { .size = sizeof(struct weir_select_opts),
	    .slice =
		    &(struct weir_slice){ .dim = 1, .rank = 2, .ranks = 4 } } },
	{ "converted",
	  "narrow",
	  11,
	  4,
	  { .size = sizeof(struct weir_select_opts),
	    .dtype = WEIR_DTYPE_F32 } },
	{ "small tensors, merged",
	  "s*",
	  11,
	  4,
	  { .size = sizeof(struct weir_select_opts), .align = 4096 } },
};

static struct weir *root;
static struct weir_model *model;
static struct weir_file *file;
static struct weir_buft *memory;
static struct weir_file_info info;
static char path[256];
static int fd;

static void cache_mib(uint64_t at)
{
	static unsigned char some[MIB];

	if (pread(fd, some, MIB, (off_t)at) < 0)
		bail("%s: %s", path, strerror(errno));
}

/* Keep the first @cached MiB of each 16 MiB of the file in the page cache. */
static void make_state(uint64_t cached)
{
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	for (uint64_t at = 0; at < info.bytes; at += MIB)
		if (at % (16 * MIB) < cached * MIB)
			cache_mib(at);
}

static bool obeys(void)
{
	unsigned half;

	if (!file->nowait || !atomic_load(&file->direct_ok))
		return false;
	make_state(8);
	half = weir__file_resident(file, 0, info.bytes);
	make_state(0);
	return half > 400 && half < 600 &&
	       !weir__file_resident(file, 0, info.bytes);
}

static struct weir_weights *load(const struct way *way, uint32_t by,
				 struct weir_load_report *rep, int *ret_end)
{
	struct weir_select_opts put = way->put;
	struct weir_weights *weights;
	struct weir_plan *plan;
	struct weir_load *load;

	put.way = by;
	rep->size = sizeof(*rep);
	if (weir_plan_new(model, &plan) < 0 ||
	    weir_plan_add(plan, way->glob, memory, &put) < 0 ||
	    weir_load_start(plan, NULL, &load) < 0)
		bail("%s", weir_error());
	*ret_end = weir_load_wait(load, -1);
	if (weir_load_report(load, rep) < 0 ||
	    weir_load_weights(load, &weights) < 0)
		bail("%s", weir_error());
	weir_load_free(load);
	weir_plan_free(plan);
	return weights;
}

static bool equal(const struct weir_weights *a, const struct weir_weights *b)
{
	for (size_t i = 0; i < weir_weights_count(a); i++) {
		const struct weir_tensor *x = weir_weights_get(a, i);
		const struct weir_tensor *y = weir_weights_get(b, i);
		size_t n;

		if (weir_tensor_bytes(x, &n) < 0 ||
		    memcmp(weir_tensor_data(x), weir_tensor_data(y), n))
			return false;
	}
	return weir_weights_count(a) == weir_weights_count(b);
}

/*
 * The bytes are right, and @buffered says whether they came by the page cache.
 */
static void loads(const struct way *way, uint64_t cached, bool buffered,
		  const char *much)
{
	struct weir_load_report rep, direct;
	struct weir_weights *weights, *right;
	uint64_t all;
	int end;

	right = load(way, WEIR_WAY_DIRECT, &direct, &end);
	if (end < 0)
		bail("%s", weir_error());
	make_state(cached);
	weights = load(way, WEIR_WAY_AUTO, &rep, &end);
	all = rep.buffered + rep.in_place + rep.staged;
	is_int(end, 0, "%s, %s of the file cached: the load ends", way->what,
	       much);
	ok(equal(weights, right),
	   "%s, %s of the file cached: the bytes are right", way->what, much);
	is_int(rep.retries, 0,
	       "%s, %s of the file cached: missing pages are not retries",
	       way->what, much);
	ok(buffered ? rep.buffered > all / 10 * 9 : rep.buffered < all / 10,
	   "%s, %s of the file cached: %llu of %llu bytes by the page cache",
	   way->what, much, (unsigned long long)rep.buffered,
	   (unsigned long long)all);
	weir_weights_free(weights);
	weir_weights_free(right);
}

/*
 * The page cache has all of 128 MiB but 18, or with @island only these. -1:
 * that is seen wherever they are; else the MiB where it is not.
 */
static int see_part(bool island)
{
	for (uint64_t from = 0; from + 18 * MIB < 128 * MIB; from += 7 * MIB) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		for (uint64_t at = 0; at < 128 * MIB; at += MIB)
			if ((at >= from && at < from + 18 * MIB) == island)
				cache_mib(at);
		if (weir__file_is_uniform(file, 0, 128 * MIB) >= 0)
			return (int)(from / MIB);
	}
	return -1;
}

static void sees_what_differs(void)
{
	int at;

	make_state(16);
	ok(weir__file_is_uniform(file, 0, 128 * MIB) == 1, "all is cached");
	make_state(0);
	ok(weir__file_is_uniform(file, 0, 128 * MIB) == 0, "nothing is cached");
	at = see_part(false);
	ok(at < 0, "a hole of 18 MiB is seen");
	if (at >= 0)
		diag("not at %d MiB", at);
	at = see_part(true);
	ok(at < 0, "an island of 18 MiB is seen");
	if (at >= 0)
		diag("not at %d MiB", at);
}

/* Three parts of 64, 64 and 45 MiB. */
static void write_model(void)
{
	static struct sample_tensor tensor[2 + N_SMALL] = {
		{ "narrow", "BF16", 32 * MIB, 2 },
		{ "wide", "BF16", 32 * MIB, 2 },
	};
	static const char *shape[2 + N_SMALL] = { "16384,2048", "256,131072" };
	static char name[N_SMALL][8];

	for (unsigned i = 0; i < N_SMALL; i++) {
		snprintf(name[i], sizeof(name[i]), "s%u", i);
		tensor[2 + i] =
			(struct sample_tensor){ name[i], "U8", 31504, 1 };
		shape[2 + i] = "";
	}
	sample_write_shapes(path, tensor, shape, 2 + N_SMALL, 0, 1);
}

int main(void)
{
	struct weir_dev *dev;

	plan(N_TESTS);
	files_begin();
	snprintf(path, sizeof(path), "%s", files_path("m.safetensors"));
	write_model();
	info.size = sizeof(info);
	fd = open(path, O_RDONLY);
	if (fd < 0 || weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &dev) < 0 ||
	    weir_dev_buft(dev, WEIR_MEM_HUGE, &memory) < 0 ||
	    weir_model_open(root, path, NULL, &model) < 0 ||
	    weir_file_open(root, path, NULL, &file) < 0 ||
	    weir_file_info(file, &info) < 0)
		bail("%s: %s", path, weir_error());
	/* The pages that a read leaves beyond its own are not wanted. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	if (obeys()) {
		for (size_t i = 0; i < N_WAYS; i++) {
			loads(&ways[i], ways[i].enough, true, "enough");
			loads(&ways[i], ways[i].less, false, "less");
			loads(&ways[i], 0, false, "nothing");
		}
		sees_what_differs();
	} else {
		skip(N_TESTS, "this page cache cannot be told what to keep");
	}
	weir_model_close(model);
	weir_file_close(file);
	weir_close(root);
	close(fd);
	return done_testing();
}
