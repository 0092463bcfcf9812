/* SPDX-License-Identifier: MIT */
#include "model/format/name_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <xxhash.h>

#include "core/sys.h"
#include "core/array.h"
#include "model/format/model.h"

#define FIRST_BUCKETS 64u

static uint32_t name_hash(const struct weir__names *names,
			  const struct weir__str *name)
{
	uint64_t h = XXH3_64bits_withSeed(name->s, name->len, names->seed);

	return (uint32_t)(h ^ h >> 32);
}

/*
 * Make a seed from the 16 random bytes that the kernel passes to each process.
 * Every table has another seed.
 */
static uint64_t secret_seed(void)
{
	static _Atomic uint64_t next_seed;
	const void *bytes = (const void *)getauxval(AT_RANDOM);
	uint64_t n = atomic_fetch_add(&next_seed, 1);

	return bytes ? XXH3_64bits_withSeed(bytes, 16, n) : n;
}

int weir__names_init(struct weir__names *names, size_t count, const void *arg,
		     struct weir__str (*name)(const void *arg, uint32_t number))
{
	size_t size = FIRST_BUCKETS;

	*names = (struct weir__names){
		.arg = arg,
		.name = name,
		.seed = secret_seed(),
	};
	while (size / 2 < count)
		size *= 2;
	names->bucket = weir__calloc(size, sizeof(*names->bucket));
	if (!names->bucket)
		return -ENOMEM;
	weir__sys_prefer_huge(names->bucket, size * sizeof(*names->bucket));
	names->size = size;
	return 0;
}

void weir__names_fini(struct weir__names *names)
{
	weir__free(names->bucket);
	*names = (struct weir__names){ 0 };
}

/* Return the number in a bucket that is not empty. */
static uint32_t number_in(uint64_t bucket)
{
	return (uint32_t)(bucket >> 32) - 1;
}

static void fill_bucket(struct weir__names *names, uint64_t bucket)
{
	size_t at = (uint32_t)bucket & (names->size - 1);

	while (names->bucket[at])
		at = (at + 1) & (names->size - 1);
	names->bucket[at] = bucket;
}

/* Buckets have enough of their hashes to be rehashed without the names. */
static int double_buckets(struct weir__names *names)
{
	uint64_t *old = names->bucket;
	size_t n = names->size;

	names->bucket = weir__calloc(2 * n, sizeof(*old));
	if (!names->bucket) {
		names->bucket = old;
		return -ENOMEM;
	}
	weir__sys_prefer_huge(names->bucket, 2 * n * sizeof(*old));
	names->size = 2 * n;
	for (size_t i = 0; i < n; i++)
		if (old[i])
			fill_bucket(names, old[i]);
	weir__free(old);
	return 0;
}

/* Find the bucket of @name, or the empty one where it would be added. */
static size_t names_find(const struct weir__names *names,
			 const struct weir__str *name, uint32_t h)
{
	size_t mask = names->size - 1, at;

	for (at = h & mask; names->bucket[at]; at = (at + 1) & mask) {
		struct weir__str has;

		if ((uint32_t)names->bucket[at] != h)
			continue;
		has = names->name(names->arg, number_in(names->bucket[at]));
		if (has.len == name->len && !memcmp(has.s, name->s, has.len))
			break;
	}
	return at;
}

uint32_t weir__names_ahead(const struct weir__names *names,
			   const struct weir__str *name)
{
	uint32_t h = name_hash(names, name);

	__builtin_prefetch(&names->bucket[h & (names->size - 1)], 1);
	return h;
}

int weir__names_put(struct weir__names *names, const struct weir__str *name,
		    uint32_t ahead, uint32_t number, uint32_t *ret_number)
{
	uint64_t bucket = (uint64_t)(number + 1) << 32 | ahead;
	size_t at = names_find(names, name, ahead);
	int r;

	if (names->bucket[at]) {
		*ret_number = number_in(names->bucket[at]);
		return 1;
	}
	if (2 * (names->count + 1) > names->size) {
		r = double_buckets(names);
		if (r < 0)
			return r;
		fill_bucket(names, bucket);
	} else {
		names->bucket[at] = bucket;
	}
	names->count++;
	return 0;
}

int weir__names_add(struct weir__names *names, const struct weir__str *name,
		    uint32_t number, uint32_t *ret_number)
{
	return weir__names_put(names, name, name_hash(names, name), number,
			       ret_number);
}

size_t weir__names_find(const struct weir__names *names,
			const struct weir__str *name)
{
	size_t at;

	if (!names->count)
		return WEIR__NONE;
	at = names_find(names, name, name_hash(names, name));
	return names->bucket[at] ? number_in(names->bucket[at]) : WEIR__NONE;
}

int weir__text_add(struct weir_model *m, const struct weir__str *str,
		   uint64_t *ret_at)
{
	char *text;
	int r;

	if ((uintptr_t)str->s - (uintptr_t)m->text < m->text_len) {
		*ret_at = (uintptr_t)str->s - (uintptr_t)m->text;
		return 0;
	}
	r = weir__model_hold(m, str->len + 1);
	if (r < 0)
		return r;
	text = weir__grow(m->text, &m->cap_text, m->text_len + str->len, 1);
	if (!text)
		return -ENOMEM;
	m->text = text;
	memcpy(text + m->text_len, str->s, str->len);
	text[m->text_len + str->len] = '\0';
	*ret_at = m->text_len;
	m->text_len += str->len + 1;
	return 0;
}
