/* SPDX-License-Identifier: MIT */
/* Normalization Form C of Unicode (UAX #15). */
#ifndef TEXT_NFC_H
#define TEXT_NFC_H

#include <stdbool.h>
#include <stddef.h>

/* The most bytes that a text can have after it was normalised, per byte. */
#define NFC_GROWTH 3u

/* True if a text, which is UTF-8, may change when it is normalised. */
bool nfc_needed(const unsigned char *s, size_t len);
/*
 * Write the normalised form of @len bytes to @to, which has room for NFC_GROWTH
 * times as many. Fails with -ENOMEM.
 */
int nfc_put(const unsigned char *s, size_t len, unsigned char *to,
	    size_t *ret_len);

#endif
