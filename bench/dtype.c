/* SPDX-License-Identifier: MIT */
/* Loads that convert, against loads that do not, to prefaulted memory. */
#include <stdio.h>

#include "bench.h"

struct converted {
	const struct file *file;
	struct loader plain, to; /* each keeps its memory */
};

static void load_plain(void *arg, struct sample *s)
{
	struct converted *c = arg;

	loader_load_kept(&c->plain, c->file, LOADER_OPENED, s);
}

/* weir_load_report.bytes are those of the file. */
static void load_converted(void *arg, struct sample *s)
{
	struct converted *c = arg;

	loader_load_kept(&c->to, c->file, LOADER_OPENED, s);
}

static void run(const char *from, const struct file *f, const char *to,
		uint32_t dtype, unsigned pairs)
{
	struct weir_select_opts select = WEIR_SELECT_OPTS_INIT;
	struct converted c = { .file = f };
	char name[48];
	struct pair p = { .name = name,
			  .limit = "without conversion",
			  .file_a = f,
			  .file_b = f,
			  .a = load_plain,
			  .b = load_converted,
			  .arg = &c };
	struct result r;

	select.dtype = dtype;
	loader_open(&c.plain, 0);
	loader_open(&c.to, 0);
	c.to.select = &select;
	for (int resident = 0; resident < 2; resident++) {
		p.resident = resident;
		snprintf(name, sizeof(name), "convert: %s to %s, %s", from, to,
			 resident ? "resident" : "cold");
		pair_run(&p, pairs, false, &r);
		if (!resident) {
			r.judged = GOAL_RATIO;
			r.goal = 1 / 1.1;
		}
		result_add(&r);
	}
	loader_close(&c.plain);
	loader_close(&c.to);
}

void row_convert(unsigned pairs)
{
	run("BF16", model_large(), "F16", WEIR_DTYPE_F16, pairs);
	run("BF16", model_large(), "F32", WEIR_DTYPE_F32, pairs);
	run("F8_E4M3", model_f8(), "F16", WEIR_DTYPE_F16, pairs);
	run("F8_E4M3", model_f8(), "F32", WEIR_DTYPE_F32, pairs);
}
