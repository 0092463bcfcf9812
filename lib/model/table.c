/* SPDX-License-Identifier: MIT */
#include "model/table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <xxhash.h>

#include "core/sys.h"
#include "core/util.h"
#include "model/model.h"

#define FIRST_SLOTS 64u

static uint32_t hash(const struct weir__names *names,
		     const struct weir__str *name)
{
	uint64_t h = XXH3_64bits_withSeed(name->s, name->len, names->seed);

	return (uint32_t)(h ^ h >> 32);
}

/* Of 16 bytes that the kernel gives each process; no two tables share one. */
static uint64_t secret_seed(void)
{
	static _Atomic uint64_t turn;
	const void *bytes = (const void *)getauxval(AT_RANDOM);
	uint64_t n = atomic_fetch_add(&turn, 1);

	return bytes ? XXH3_64bits_withSeed(bytes, 16, n) : n;
}

int weir__names_init(struct weir__names *names, size_t count, const void *owner,
		     struct weir__str (*name)(const void *owner,
					      uint32_t number))
{
	size_t size = FIRST_SLOTS;

	*names = (struct weir__names){
		.owner = owner,
		.name = name,
		.seed = secret_seed(),
	};
	while (size / 2 < count)
		size *= 2;
	names->slot = weir__calloc(size, sizeof(*names->slot));
	if (!names->slot)
		return -ENOMEM;
	weir__sys_prefer_huge(names->slot, size * sizeof(*names->slot));
	names->size = size;
	return 0;
}

void weir__names_fini(struct weir__names *names)
{
	weir__free(names->slot);
	*names = (struct weir__names){ 0 };
}

/* A number in a slot; the slot is not empty. */
static uint32_t number_in(uint64_t slot)
{
	return (uint32_t)(slot >> 32) - 1;
}

static void fill_slot(struct weir__names *names, uint64_t slot)
{
	size_t at = (uint32_t)slot & (names->size - 1);

	while (names->slot[at])
		at = (at + 1) & (names->size - 1);
	names->slot[at] = slot;
}

/* The slots know enough of their hashes to be dealt out again. */
static int double_slots(struct weir__names *names)
{
	uint64_t *old = names->slot;
	size_t n = names->size;

	names->slot = weir__calloc(2 * n, sizeof(*old));
	if (!names->slot) {
		names->slot = old;
		return -ENOMEM;
	}
	weir__sys_prefer_huge(names->slot, 2 * n * sizeof(*old));
	names->size = 2 * n;
	for (size_t i = 0; i < n; i++)
		if (old[i])
			fill_slot(names, old[i]);
	weir__free(old);
	return 0;
}

/* The slot that has @name, or the empty one where it would be. */
static size_t find(const struct weir__names *names,
		   const struct weir__str *name, uint32_t h)
{
	size_t mask = names->size - 1, at;

	for (at = h & mask; names->slot[at]; at = (at + 1) & mask) {
		struct weir__str has;

		if ((uint32_t)names->slot[at] != h)
			continue;
		has = names->name(names->owner, number_in(names->slot[at]));
		if (has.len == name->len && !memcmp(has.s, name->s, has.len))
			break;
	}
	return at;
}

uint32_t weir__names_ahead(const struct weir__names *names,
			   const struct weir__str *name)
{
	uint32_t h = hash(names, name);

	__builtin_prefetch(&names->slot[h & (names->size - 1)], 1);
	return h;
}

int weir__names_put(struct weir__names *names, const struct weir__str *name,
		    uint32_t ahead, uint32_t number, uint32_t *ret_number)
{
	uint64_t slot = (uint64_t)(number + 1) << 32 | ahead;
	size_t at = find(names, name, ahead);
	int r;

	if (names->slot[at]) {
		*ret_number = number_in(names->slot[at]);
		return 1;
	}
	if (2 * (names->count + 1) > names->size) {
		r = double_slots(names);
		if (r < 0)
			return r;
		fill_slot(names, slot);
	} else {
		names->slot[at] = slot;
	}
	names->count++;
	return 0;
}

int weir__names_add(struct weir__names *names, const struct weir__str *name,
		    uint32_t number, uint32_t *ret_number)
{
	return weir__names_put(names, name, hash(names, name), number,
			       ret_number);
}

size_t weir__names_find(const struct weir__names *names,
			const struct weir__str *name)
{
	size_t at;

	if (!names->count)
		return WEIR__NONE;
	at = find(names, name, hash(names, name));
	return names->slot[at] ? number_in(names->slot[at]) : WEIR__NONE;
}

int weir__text_add(struct weir_model *m, const struct weir__str *str,
		   uint64_t *ret_at)
{
	char *text =
		weir__grow(m->text, &m->cap_text, m->text_len + str->len, 1);

	if (!text)
		return -ENOMEM;
	m->text = text;
	memcpy(text + m->text_len, str->s, str->len);
	text[m->text_len + str->len] = '\0';
	*ret_at = m->text_len;
	m->text_len += str->len + 1;
	return 0;
}
