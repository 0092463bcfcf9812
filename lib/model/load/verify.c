/* SPDX-License-Identifier: MIT */
#include "model/load/verify.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "model/load/load.h"

/* A tensor of which some bytes have been hashed, and others have not. */
struct chain {
	struct weir__hash hash; /* used by the thread whose bytes are next */
	uint64_t next;          /* bytes hashed */
	struct weir__check *waiting;
};

enum state {
	NONE,
	DONE,
	BROKEN
};

struct hashed {              /* a tensor */
	struct chain *chain; /* NULL: none */
	_Atomic uint8_t state;
};

struct weir__verifier {
	struct weir__expected *expected; /* referenced */
	const struct weir_model *model;
	const struct weir__layout *layout;
	struct weir__arrival *arrival;
	pthread_mutex_t lock; /* guards chains, but for their hash */
	struct hashed *item;  /* state of each tensor */
	uint8_t (*digest)[WEIR__DIGEST_MAX];
};

void weir__expected_put(struct weir__expected *expected)
{
	if (!expected || !weir__refs_drop(&expected->refs))
		return;
	weir__manifest_put(expected->manifest);
	weir__free(expected);
}

static const struct weir__record *record_of(const struct weir__verifier *v,
					    size_t i)
{
	return &v->model->rec[v->layout->placement[i].record];
}

static const char *name_of(const struct weir__verifier *v, size_t i)
{
	const struct weir__record *rec = record_of(v, i);

	return weir__quote(v->model->text + rec->name, rec->name_len);
}

static int check_whole(const struct weir__verifier *v)
{
	for (size_t i = 0; i < v->layout->n; i++) {
		uint64_t data = v->layout->placement[i].data;
		uint64_t bytes = record_of(v, i)->bytes;

		if (data != bytes)
			return weir__fail(
				-EINVAL,
				"tensor '%s': %llu of its %llu bytes are loaded, but a digest is of all of them",
				name_of(v, i), (unsigned long long)data,
				(unsigned long long)bytes);
	}
	return 0;
}

void weir__verifier_free(struct weir__verifier *v)
{
	if (!v)
		return;
	for (size_t i = 0; v->item && i < v->layout->n; i++) {
		if (v->item[i].chain)
			weir__hash_drop(&v->item[i].chain->hash);
		weir__free(v->item[i].chain);
	}
	weir__expected_put(v->expected);
	pthread_mutex_destroy(&v->lock);
	weir__free(v->item);
	weir__free(v->digest);
	weir__free(v);
}

int weir__verifier_new(struct weir__expected *expected,
		       const struct weir_model *model,
		       const struct weir__layout *layout,
		       struct weir__arrival *arrival,
		       struct weir__verifier **ret_verifier)
{
	struct weir__verifier *v = weir__calloc(1, sizeof(*v));
	size_t n = layout->n;
	int r;

	if (!v)
		goto out_no_memory;
	pthread_mutex_init(&v->lock, NULL);
	weir__refs_add(&expected->refs, 1);
	v->expected = expected;
	v->model = model;
	v->layout = layout;
	v->arrival = arrival;
	r = check_whole(v);
	if (r < 0)
		goto out_free;
	v->item = weir__calloc(n + 1, sizeof(*v->item));
	v->digest = weir__calloc(n + 1, sizeof(*v->digest));
	if (!v->item || !v->digest)
		goto out_no_memory;
	*ret_verifier = v;
	return 0;
out_no_memory:
	r = weir__fail(-ENOMEM, "%s: no memory for the digests of %zu tensors",
		       model->path, n);
out_free:
	weir__verifier_free(v);
	return r;
}

static bool is_broken(const struct weir__verifier *v, size_t i)
{
	return atomic_load(&v->item[i].state) == BROKEN;
}

/* The chain of tensor @i, made now if it has none. NULL: no memory. */
static struct chain *get_chain(struct weir__verifier *v, size_t i)
{
	struct chain *c = v->item[i].chain;

	if (c)
		return c;
	c = weir__calloc(1, sizeof(*c));
	if (c && weir__hash_start(&c->hash, v->expected->kind) < 0) {
		weir__free(c);
		c = NULL;
	}
	v->item[i].chain = c;
	return c;
}

/* Remove the check for byte @at of the tensor. NULL: there is none yet. */
static struct weir__check *take_check(struct chain *c, uint64_t at)
{
	struct weir__check **link = &c->waiting, *check;

	while (*link && (*link)->at != at)
		link = &(*link)->next;
	check = *link;
	if (check)
		*link = check->next;
	return check;
}

static const struct weir_failure *fail_memory(struct weir__verifier *v,
					      size_t i)
{
	return weir__arrival_note(
		v->arrival, -ENOMEM, 0, i,
		"tensor '%s': no memory for a digest of its %llu bytes",
		name_of(v, i), (unsigned long long)record_of(v, i)->bytes);
}

