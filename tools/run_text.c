/* SPDX-License-Identifier: MIT */
/* The text that weir run makes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "run.h"
#include "text.h"

static int text_keep(struct run_text *text, const char *s, size_t len)
{
	size_t room = text->room ? text->room : 4096;
	char *grown;

	while (room - text->n < len)
		room *= 2;
	if (room != text->room) {
		grown = realloc(text->s, room);
		if (!grown)
			return fail_memory();
		text->s = grown;
		text->room = room;
	}
	memcpy(text->s + text->n, s, len);
	text->n += len;
	return 0;
}

int run_text_add(struct run_text *text, const char *s, size_t len)
{
	if (!len)
		return 0;
	if (text->keep)
		return text_keep(text, s, len);
	text->last = s[len - 1];
	if (text->terminal)
		text_put_prose(stdout, s, len);
	else
		fwrite(s, 1, len, stdout);
	if (out_flush())
		return 0;
	return fail("standard output: %s", strerror(errno));
}

void run_text_end(struct run_text *text)
{
	if (text->terminal && text->last && text->last != '\n')
		putchar('\n');
}
