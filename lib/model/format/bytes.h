/* SPDX-License-Identifier: MIT */
/*
 * A growing array of bytes, in which a writer makes a header. Without memory it
 * stays as it is, and weir__bytes_end() reports it: writers need not check each
 * addition.
 */
#ifndef WEIR__BYTES_H
#define WEIR__BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__str;

struct weir__bytes {
	unsigned char *p; /* the owner frees it by weir__free() */
	size_t n, cap;
	bool failed;
};

void weir__bytes_add(struct weir__bytes *b, const void *bytes, size_t n);
static inline void weir__bytes_byte(struct weir__bytes *b, unsigned char byte)
{
	weir__bytes_add(b, &byte, 1);
}
/* Little-endian numbers. */
void weir__bytes_u32(struct weir__bytes *b, uint32_t number);
void weir__bytes_u64(struct weir__bytes *b, uint64_t number);
/* Append @byte up to the next multiple of @align. */
void weir__bytes_pad(struct weir__bytes *b, uint64_t align, unsigned char byte);
/* A number in decimal; text without escapes; a string of JSON, with quotes. */
void weir__bytes_decimal(struct weir__bytes *b, uint64_t number);
void weir__bytes_text(struct weir__bytes *b, const char *text);
void weir__bytes_json(struct weir__bytes *b, const struct weir__str *str);
/* 0, or -ENOMEM without a sentence if an addition found no memory. */
int weir__bytes_end(const struct weir__bytes *b);

#endif
