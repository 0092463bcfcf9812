/* SPDX-License-Identifier: MIT */
#include "graph/exec/progress.h"

#include <stdio.h>

#include "core/error.h"
#include "races/races.h"
#include "core/sys.h"

static int progress_state(struct weir__timeline *tl, uint64_t number,
			  struct weir_failure *cause)
{
	struct weir__progress *p = (struct weir__progress *)(void *)tl;

	if (number <= atomic_load(&p->done))
		return 1;
	if (!atomic_load(&p->failed))
		return 0;
	/* Numbers that were done before the failure remain done. */
	if (number <= atomic_load(&p->done))
		return 1;
	if (cause)
		*cause = p->failure;
	return p->failure.err;
}

static void progress_free(struct weir__timeline *tl)
{
	weir__timeline_fini(tl);
	weir__free(tl);
}

static const struct weir__timeline_ops progress_ops = {
	.size = sizeof(progress_ops),
	.state = progress_state,
	.free = progress_free,
};

static void progress_watch(struct weir__progress *p, const char *on,
			   const char *unit)
{
	char label[64];

	snprintf(label, sizeof(label), "the run on %s", on);
	weir__races_add(&p->timeline, label, unit);
}

int weir__progress_new(struct weir *weir, const char *on, const char *unit,
		       struct weir__progress **ret)
{
	struct weir__progress *p = weir__calloc(1, sizeof(*p));

	if (!p)
		return weir__fail(-ENOMEM, "no memory for a run's progress");
	weir__timeline_init(&p->timeline, &progress_ops, weir);
	if (on && weir__races_on(weir))
		progress_watch(p, on, unit);
	*ret = p;
	return 0;
}

void weir__progress_to(struct weir__progress *p, uint64_t number)
{
	uint64_t done = atomic_load(&p->done);

	/* The thread that ends a run may get here after the next run ended. */
	while (done < number &&
	       !atomic_compare_exchange_weak(&p->done, &done, number))
		;
	weir__timeline_complete(&p->timeline, number);
}

void weir__progress_fail(struct weir__progress *p, const struct weir_failure *f)
{
	if (atomic_load(&p->failed))
		return;
	p->failure = *f;
	atomic_store(&p->failed, true);
	weir__timeline_complete(&p->timeline, UINT64_MAX);
}
