/* SPDX-License-Identifier: MIT */
#include "fail_llama.h"

#include <errno.h>
#include <weir.h>
#include "../llama/llama.h"
#include "output.h"

int fail_llama(const char *path)
{
	const char *sentence = llama_error();

	if (sentence == weir_error())
		return fail_weir();
	return fail("%s: %s", path, sentence);
}

int fail_budget(const char *path, uint64_t budget, int err)
{
	const char *sentence = llama_error();

	if (!budget || err != -ENOMEM)
		return fail_llama(path);
	return fail("%s: with --budget %llu: %s", path,
		    (unsigned long long)budget,
		    sentence == weir_error() ? weir_sentence() : sentence);
}

int fail_devices(const char *list)
{
	const char *sentence = llama_error();

	return fail("--devices %s: %s", list,
		    sentence == weir_error() ? weir_sentence() : sentence);
}
