/* SPDX-License-Identifier: MIT */
#include "fail_llama.h"

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

int fail_devices(const char *list)
{
	const char *sentence = llama_error();

	return fail("--devices %s: %s", list,
		    sentence == weir_error() ? weir_sentence() : sentence);
}
