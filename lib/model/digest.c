/* SPDX-License-Identifier: MIT */
/* Digests of tensors, computed from the memory where the bytes are now. */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <xxhash.h>

#include "core/error.h"
#include "core/sys.h"
#include "mem/tensor.h"
#include "model/weights.h"

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

/* Bytes [off, off + n) of @all: in place, or through @block. */
static int hash_range(struct hasher *h, const struct weir_tensor *all,
		      unsigned char *block, uint64_t off, uint64_t n)
{
	const unsigned char *data = weir_tensor_data(all);
	int r = 0;

	if (data)
		hash_update(h, data + off, n);
	for (uint64_t at = 0, len; !data && at < n && r >= 0; at += len) {
		len = n - at < BLOCK_BYTES ? n - at : BLOCK_BYTES;
		r = weir_tensor_get(all, off + at, block, len);
		if (r >= 0)
			hash_update(h, block, len);
	}
	return r;
}

/* The elements of @t in their order; @all has the bytes that it spans. */
static int hash_rows(struct hasher *h, const struct weir_tensor *t,
		     const struct weir_tensor *all, unsigned char *block)
{
	int64_t index[WEIR_MAX_DIMS] = { 0 };
	uint64_t off = 0;
	unsigned outer;
	size_t row;
	int r;

	if (weir__tensor_contiguous(t))
		return hash_range(h, all, block, 0, (uint64_t)all->shape[0]);
	outer = weir__tensor_outer(t, &row);
	do
		r = hash_range(h, all, block, off, row);
	while (r >= 0 && weir__tensor_next_row(t, outer, index, &off));
	return r;
}

static int hash_tensor(struct hasher *h, const struct weir_tensor *t)
{
	unsigned char *block = NULL;
	struct weir_tensor all;
	uint64_t bytes;
	int64_t n;
	int r = weir__tensor_bytes(t, &bytes);

	n = (int64_t)bytes;
	if (r >= 0)
		r = weir__tensor_init(&all, WEIR_DTYPE_U8, 1, &n);
	if (r < 0)
		return r;
	all.buf = t->buf;
	all.offset = t->offset;
	if (!weir_tensor_data(&all)) {
		block = weir__malloc(BLOCK_BYTES);
		if (!block)
			return no_memory(t);
	}
	r = hash_rows(h, t, &all, block);
	weir__free(block);
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
		weir__source_ref(&a->source);
	pthread_mutex_unlock(&w->lock);
	if (!a)
		return 0;
	r = weir__source_block(&a->source, i, -1);
	weir__arrival_put(a);
	return r;
}

int weir_weights_digest(struct weir_weights *weights, size_t i,
			enum weir_digest kind, uint8_t ret_digest[32])
{
	struct hasher h = { .kind = kind };
	const struct weir_tensor *t;
	int r;

	WEIR__ENTER();
	r = weir__root_read(weights->model->weir);
	if (r < 0)
		return r;
	if (i >= weights->layout.n)
		return weir__fail(-EINVAL, "tensor %zu of %zu", i,
				  weights->layout.n);
	if (kind != WEIR_DIGEST_XXH3 && kind != WEIR_DIGEST_SHA256)
		return weir__fail(-EINVAL, "digest %d is not one of %d and %d",
				  (int)kind, WEIR_DIGEST_XXH3,
				  WEIR_DIGEST_SHA256);
	r = wait_arrived(weights, i);
	if (r < 0)
		return r;
	t = &weights->tensor[i];
	r = hash_start(&h, t);
	if (r >= 0)
		r = hash_tensor(&h, t);
	if (r >= 0)
		r = hash_finish(&h, ret_digest);
	XXH3_freeState(h.xxh);
	EVP_MD_CTX_free(h.evp);
	return r;
}
