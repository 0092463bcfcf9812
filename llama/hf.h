/* SPDX-License-Identifier: MIT */
/*
 * Reading a config.json. A member that is read is removed from the object, so
 * that the keys that are left at the end have not been used.
 */
#ifndef HF_H
#define HF_H

#include <jansson.h>

#include "llama.h"

/*
 * keys_hf.c: remove a member from @o and return it, or NULL if it is missing.
 * The caller drops it. The calls below do not change *@ret if the key is
 * missing; @in is put before the key in sentences: "" or "rope_scaling.".
 */
json_t *hf_take(json_t *o, const char *key);
/* Read an integer; null is treated as 0. */
int hf_integer(json_t *o, const char *in, const char *key, int64_t *ret);
/* Read a number or a bool; null is treated as missing. */
int hf_real(json_t *o, const char *in, const char *key, double *ret);
int hf_bool(json_t *o, const char *in, const char *key, bool *ret);
/* Refuse keys that are left, unless they change nothing. */
int hf_refuse_rest(json_t *o, const char *in);

/* rope_hf.c: read the parameters of RoPE. */
int hf_rope(json_t *o, struct llama_config *c);

#endif