/* The digest of tensor @i is there. */
static const struct weir_failure *conclude(struct weir__verifier *v, size_t i)
{
	const struct weir__expected *x = v->expected;
	size_t bytes = weir__digest_bytes(x->kind);
	char is[WEIR__DIGEST_TEXT], was[WEIR__DIGEST_TEXT];
	const uint8_t *expected;

	atomic_store(&v->item[i].state, DONE);
	if (!x->manifest)
		return NULL;
	expected = x->manifest->entry[x->entry[v->layout->placement[i].record]]
			   .digest;
	if (!memcmp(expected, v->digest[i], bytes))
		return NULL;
	/* The digests come first: a long name may be cut. */
	return weir__arrival_note(
		v->arrival, -EBADMSG, 0, i,
		"%s is %s, but %s in the manifest: tensor '%s' of %s",
		weir__digest_name(x->kind),
		weir__digest_hex(v->digest[i], bytes, is),
		weir__digest_hex(expected, bytes, was), name_of(v, i),
		v->model->file[record_of(v, i)->shard]->base);
}

bool weir__verify_in_turn(struct weir__verifier *v, struct weir__engine *eng,
			  size_t i, uint64_t at, struct weir__check *check)
{
	bool in_turn, no_memory = false;
	struct chain *c;

	if (!at)
		return true;
	pthread_mutex_lock(&v->lock);
	in_turn = is_broken(v, i);
	c = in_turn ? NULL : get_chain(v, i);
	if (c && c->next == at) {
		in_turn = true;
	} else if (c && check) {
		check->at = at;
		check->next = c->waiting;
		c->waiting = check;
	} else if (!c) {
		no_memory = !in_turn;
		in_turn = true;
	}
	pthread_mutex_unlock(&v->lock);
	if (no_memory) {
		weir__verify_break(v, eng, i);
		weir__arrival_blame(v->arrival, i, fail_memory(v, i));
	}
	return in_turn;
}

/*
 * The thread's bytes have been hashed: the next ones are in turn. Returns true
 * if all have been.
 */
static bool advance(struct weir__verifier *v, struct weir__engine *eng,
		    size_t i, struct chain *c, uint64_t n)
{
	struct weir__check *check = NULL;
	bool all;

	pthread_mutex_lock(&v->lock);
	c->next += n;
	all = c->next == v->layout->placement[i].data && !is_broken(v, i);
	if (all)
		v->item[i].chain = NULL;
	else
		check = take_check(c, c->next);
	pthread_mutex_unlock(&v->lock);
	if (check)
		weir__check_again(eng, check);
	return all;
}

static const struct weir_failure *hash_part(struct weir__verifier *v,
					    struct weir__engine *eng, size_t i,
					    uint64_t at, const void *data,
					    uint64_t n)
{
	bool broken;
	struct chain *c;

	pthread_mutex_lock(&v->lock);
	broken = is_broken(v, i);
	c = broken ? NULL : get_chain(v, i);
	pthread_mutex_unlock(&v->lock);
	if (broken)
		return NULL;
	if (!c) {
		weir__verify_break(v, eng, i);
		return fail_memory(v, i);
	}
	/* A sink has lost bytes of a tensor that has failed. */
	if (c->next != at)
		return NULL;
	weir__hash_update(&c->hash, data, n);
	if (!advance(v, eng, i, c, n))
		return NULL;
	weir__hash_finish(&c->hash, v->digest[i]);
	weir__free(c);
	return conclude(v, i);
}

const struct weir_failure *weir__verify_bytes(struct weir__verifier *v,
					      struct weir__engine *eng,
					      size_t i, uint64_t at,
					      const void *data, uint64_t n)
{
	if (at || n != v->layout->placement[i].data)
		return hash_part(v, eng, i, at, data, n);
	if (weir__hash_bytes(v->expected->kind, data, n, v->digest[i]) < 0)
		return fail_memory(v, i);
	return conclude(v, i);
}

void weir__verify_break(struct weir__verifier *v, struct weir__engine *eng,
			size_t i)
{
	struct weir__check *check = NULL, *next;

	pthread_mutex_lock(&v->lock);
	if (atomic_load(&v->item[i].state) != DONE)
		atomic_store(&v->item[i].state, BROKEN);
	if (v->item[i].chain) {
		check = v->item[i].chain->waiting;
		v->item[i].chain->waiting = NULL;
	}
	pthread_mutex_unlock(&v->lock);
	for (; check; check = next) {
		next = check->next;
		weir__check_again(eng, check);
	}
}

int weir__verifier_digest(const struct weir__verifier *v, size_t i,
			  uint8_t *ret_digest)
{
	size_t bytes = weir__digest_bytes(v->expected->kind);

	if (atomic_load(&v->item[i].state) != DONE)
		return 0;
	memcpy(ret_digest, v->digest[i], bytes);
	return (int)bytes;
}

