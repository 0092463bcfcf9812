/* SPDX-License-Identifier: MIT */
/*
 * Reading a config.json. What is read is removed from the object, so that the
 * keys that are left at the end are those that nothing has used.
 */
#ifndef HF_H
#define HF_H

#include <jansson.h>

#include "llama.h"

/*
 * keys_hf.c: a member, removed from @o; the caller drops it. NULL: missing. In
 * the calls below *@ret stays if the key is missing; @in is put before the key
 * in sentences: "" or "rope_scaling.".
 */
json_t *hf_take(json_t *o, const char *key);
/* null: 0. */
int hf_integer(json_t *o, const char *in, const char *key, int64_t *ret);
/* null: *@ret stays. */
int hf_real(json_t *o, const char *in, const char *key, double *ret);
int hf_bool(json_t *o, const char *in, const char *key, bool *ret);
/* Refuse keys that are left, unless they change nothing. */
int hf_refuse_rest(json_t *o, const char *in);

/* rope_hf.c: the parameters of RoPE. */
int hf_rope(json_t *o, struct llama_config *c);

#endif
