/* SPDX-License-Identifier: MIT */
#include "digest.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "output.h"
#include "signals.h"
#include "text.h"

enum {
	DIGEST_THREADS = 64
};

/* Shared by the threads. Each takes the next tensor until none is left. */
struct work {
	struct weir_weights *weights;
	enum weir_digest kind;
	struct digests *digests;
	size_t next; /* atomic: number of the next tensor */
	bool failed; /* atomic: stop. The thread that set it writes @why */
	char why[512];
};

static void note_failure(struct work *t)
{
	/* Here, since weir_error() is that of the failing thread. */
	if (!__atomic_exchange_n(&t->failed, true, __ATOMIC_ACQ_REL))
		snprintf(t->why, sizeof(t->why), "%s", weir_sentence());
}

static void *digest_some(void *arg)
{
	struct work *t = arg;

	while (!__atomic_load_n(&t->failed, __ATOMIC_ACQUIRE) &&
	       !signals_caught()) {
		size_t i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);

		if (i >= t->digests->count)
			break;
		if (weir_weights_digest(t->weights, i, t->kind,
					t->digests->of[i]) < 0)
			note_failure(t);
	}
	return NULL;
}

static unsigned count_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

/* The calling thread works too, so that it succeeds if no thread starts. */
static void digest_all(struct work *t)
{
	pthread_t threads[DIGEST_THREADS];
	unsigned want = count_cpus(), n = 0;

	while (n + 1 < want && n < DIGEST_THREADS && n < t->digests->count &&
	       pthread_create(&threads[n], NULL, digest_some, t) == 0)
		n++;
	digest_some(t);
	while (n)
		pthread_join(threads[--n], NULL);
}

int digests_compute(struct weir_weights *weights, enum weir_digest kind,
		    struct digests *ret_digests)
{
	struct work t = {
		.weights = weights,
		.kind = kind,
		.digests = ret_digests,
	};

	ret_digests->count = weir_weights_count(weights);
	ret_digests->bytes = kind == WEIR_DIGEST_XXH3 ? 16 : 32;
	ret_digests->of = calloc(ret_digests->count + 1, DIGEST_MAX);
	if (!ret_digests->of)
		return fail_memory();
	digest_all(&t);
	if (t.failed && !signals_caught())
		return fail("%s", t.why);
	return t.failed || signals_caught() ? EXIT_FAILURE : 0;
}

void digests_free(struct digests *digests)
{
	free(digests->of);
	*digests = (struct digests){ 0 };
}

const char *digest_text(const struct digests *digests, size_t i,
			char buf[DIGEST_TEXT])
{
	for (size_t k = 0; k < digests->bytes; k++)
		snprintf(buf + 2 * k, 3, "%02x", digests->of[i][k]);
	return buf;
}

struct named {
	const char *name;
	size_t len;
	size_t i;
};

static int compare(const void *va, const void *vb)
{
	const struct named *a = va, *b = vb;
	int r = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

	if (r)
		return r;
	return a->len == b->len ? 0 : a->len < b->len ? -1 : 1;
}

static struct named *sorted_names(const struct weir_weights *weights, size_t n)
{
	struct named *list = calloc(n + 1, sizeof(*list));
	struct weir_entry e = { .size = sizeof(e) };

	for (size_t i = 0; list && i < n; i++) {
		if (weir_weights_entry(weights, i, &e) < 0) {
			free(list);
			return NULL;
		}
		list[i] = (struct named){ e.name, e.name_len, i };
	}
	if (list)
		qsort(list, n, sizeof(*list), compare);
	return list;
}

/*
 * The line is that of sha256sum(1), but on a terminal control characters are
 * escaped.
 */
static void print_line(const char *hex, const struct named *n, bool terminal)
{
	bool odd = text_is_odd(n->name, n->len);

	printf("%s%s  ", odd ? "\\" : "", hex);
	if (terminal)
		text_put(stdout, n->name, n->len, 0);
	else if (odd)
		text_put_odd(stdout, n->name, n->len);
	else
		fwrite(n->name, 1, n->len, stdout);
	putchar('\n');
}

int digests_print(const struct digests *digests,
		  const struct weir_weights *weights)
{
	struct named *list = sorted_names(weights, digests->count);
	bool terminal = isatty(STDOUT_FILENO);
	char hex[DIGEST_TEXT];

	if (!list)
		return fail_memory();
	for (size_t i = 0; i < digests->count; i++)
		print_line(digest_text(digests, list[i].i, hex), &list[i],
			   terminal);
	free(list);
	return 0;
}
