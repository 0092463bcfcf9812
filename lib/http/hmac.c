/* SPDX-License-Identifier: MIT */
#include "http/hmac.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 64u

/* SHA-256 as in FIPS 180-4. */
struct sha256 {
	uint32_t h[8];
	uint8_t block[BLOCK];
	uint64_t bytes;
};

static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void sha256_block(struct sha256 *s)
{
	uint32_t w[64], v[8];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)s->block[4 * i] << 24 |
		       (uint32_t)s->block[4 * i + 1] << 16 |
		       (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
	for (unsigned i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] +
		       (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
	memcpy(v, s->h, sizeof(v));
	for (unsigned i = 0; i < 64; i++) {
		uint32_t a = v[0], e = v[4], one, two;

		one = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
		      ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
		two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
		      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += one;
		v[0] = one + two;
	}
	for (unsigned i = 0; i < 8; i++)
		s->h[i] += v[i];
	explicit_bzero(w, sizeof(w));
	explicit_bzero(v, sizeof(v));
}

static void sha256_start(struct sha256 *s)
{
	static const uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372,
				       0xa54ff53a, 0x510e527f, 0x9b05688c,
				       0x1f83d9ab, 0x5be0cd19 };

	memcpy(s->h, h, sizeof(h));
	s->bytes = 0;
}

static void sha256_add(struct sha256 *s, const void *data, size_t n)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < n; i++) {
		s->block[s->bytes++ % BLOCK] = p[i];
		if (s->bytes % BLOCK == 0)
			sha256_block(s);
	}
}

static void sha256_end(struct sha256 *s, uint8_t digest[WEIR__HTTP_SHA256])
{
	static const uint8_t one = 0x80, zero = 0;
	uint64_t bits = 8 * s->bytes;
	uint8_t length[8];

	for (unsigned i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, &one, 1);
	while (s->bytes % BLOCK != BLOCK - sizeof(length))
		sha256_add(s, &zero, 1);
	sha256_add(s, length, sizeof(length));
	for (unsigned i = 0; i < WEIR__HTTP_SHA256; i++)
		digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
	explicit_bzero(s, sizeof(*s));
}

/* The hash of the key, padded to a block and mixed with @pad, then @n bytes. */
static void hash_with(const uint8_t *key, size_t key_len, uint8_t pad,
		      const void *data, size_t n, uint8_t *digest)
{
	struct sha256 s;
	uint8_t block[BLOCK] = { 0 };

	memcpy(block, key, key_len);
	for (unsigned i = 0; i < BLOCK; i++)
		block[i] ^= pad;
	sha256_start(&s);
	sha256_add(&s, block, BLOCK);
	sha256_add(&s, data, n);
	sha256_end(&s, digest);
	explicit_bzero(block, sizeof(block));
}

void weir__http_hmac(const uint8_t *key, size_t key_len, const void *data,
		     size_t n, uint8_t ret_mac[static WEIR__HTTP_SHA256])
{
	uint8_t hashed[WEIR__HTTP_SHA256], inner[WEIR__HTTP_SHA256];
	struct sha256 s;

	if (key_len > BLOCK) {
		sha256_start(&s);
		sha256_add(&s, key, key_len);
		sha256_end(&s, hashed);
		key = hashed;
		key_len = sizeof(hashed);
	}
	hash_with(key, key_len, 0x36, data, n, inner);
	hash_with(key, key_len, 0x5c, inner, sizeof(inner), ret_mac);
	explicit_bzero(hashed, sizeof(hashed));
	explicit_bzero(inner, sizeof(inner));
}

static const char digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *weir__http_base64(const uint8_t *data, size_t n)
{
	char *text = malloc((n + 2) / 3 * 4 + 1), *p = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)data[i] << 16 |
			     (uint32_t)(i + 1 < n ? data[i + 1] : 0) << 8 |
			     (uint32_t)(i + 2 < n ? data[i + 2] : 0);

		*p++ = digits[v >> 18];
		*p++ = digits[v >> 12 & 63];
		*p++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
		*p++ = i + 2 < n ? digits[v & 63] : '=';
	}
	*p = '\0';
	return text;
}

int weir__http_base64_read(const char *text, uint8_t *data)
{
	size_t n = strspn(text, digits);
	uint32_t v = 0;
	int bytes = 0;

	if (n % 4 == 1 || strspn(text + n, "=") != strlen(text + n) ||
	    strlen(text + n) > 2)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		v = v << 6 | (uint32_t)(strchr(digits, text[i]) - digits);
		if (i % 4)
			data[bytes++] = (uint8_t)(v >> (6 - 2 * (i % 4)));
	}
	return bytes;
}
