/* SPDX-License-Identifier: MIT */
/*
 * Loads by URL: the memory they use beside the tensors, and the number of
 * requests they send before the first tensor has arrived.
 */
#include <weir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serving.h"
#include "tap.h"

#define MIB (UINT64_C(1) << 20)
#define SIZE (64 * MIB)
#define STAGING (32 * MIB)

static struct weir *weir;
static struct weir_buft *ram;

static void begin(uint64_t staging)
{
	const char *build = getenv("builddir");
	struct weir_opts opts = WEIR_OPTS_INIT;
	char path[1024];

	snprintf(path, sizeof(path), "%s/lib/http/.libs", build ? build : ".");
	opts.module_path = path;
	opts.staging = staging;
	if (weir_open(&opts, &weir) < 0 ||
	    weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &ram) < 0)
		bail("%s", weir_error());
}

/* A line of /proc/self/status in bytes. */
static uint64_t status_of(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	uint64_t kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			kib = strtoull(line + strlen(name), NULL, 10);
	if (f)
		fclose(f);
	return kib << 10;
}

/* Let VmHWM be VmRSS again. */
static bool reset_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");
	bool good = f && fputs("5", f) >= 0;

	return f && !fclose(f) && good;
}

static struct weir_model *model_of(const char *url)
{
	struct weir_model *m;

	if (weir_model_open(weir, url, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

static struct weir_load *start(struct weir_model *m,
			       const struct weir_select_opts *how)
{
	struct weir_load *l;
	struct weir_plan *p;

	if (weir_plan_new(m, &p) < 0 || weir_plan_add(p, NULL, ram, how) < 0 ||
	    weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	weir_plan_free(p);
	return l;
}

/* Load as @dtype, which takes @bytes. */
static void measure(uint32_t dtype, uint64_t bytes, const char *what)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_model *m;
	struct weir_load *l;
	uint64_t before, extra;

	tap_prefix(what);
	how.dtype = dtype;
	m = model_of(serving_url("/matrix/%u/m.safetensors",
				 (unsigned)(SIZE / 4096)));
	if (!reset_peak()) {
		skip(3, "the kernel does not reset VmHWM");
		weir_model_close(m);
		return;
	}
	before = status_of("VmRSS:");
	l = start(m, &how);
	is_int(weir_load_wait(l, -1), 0, "a model of a URL is loaded");
	extra = status_of("VmHWM:") - before;
	weir_load_report(l, &rep);
	extra = extra > bytes ? extra - bytes : 0;
	diag("%llu KiB beside the tensors, %llu KiB of slots",
	     (unsigned long long)extra >> 10,
	     (unsigned long long)rep.staging >> 10);
	ok(rep.staging <= STAGING, "slots are within weir_opts.staging");
#ifdef WEIR_SANITIZER
	skip(1, "a sanitizer needs memory of its own");
#else
	ok(extra <= STAGING, "so is all memory beside the tensors: %llu",
	   (unsigned long long)extra);
#endif
	weir_load_free(l);
	weir_model_close(m);
	tap_prefix("");
}

/* Requests until the first tensor is there, the one for the header included. */
static void count(const char *path, unsigned most, const char *title)
{
	struct weir_model *m;
	struct weir_load *l;
	unsigned asked;
	size_t i;

	serving_log();
	m = model_of(serving_url("%s", path));
	l = start(m, NULL);
	if (weir_load_next(l, -1, &i) != WEIR_NEXT_ARRIVED)
		bail("no tensor arrives");
	asked = serving_count(serving_log(), "GET ");
	weir_load_wait(l, -1);
	weir_load_free(l);
	weir_model_close(m);
	is_int(asked, most, "%s", title);
}

int main(void)
{
	plan(0);
	if (!serving_start(false, ""))
		skip_all("python3 cannot run the server");
	begin(0);
	count("/model/100000/m.safetensors", 1,
	      "a tensor that came with the header is there after one request");
	count("/model/4000000/m.safetensors", 2,
	      "a tensor of a chunk needs a request for the header, and one");
	weir_close(weir);
	begin(STAGING);
	measure(WEIR_DTYPE_F32, SIZE, "in place: ");
	measure(WEIR_DTYPE_BF16, SIZE / 2, "converted: ");
	weir_close(weir);
	serving_stop();
	return done_testing();
}
