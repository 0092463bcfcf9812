/* SPDX-License-Identifier: MIT */
#include "toy.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/util.h"

static struct weir__str str_of(const char *s)
{
	return (struct weir__str){ s, strlen(s) };
}

/* Numbers are moved down to be aligned, so other bytes are before them. */
static int add_numbers(struct weir_model *m, const struct toy_pair *p,
		       struct weir__value *ret_value)
{
	char bytes[8 + sizeof(p->i16)] = { 0 };
	struct weir__str str = { bytes, sizeof(bytes) };
	uint64_t at;
	int r;

	memcpy(bytes + 8, p->i16, sizeof(p->i16));
	r = weir__text_add(m, &str, &at);
	if (r >= 0)
		*ret_value = weir__value_numbers(m, WEIR_VALUE_I16, at + 8, 4);
	return r;
}

static int add_pair(struct weir__header *h, const struct toy_pair *p)
{
	struct weir__str key = str_of(p->key), str = str_of(p->str);
	struct weir__value *value;
	int r = weir__header_meta(h, &key, &value);

	if (r < 0 || !value)
		return r;
	if (r > 0)
		return weir__fail(-EBADMSG, "the key '%s' occurs twice",
				  p->key);
	if (p->type == WEIR_VALUE_STRING)
		return weir__value_string(h->m, &str, value);
	if (p->type == WEIR_VALUE_ARRAY)
		return add_numbers(h->m, p, value);
	*value = (struct weir__value){ .type = (uint8_t)p->type, .u = p->u };
	return 0;
}

static int add_tensor(struct weir__header *h, uint32_t shard,
		      const struct toy_tensor *t)
{
	struct weir__str name = str_of(t->name);
	struct weir__record rec = {
		.shard = shard,
		.dtype = (uint16_t)t->dtype,
		.ndim = 1,
		.off = t->begin,
		.bytes = t->end,
	};
	uint32_t hash = weir__names_ahead(&h->names, &name);
	int r = weir__header_add(h, &name, hash, &t->count, &rec);

	return r > 0 ? weir__fail(-EBADMSG, "tensor '%s' occurs twice", t->name)
		     : r;
}

static bool toy_probe(const struct weir__head *head)
{
	return head->n >= 4 && !memcmp(head->bytes, "TOY1", 4);
}

static int toy_read(struct weir_model *m, uint32_t shard,
		    const struct weir__head *head, bool lenient)
{
	struct weir__ranges ranges = {
		.file = head->file,
		.field = "begin and end",
		.align = TOY_ALIGN,
		.gaps = lenient,
		.tail = true,
	};
	const struct toy_tensor *tensors;
	const struct toy_pair *pairs;
	struct weir__header h;
	struct toy_head th;
	size_t n;
	char *text;
	int end, r;

	memcpy(&th, head->bytes, sizeof(th));
	n = th.n_pairs * sizeof(*pairs) + th.n_tensors * sizeof(*tensors);
	text = malloc(n);
	pairs = (const void *)text;
	tensors = (const void *)(text + th.n_pairs * sizeof(*pairs));
	r = weir__header_begin(&h, m, th.n_tensors);
	if (r >= 0)
		r = weir__model_read(m->file[shard], text, n, sizeof(th));
	for (uint32_t i = 0; r >= 0 && i < th.n_pairs; i++)
		r = add_pair(&h, &pairs[i]);
	for (uint32_t i = 0; r >= 0 && i < th.n_tensors; i++)
		r = add_tensor(&h, shard, &tensors[i]);
	free(text);
	ranges.data_at = weir__up(sizeof(th) + n, 64);
	ranges.data_bytes = head->file_bytes - ranges.data_at;
	end = weir__header_end(&h, r < 0 ? NULL : &ranges);
	return r < 0 ? r : end;
}

const struct weir__format toy = {
	.name = "toy",
	.suffix = ".toy",
	.probe = toy_probe,
	.read = toy_read,
};
