/* SPDX-License-Identifier: MIT */
/* Digests of tensors, computed from the memory where the bytes are now. */
#include <errno.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/sys.h"
#include "mem/tensor.h"
#include "model/load/weights.h"

#define BLOCK_BYTES (1u << 20) /* copied at a time from a device */

static int no_memory(const struct weir_tensor *t)
{
	uint64_t bytes = 0;

	weir__tensor_bytes(t, &bytes);
	return weir__fail(-ENOMEM,
			  "%s: no memory for a digest of its %llu bytes",
			  weir__tensor_label(t), (unsigned long long)bytes);
}

static int update_from_device(struct weir__hash *h, const struct weir_tensor *t,
			      size_t bytes)
{
	void *block = weir__malloc(BLOCK_BYTES);
	int r = 0;

	if (!block)
		return no_memory(t);
	for (size_t at = 0; at < bytes && r >= 0; at += BLOCK_BYTES) {
		size_t n = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;

		r = weir_tensor_get(t, at, block, n);
		if (r >= 0)
			weir__hash_update(h, block, n);
	}
	weir__free(block);
	return r;
}

static int update_contiguous(struct weir__hash *h, const struct weir_tensor *t,
			     uint64_t bytes)
{
	const void *data = weir_tensor_data(t);

	if (!data)
		return update_from_device(h, t, bytes);
	weir__hash_update(h, data, bytes);
	return 0;
}

/* Digest a view: its rows, without the bytes between them. */
static int update_rows(struct weir__hash *h, const struct weir_tensor *t)
{
	int64_t index[WEIR_MAX_DIMS] = { 0 }, bytes;
	struct weir_tensor row;
	uint64_t off = 0;
	size_t width;
	unsigned outer = weir__tensor_outer(t, &width);
	int r;

	bytes = (int64_t)width;
	r = weir__tensor_init(&row, WEIR_DTYPE_U8, 1, &bytes);
	row.buf = t->buf;
	row.name = t->name;
	do {
		row.offset = t->offset + off;
		if (r >= 0)
			r = update_contiguous(h, &row, width);
	} while (r >= 0 && weir__tensor_next_row(t, outer, index, &off));
	return r;
}

/* Wait until tensor @i has arrived. The caller does not hold the lock. */
static int wait_arrived(struct weir_weights *w, size_t i)
{
	struct weir__arrival *a;
	int r;

	pthread_mutex_lock(&w->lock);
	a = w->arrival;
	if (a)
		weir__timeline_ref(&a->timeline);
	pthread_mutex_unlock(&w->lock);
	if (!a)
		return 0;
	r = weir__timeline_block(&a->timeline, i, -1);
	weir__arrival_put(a);
	return r;
}

int weir_weights_digest(struct weir_weights *weights, size_t i,
			enum weir_digest kind, uint8_t ret_digest[32])
{
	struct weir__hash h = { 0 };
	const struct weir_tensor *t;
	uint64_t bytes;
	int r;

	WEIR__ENTER();
	r = weir__root_read(weights->model->weir);
	if (r < 0)
		return r;
	if (i >= weights->layout->n)
		return weir__fail(-EINVAL, "tensor %zu of %zu", i,
				  weights->layout->n);
	r = weir__digest_check((int)kind);
	if (r < 0)
		return r;
	t = weir__weights_tensor(weights, i);
	if (!t->buf)
		return weir__fail(-EINVAL,
				  "%s went to a sink: it is not in memory",
				  weir__tensor_label(t));
	r = wait_arrived(weights, i);
	if (r < 0)
		return r;
	r = weir__tensor_bytes(t, &bytes);
	if (r >= 0 && weir__hash_start(&h, kind) < 0)
		r = no_memory(t);
	if (r >= 0)
		r = !bytes || weir__tensor_contiguous(t)
			    ? update_contiguous(&h, t, bytes)
			    : update_rows(&h, t);
	if (r >= 0)
		return weir__hash_finish(&h, ret_digest);
	weir__hash_drop(&h);
	return r;
}
