/* SPDX-License-Identifier: MIT */
/*
 * The tables of a backend, copied into the library's own: an older backend has
 * shorter ones, a newer backend longer ones. A backend is code in our process
 * and is trusted; its mistakes are caught here and in desc.c, so that nothing
 * else in the library has to doubt a table, a name or an alignment.
 */
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "dev/registry.h"

#define MAX_NAME 31u

bool weir__good_name(const char *name, size_t room)
{
	size_t len = name ? strnlen(name, room) : 0;

	if (!len || len == room)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!((name[i] | 0x20) >= 'a' && (name[i] | 0x20) <= 'z') &&
		    !(name[i] >= '0' && name[i] <= '9') && name[i] != '_' &&
		    name[i] != '-')
			return false;
	return true;
}

int weir__struct_in(const char *name, void *ours, size_t size, size_t least,
		    const void *theirs)
{
	size_t n = *(const size_t *)theirs;

	if (n < least)
		return weir__fail(
			-EPROTO,
			"its struct %s has %zu bytes, this library needs %zu",
			name, n, least);
	if (n % sizeof(void *))
		return weir__fail(
			-EPROTO,
			"its struct %s has %zu bytes, not a multiple of %zu",
			name, n, sizeof(void *));
	memset(ours, 0, size);
	memcpy(ours, theirs, n < size ? n : size);
	return 0;
}

/* @last: the last of its required members. */
#define TABLE_IN(name, ours, last, theirs)            \
	weir__struct_in(#name, ours, sizeof(*(ours)), \
			WEIR_BACKEND_END_OF(struct name, last), theirs)

static int check_member(const char *name, bool there)
{
	return there ? 0 : weir__fail(-EBADMSG, "its %s is NULL", name);
}

static int backend_in(struct weir_backend *b, const struct weir_backend *theirs)
{
	int r;

	/* The offsets of all other members depend on the ABI. */
	if (WEIR_BACKEND_HAS(theirs, abi) && theirs->abi != WEIR_BACKEND_ABI)
		return weir__fail(-EPROTO,
				  "it is made for ABI %u, this library has %u",
				  theirs->abi, WEIR_BACKEND_ABI);
	r = TABLE_IN(weir_backend, b, queue, theirs);
	if (r < 0)
		return r;
	if (!weir__good_name(b->name, MAX_NAME + 1))
		return weir__fail(
			-EBADMSG,
			"its name is not 1 to %u letters, digits, '_' or '-'",
			MAX_NAME);
	if ((r = check_member("probe", b->probe)) < 0 ||
	    (r = check_member("dev_open", b->dev_open)) < 0 ||
	    (r = check_member("dev_memory", b->dev_memory)) < 0 ||
	    (r = check_member("mem", b->mem)) < 0)
		return r;
	return check_member("queue", b->queue);
}

static int mem_in(struct weir_backend_mem_ops *m,
		  const struct weir_backend_mem_ops *theirs)
{
	int r = TABLE_IN(weir_backend_mem_ops, m, free, theirs);

	if (r < 0 || (r = check_member("mem->alloc", m->alloc)) < 0 ||
	    (r = check_member("mem->free", m->free)) < 0)
		return r;
	if (m->reach && !m->copy_from)
		return weir__fail(-EBADMSG,
				  "mem->copy_from is NULL, mem->reach is not");
	return 0;
}

static int queue_in(struct weir_backend_queue_ops *q,
		    const struct weir_backend_queue_ops *theirs)
{
	int r = TABLE_IN(weir_backend_queue_ops, q, submit, theirs);

	if (r < 0 || (r = check_member("queue->open", q->open)) < 0 ||
	    (r = check_member("queue->close", q->close)) < 0)
		return r;
	return check_member("queue->submit", q->submit);
}

static int compute_in(struct weir_backend_compute_ops *c,
		      const struct weir_backend_compute_ops *theirs)
{
	int r = TABLE_IN(weir_backend_compute_ops, c, release, theirs);

	if (r < 0 || (r = check_member("compute->supports", c->supports)) < 0 ||
	    (r = check_member("compute->prepare", c->prepare)) < 0)
		return r;
	return check_member("compute->release", c->release);
}

static int all_in(struct weir__tables *t, const struct weir_backend *theirs)
{
	struct weir_backend *b = &t->backend;
	int r = backend_in(b, theirs);

	if (r < 0 || (r = mem_in(&t->mem, b->mem)) < 0 ||
	    (r = queue_in(&t->queue, b->queue)) < 0)
		return r;
	b->mem = &t->mem;
	b->queue = &t->queue;
	if (!b->compute)
		return 0;
	r = compute_in(&t->compute, b->compute);
	b->compute = &t->compute;
	return r;
}

int weir__tables_in(const struct weir_backend *theirs,
		    struct weir__tables **ret_tables)
{
	struct weir__tables *t = weir__calloc(1, sizeof(*t));
	int r;

	if (!t)
		return weir__fail(-ENOMEM, "no memory for a backend's tables");
	r = all_in(t, theirs);
	if (r < 0) {
		weir__free(t);
		return r;
	}
	*ret_tables = t;
	return 0;
}
