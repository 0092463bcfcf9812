/* SPDX-License-Identifier: MIT */
/* Digests of tensors, computed from the memory where the bytes are now. */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <xxhash.h>

#include "core/error.h"
#include "core/sys.h"
#include "mem/tensor.h"
#include "model/load/weights.h"

#define BLOCK_BYTES (1u << 20) /* copied at a time from a device */

struct hasher {
	enum weir_digest kind;
	XXH3_state_t *xxh;
	EVP_MD_CTX *evp;
};

static int no_memory(const struct weir_tensor *t)
{
	uint64_t bytes = 0;

	weir__tensor_bytes(t, &bytes);
	return weir__fail(-ENOMEM,
			  "%s: no memory for a digest of its %llu bytes",
			  weir__tensor_label(t), (unsigned long long)bytes);
}

static int hash_start(struct hasher *h, const struct weir_tensor *t)
{
	if (h->kind == WEIR_DIGEST_XXH3) {
		h->xxh = XXH3_createState();
		if (h->xxh && XXH3_128bits_reset(h->xxh) == XXH_OK)
			return 0;
	} else {
		h->evp = EVP_MD_CTX_new();
		if (h->evp && EVP_DigestInit_ex(h->evp, EVP_sha256(), NULL))
			return 0;
	}
	return no_memory(t);
}

static void hash_update(struct hasher *h, const void *data, size_t n)
{
	if (h->xxh)
		XXH3_128bits_update(h->xxh, data, n);
	else
		EVP_DigestUpdate(h->evp, data, n);
}

static int hash_finish(struct hasher *h, uint8_t *ret_digest)
{
	XXH128_canonical_t canonical;

	if (!h->xxh) {
		EVP_DigestFinal_ex(h->evp, ret_digest, NULL);
		return 32;
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(h->xxh));
	memcpy(ret_digest, canonical.digest, sizeof(canonical.digest));
	return (int)sizeof(canonical.digest);
}

static int update_from_device(struct hasher *h, const struct weir_tensor *t,
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
			hash_update(h, block, n);
	}
	weir__free(block);
	return r;
}

static int update_contiguous(struct hasher *h, const struct weir_tensor *t,
			     uint64_t bytes)
{
	const void *data = weir_tensor_data(t);

	if (!data)
		return update_from_device(h, t, bytes);
	hash_update(h, data, bytes);
	return 0;
}

/* Digest a view: its rows, without the bytes between them. */
static int update_rows(struct hasher *h, const struct weir_tensor *t)
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
	struct hasher h = { .kind = kind };
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
	if (kind != WEIR_DIGEST_XXH3 && kind != WEIR_DIGEST_SHA256)
		return weir__fail(-EINVAL, "digest %d is not one of %d and %d",
				  (int)kind, WEIR_DIGEST_XXH3,
				  WEIR_DIGEST_SHA256);
	t = weir__weights_tensor(weights, i);
	if (!t->buf)
		return weir__fail(-EINVAL,
				  "%s went to a sink: it is not in memory",
				  weir__tensor_label(t));
	r = wait_arrived(weights, i);
	if (r < 0)
		return r;
	r = weir__tensor_bytes(t, &bytes);
	if (r >= 0)
		r = hash_start(&h, t);
	if (r >= 0)
		r = !bytes || weir__tensor_contiguous(t)
			    ? update_contiguous(&h, t, bytes)
			    : update_rows(&h, t);
	if (r >= 0)
		r = hash_finish(&h, ret_digest);
	XXH3_freeState(h.xxh);
	EVP_MD_CTX_free(h.evp);
	return r;
}
