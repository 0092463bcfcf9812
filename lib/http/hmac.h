/* SPDX-License-Identifier: MIT */
/* HMAC with SHA-256, and Base64. Pure functions. */
#ifndef HTTP_HMAC_H
#define HTTP_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define WEIR__HTTP_SHA256 32u /* bytes of a digest */

/* HMAC (RFC 2104) of @n bytes by a key of @key_len bytes. */
void weir__http_hmac(const uint8_t *key, size_t key_len, const void *data,
		     size_t n, uint8_t ret_mac[static WEIR__HTTP_SHA256]);

/* In memory of malloc; NULL: no memory. */
char *weir__http_base64(const uint8_t *data, size_t n);
/*
 * Decode @text, whose last group may lack its '=', into @data, which has room
 * for 3 bytes for each 4 characters. Returns the bytes, or -EINVAL.
 */
int weir__http_base64_read(const char *text, uint8_t *data);

#endif
