/* SPDX-License-Identifier: MIT */
/*
 * Digests of bytes that arrive in parts, by each algorithm of <weir/digest.h>.
 */
#ifndef WEIR__HASH_H
#define WEIR__HASH_H

#include <stddef.h>
#include <stdint.h>

#include <weir/digest.h>

#define WEIR__DIGEST_MAX 32u                          /* bytes of a digest */
#define WEIR__DIGEST_TEXT (2 * WEIR__DIGEST_MAX + 1u) /* in hexadecimal */

/* A digest that is being computed, by one thread at a time. */
struct weir__hash {
	enum weir_digest kind;
	void *state; /* NULL: not started */
};

/* 0, or -EINVAL with a sentence: @kind is not an enum weir_digest. */
int weir__digest_check(int kind);
/* The bytes of a digest, and the name of its algorithm in manifests. */
size_t weir__digest_bytes(enum weir_digest kind);
const char *weir__digest_name(enum weir_digest kind);

/* -ENOMEM, without a sentence. */
int weir__hash_start(struct weir__hash *h, enum weir_digest kind);
void weir__hash_update(struct weir__hash *h, const void *data, size_t n);
/* End it, and free what it has. Returns the bytes of the digest. */
int weir__hash_finish(struct weir__hash *h, uint8_t *ret_digest);
/* End it without a result. Also if it has not been started. */
void weir__hash_drop(struct weir__hash *h);
/* All at once. -ENOMEM, without a sentence. */
int weir__hash_bytes(enum weir_digest kind, const void *data, size_t n,
		     uint8_t *ret_digest);

/* Write a digest of @n bytes in hexadecimal. Returns @buf. */
const char *weir__digest_hex(const uint8_t *digest, size_t n,
			     char buf[WEIR__DIGEST_TEXT]);

#endif
