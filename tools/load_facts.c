/* SPDX-License-Identifier: MIT */
/* Values that the report, the JSON and the estimate of weir load share. */
#include <string.h>
#include "kinds.h"
#include "load.h"

const struct load_run *load_last_run(const struct load_job *job)
{
	return &job->runs[job->n_runs - 1];
}

bool load_uses_engine(const struct load_args *a)
{
	return a->way != WEIR_WAY_MAP || a->rules[LOAD_RULE_PLACE].n;
}

double load_rate(const struct load_run *run)
{
	return run->seconds > 0 ? (double)run->report.bytes / run->seconds / 1e9
				: 0;
}

const char *load_io_name(const struct load_run *run)
{
	return run->report.io == WEIR_IO_URING ? "uring" : "sync";
}

const char *load_memory_name(const struct weir_buft *buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	return weir_buft_info(buft, &info) < 0 ? "?" : kind_name(info.kind);
}

const char *load_device_name(const struct weir_buft *buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };
	struct weir_dev_info dev = { .size = sizeof(dev) };

	if (weir_buft_info(buft, &info) < 0 ||
	    weir_dev_info(info.dev, &dev) < 0)
		return "?";
	return dev.name;
}

const char *load_dtype_name(uint32_t dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	return weir_dtype_info((enum weir_dtype)dtype, &info) < 0 ? "?"
								  : info.name;
}

uint64_t load_tensor_bytes(const struct weir_tensor *t)
{
	struct weir_tensor dense;
	size_t bytes;

	if (weir_tensor_init(&dense, (enum weir_dtype)t->dtype, t->ndim,
			     t->shape) < 0 ||
	    weir_tensor_bytes(&dense, &bytes) < 0)
		return 0;
	return bytes;
}

bool load_is_slice(const struct weir_tensor *t, const struct weir_entry *e)
{
	return t->ndim != e->ndim ||
	       memcmp(t->shape, e->shape, e->ndim * sizeof(e->shape[0])) != 0;
}
