/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "llama.h"

static char sentence[400];

/* Keep the sentence; returns @err. */
int llama_fail(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(sentence, sizeof(sentence), fmt, args);
	va_end(args);
	return err;
}

/* Return the last sentence of llama_fail, or else that of the library. */
const char *llama_error(void)
{
	return sentence[0] ? sentence : weir_error();
}
