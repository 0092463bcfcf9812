/* SPDX-License-Identifier: MIT */
#include "model/load/arrival.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/error.h"
#include "core/sys.h"
#include "races/races.h"

const struct weir_failure weir__cause_cancelled = {
	.err = -ECANCELED,
	.text = "the load was cancelled",
};
const struct weir_failure weir__cause_closed = {
	.err = -ESHUTDOWN,
	.text = "the root was closed and the read did not end in time",
};
static const struct weir_failure cause_no_memory = {
	.err = -ENOMEM,
	.text = "a read failed, and there was no memory to say why",
};

/* Tensors may share a cause, so the number is @i, not that of the cause. */
int weir__arrival_error(struct weir__arrival *a, uint64_t i,
			struct weir_failure *ret_failure)
{
	uint64_t first = atomic_load(&a->first_failed);
	const struct weir_failure *cause;

	if (i == a->n && first != WEIR__NONE_FAILED)
		i = first;
	cause = atomic_load(&a->item[i].cause);
	if (!cause)
		return 0;
	*ret_failure = *cause;
	ret_failure->number = i;
	return cause->err;
}

static struct weir__arrival *arrival_of(struct weir__timeline *tl)
{
	return (struct weir__arrival *)tl;
}

static int arrival_state(struct weir__timeline *tl, uint64_t number,
			 struct weir_failure *ret_cause)
{
	struct weir__arrival *a = arrival_of(tl);
	struct weir_failure failure;
	bool pending = number == a->n
			       ? !atomic_load(&a->finished)
			       : atomic_load(&a->item[number].remaining) != 0;
	int r;

	if (pending)
		return 0;
	r = weir__arrival_error(a, number, ret_cause ? ret_cause : &failure);
	return r < 0 ? r : 1;
}

static void arrival_destroy(struct weir__timeline *tl)
{
	struct weir__arrival *a = arrival_of(tl);
	struct weir__cause *c = atomic_load(&a->causes);

	while (c) {
		struct weir__cause *next = c->next;

		weir__free(c);
		c = next;
	}
	weir__timeline_fini(tl);
	weir__completions_fini(&a->ended);
	weir__free(a->unsubmitted);
	weir__free(a);
}

/*
 * Return NULL for number n: a load ends with a check of its files, on the host.
 */
static const struct weir_backend_queue_ops *
arrival_copies_submitted(struct weir__timeline *tl, uint64_t number)
{
	struct weir__arrival *a = arrival_of(tl);

	if (!a->unsubmitted || number == a->n)
		return NULL;
	/* All was copied, but it does not match its digest. */
	if (atomic_load(&a->item[number].cause))
		return NULL;
	return atomic_load(&a->unsubmitted[number]) ? NULL : a->copies_by;
}

static const struct weir__timeline_ops arrival_ops = {
	.size = sizeof(arrival_ops),
	.state = arrival_state,
	.free = arrival_destroy,
	.copies_submitted = arrival_copies_submitted,
};

int weir__arrival_new(struct weir *weir, size_t n, struct weir__arrival **ret)
{
	size_t fixed = sizeof(struct weir__arrival) +
		       (n + 1) * sizeof(struct weir__item);
	struct weir__arrival *a =
		weir__calloc(1, fixed + (n + 1) * sizeof(*a->ended.entry));

	if (!a)
		return -ENOMEM;
	weir__completions_init(&a->ended, (void *)((char *)a + fixed), n);
	a->n = n;
	atomic_init(&a->first_failed, WEIR__NONE_FAILED);
	weir__timeline_init(&a->timeline, &arrival_ops, weir);
	*ret = a;
	return 0;
}

const struct weir_failure *weir__arrival_note(struct weir__arrival *a, int err,
					      int32_t native, uint64_t number,
					      const char *fmt, ...)
{
	struct weir__cause *c = weir__calloc(1, sizeof(*c));
	char text[sizeof(c->failure.text)];
	va_list ap;

	if (!c)
		return &cause_no_memory;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	weir__failure_set(&c->failure, err, native, number, "%s", text);
	c->next = atomic_load(&a->causes);
	while (!atomic_compare_exchange_weak(&a->causes, &c->next, c))
		;
	return &c->failure;
}

void weir__arrival_blame(struct weir__arrival *a, uint64_t i,
			 const struct weir_failure *cause)
{
	const struct weir_failure *none = NULL;
	uint64_t none_failed = WEIR__NONE_FAILED;

	atomic_compare_exchange_strong(&a->item[i].cause, &none, cause);
	atomic_compare_exchange_strong(&a->first_failed, &none_failed, i);
}

void weir__arrival_fail(struct weir__arrival *a,
			const struct weir_failure *cause)
{
	weir__arrival_blame(a, a->n, cause);
}

/* Mapped and empty tensors have arrived: they are completed already. */
void weir__arrival_fail_all(struct weir__arrival *a,
			    const struct weir_failure *cause)
{
	for (size_t i = 0; i < a->n; i++) {
		uint64_t bytes = atomic_load(&a->item[i].remaining);

		if (bytes)
			weir__arrival_add(a, i, bytes, cause);
		else
			weir__arrival_blame(a, i, cause);
	}
	weir__arrival_fail(a, cause);
	/* The call that starts the load returns the failure. */
	weir__races_host_knows(&a->timeline, a->n);
}

void weir__arrival_add(struct weir__arrival *a, size_t i, uint64_t bytes,
		       const struct weir_failure *cause)
{
	if (cause)
		weir__arrival_blame(a, i, cause);
	if (atomic_fetch_sub(&a->item[i].remaining, bytes) != bytes)
		return;
	if (atomic_load(&a->item[i].cause))
		atomic_fetch_add_explicit(&a->failed, 1, memory_order_relaxed);
	weir__completions_add(&a->ended, i);
	weir__timeline_complete_one(&a->timeline, i);
}

int weir__arrival_expect_copies(struct weir__arrival *a,
				const struct weir_backend_queue_ops *by)
{
	a->unsubmitted = weir__calloc(a->n, sizeof(*a->unsubmitted));
	a->copies_by = by;
	if (!a->unsubmitted)
		return -ENOMEM;
	for (size_t i = 0; i < a->n; i++)
		atomic_init(&a->unsubmitted[i],
			    atomic_load(&a->item[i].remaining));
	return 0;
}

void weir__arrival_submitted(struct weir__arrival *a, size_t i, uint64_t bytes)
{
	if (atomic_fetch_sub(&a->unsubmitted[i], bytes) == bytes)
		weir__timeline_changed(&a->timeline);
}

void weir__arrival_finish(struct weir__arrival *a)
{
	atomic_store(&a->finished, true);
	weir__completions_end(&a->ended);
	weir__timeline_complete_one(&a->timeline, a->n);
}