/* From now on loads of the plan have @expected, which is the plan's. */
static void plan_expect(struct weir_plan *plan, struct weir__expected *expected)
{
	/* Mapped tensors are read only if there is something to compute. */
	weir__layout_forget(plan);
	weir__expected_put(plan->expected);
	plan->expected = expected;
}

static struct weir__expected *expected_new(const struct weir_plan *plan,
					   enum weir_digest kind,
					   size_t entries)
{
	struct weir__expected *x =
		weir__calloc(1, sizeof(*x) + entries * sizeof(x->entry[0]));

	if (!x) {
		weir__fail(-ENOMEM, "%s: no memory to compute %zu digests",
			   plan->model->path, plan->model->n_recs);
		return NULL;
	}
	atomic_init(&x->refs, 1);
	x->kind = kind;
	return x;
}

int weir_plan_digest(struct weir_plan *plan, enum weir_digest kind)
{
	struct weir__expected *x;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(plan->model->weir);
	if (!r)
		r = weir__digest_check((int)kind);
	if (r < 0)
		return r;
	x = expected_new(plan, kind, 0);
	if (!x)
		return -ENOMEM;
	plan_expect(plan, x);
	return 0;
}

int weir_plan_verify(struct weir_plan *plan, struct weir_manifest *manifest)
{
	struct weir__expected *x;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(plan->model->weir);
	if (r < 0)
		return r;
	x = expected_new(plan, manifest->kind, plan->model->n_recs);
	if (!x)
		return -ENOMEM;
	r = weir__manifest_match(manifest, plan->model, x->entry);
	if (r < 0) {
		weir__expected_put(x);
		return r;
	}
	x->manifest = weir__manifest_ref(manifest);
	plan_expect(plan, x);
	return 0;
}

/* -EINVAL: the load computes no digests. */
static int check_load(const struct weir_load *l)
{
	int r = weir__root_read(l->weir);

	if (r >= 0 && !l->verifier)
		r = weir__fail(
			-EINVAL,
			"the plan of this load had neither weir_plan_digest() nor weir_plan_verify()");
	return r;
}

int weir_load_digest(struct weir_load *load, size_t i, uint8_t ret_digest[32])
{
	struct weir_failure failure;
	int r;

	WEIR__ENTER();
	r = check_load(load);
	if (r < 0)
		return r;
	if (i >= load->arrival->n)
		return weir__fail(-EINVAL, "tensor %zu of %zu", i,
				  load->arrival->n);
	r = weir__verifier_digest(load->verifier, i, ret_digest);
	if (r > 0)
		return r;
	r = weir__arrival_error(load->arrival, i, &failure);
	if (r < 0)
		return weir__fail_with(&failure);
	return weir__fail(-EAGAIN, "tensor '%s' has not been read yet",
			  name_of(load->verifier, i));
}

/* The load's digests by record. -EINVAL: a record has none. */
static int list_digests(const struct weir_load *l,
			uint8_t (*ret)[WEIR__DIGEST_MAX], bool *has)
{
	const struct weir_model *m = l->model;

	for (size_t i = 0; i < l->arrival->n; i++) {
		size_t record = l->weights->layout->placement[i].record;

		has[record] |=
			weir__verifier_digest(l->verifier, i, ret[record]) > 0;
	}
	for (size_t i = 0; i < m->n_recs; i++)
		if (!has[i])
			return weir__fail(
				-EINVAL,
				"%s: the load did not read tensor '%s', and a manifest is of all tensors",
				m->path,
				weir__quote(weir__record_name(m, i),
					    m->rec[i].name_len));
	return 0;
}

int weir_load_manifest(struct weir_load *load,
		       struct weir_manifest **ret_manifest)
{
	uint8_t(*digest)[WEIR__DIGEST_MAX];
	size_t n = load->model->n_recs;
	struct weir_failure failure;
	bool *has;
	int r;

	WEIR__ENTER();
	r = check_load(load);
	if (r < 0)
		return r;
	if (!atomic_load(&load->arrival->finished))
		return weir__fail(-EAGAIN, "the load has not ended");
	r = weir__arrival_error(load->arrival, load->arrival->n, &failure);
	if (r < 0)
		return weir__fail_with(&failure);
	digest = weir__calloc(n + 1, sizeof(*digest));
	has = weir__calloc(n + 1, sizeof(*has));
	r = digest && has ? list_digests(load, digest, has)
			  : weir__fail(-ENOMEM, "%s: no memory for %zu digests",
				       load->model->path, n);
	if (r >= 0)
		r = weir__manifest_new(load->model,
				       load->verifier->expected->kind, digest,
				       ret_manifest);
	weir__free(digest);
	weir__free(has);
	return r;
}
