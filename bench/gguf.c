/* SPDX-License-Identifier: MIT */
/*
 * bench/gguf TENSORS TOKENS MERGES FILE: a GGUF file of so many tensors of 512
 * bytes, with a vocabulary of so many tokens, their scores and types, and so
 * many merges. It is sparse except for its header.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw.h"

#define BYTES 512u

/* Numbers of GGUF. */
enum {
	TYPE_I32 = 5,
	TYPE_F32 = 6,
	TYPE_STRING = 8,
	TYPE_ARRAY = 9,
	TYPE_BF16 = 30
};

static FILE *out;

static void put(uint64_t v, unsigned bytes)
{
	for (; bytes--; v >>= 8)
		putc((int)(v & 0xff), out);
}

static void put_string(const char *s)
{
	put(strlen(s), 8);
	fputs(s, out);
}

static void put_array(const char *key, uint32_t of, uint64_t n)
{
	put_string(key);
	put(TYPE_ARRAY, 4);
	put(of, 4);
	put(n, 8);
}

static void put_vocabulary(unsigned tokens, unsigned merges)
{
	char text[40];

	put_array("tokenizer.ggml.tokens", TYPE_STRING, tokens);
	for (unsigned i = 0; i < tokens; i++) {
		snprintf(text, sizeof(text), "tok%u", i);
		put_string(text);
	}
	put_array("tokenizer.ggml.scores", TYPE_F32, tokens);
	for (unsigned i = 0; i < tokens; i++)
		put(0xbf800000, 4);
	put_array("tokenizer.ggml.token_type", TYPE_I32, tokens);
	for (unsigned i = 0; i < tokens; i++)
		put(1, 4);
	put_array("tokenizer.ggml.merges", TYPE_STRING, merges);
	for (unsigned i = 0; i < merges; i++) {
		snprintf(text, sizeof(text), "mer %u", i);
		put_string(text);
	}
}

static void put_tensors(unsigned n)
{
	char name[40];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "blk.%u.attn_q.weight", i);
		put_string(name);
		put(2, 4);
		put(16, 8);
		put(16, 8);
		put(TYPE_BF16, 4);
		put((uint64_t)i * BYTES, 8);
	}
}

int main(int argc, char **argv)
{
	unsigned tensors;
	long end;

	if (argc != 5)
		die("usage: gguf TENSORS TOKENS MERGES FILE");
	tensors = (unsigned)atoi(argv[1]);
	out = fopen(argv[4], "wb");
	if (!out)
		die("%s cannot be written", argv[4]);
	fputs("GGUF", out);
	put(3, 4);
	put(tensors, 8);
	put(4, 8);
	put_vocabulary((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	put_tensors(tensors);
	end = (ftell(out) + 31) & ~31l;
	if (fflush(out) ||
	    ftruncate(fileno(out), (off_t)end + (off_t)tensors * BYTES) ||
	    fclose(out))
		die("%s cannot be written", argv[4]);
	return 0;
}
