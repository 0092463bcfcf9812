/* SPDX-License-Identifier: MIT */
#include "core/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <xxhash.h>

#include "core/error.h"

static const struct {
	const char *name;
	size_t bytes;
} algorithm[] = {
	[WEIR_DIGEST_XXH3] = { "XXH3-128", 16 },
	[WEIR_DIGEST_SHA256] = { "SHA-256", 32 },
};

int weir__digest_check(int kind)
{
	if (kind == WEIR_DIGEST_XXH3 || kind == WEIR_DIGEST_SHA256)
		return 0;
	return weir__fail(-EINVAL, "digest %d is not one of %d and %d", kind,
			  WEIR_DIGEST_XXH3, WEIR_DIGEST_SHA256);
}

size_t weir__digest_bytes(enum weir_digest kind)
{
	return algorithm[kind].bytes;
}

const char *weir__digest_name(enum weir_digest kind)
{
	return algorithm[kind].name;
}

int weir__hash_start(struct weir__hash *h, enum weir_digest kind)
{
	h->kind = kind;
	if (kind == WEIR_DIGEST_XXH3) {
		h->state = XXH3_createState();
		if (h->state && XXH3_128bits_reset(h->state) == XXH_OK)
			return 0;
	} else {
		h->state = EVP_MD_CTX_new();
		if (h->state && EVP_DigestInit_ex(h->state, EVP_sha256(), NULL))
			return 0;
	}
	weir__hash_drop(h);
	return -ENOMEM;
}

void weir__hash_update(struct weir__hash *h, const void *data, size_t n)
{
	if (h->kind == WEIR_DIGEST_XXH3)
		XXH3_128bits_update(h->state, data, n);
	else
		EVP_DigestUpdate(h->state, data, n);
}

static void put_xxh3(XXH128_hash_t hash, uint8_t *ret_digest)
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, hash);
	memcpy(ret_digest, canonical.digest, sizeof(canonical.digest));
}

int weir__hash_finish(struct weir__hash *h, uint8_t *ret_digest)
{
	int bytes = (int)weir__digest_bytes(h->kind);

	if (h->kind == WEIR_DIGEST_XXH3)
		put_xxh3(XXH3_128bits_digest(h->state), ret_digest);
	else
		EVP_DigestFinal_ex(h->state, ret_digest, NULL);
	weir__hash_drop(h);
	return bytes;
}

void weir__hash_drop(struct weir__hash *h)
{
	if (h->state && h->kind == WEIR_DIGEST_XXH3)
		XXH3_freeState(h->state);
	else if (h->state)
		EVP_MD_CTX_free(h->state);
	h->state = NULL;
}

int weir__hash_bytes(enum weir_digest kind, const void *data, size_t n,
		     uint8_t *ret_digest)
{
	struct weir__hash h;

	if (kind == WEIR_DIGEST_XXH3) {
		put_xxh3(XXH3_128bits(data, n), ret_digest);
		return 0;
	}
	if (weir__hash_start(&h, kind) < 0)
		return -ENOMEM;
	weir__hash_update(&h, data, n);
	weir__hash_finish(&h, ret_digest);
	return 0;
}

const char *weir__digest_hex(const uint8_t *digest, size_t n,
			     char buf[WEIR__DIGEST_TEXT])
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		buf[2 * i] = digit[digest[i] >> 4];
		buf[2 * i + 1] = digit[digest[i] & 15];
	}
	buf[2 * n] = '\0';
	return buf;
}
