/* SPDX-License-Identifier: MIT */
/*
 * Transfers: copies of results and leaves into memory of the lanes that read
 * them. A run has one stream for each device and direction. There each copy waits
 * for the progress of the lanes that write its source, and the reader waits for
 * the copy. Copies are queued in the order of the nodes that they come after, so
 * none waits for a lane that waits for a later copy.
 */
#include "core/error.h"
#include "races/races.h"
#include "graph/exec/run.h"
#include "mem/tensor.h"

static int copier_own(struct weir_run *run, uint32_t c)
{
	struct weir__compiled *cg = run->compiled;

	if (run->copier[c] && !weir__stream_has_failed(run->copier[c]))
		return 0;
	if (run->copier[c])
		weir__timeline_put(&run->copier[c]->timeline);
	run->copier[c] = NULL;
	return weir__sched_stream(cg->sched, cg->copier[c].on, &run->copier[c]);
}

int weir__wait_for_last(struct weir_stream *s,
			const struct weir__graph_lane *of)
{
	struct weir__timeline *last = of->last;

	if (!last || last == &s->timeline)
		return 0;
	if (last->ops->state(last, of->last_number, NULL) != 0) {
		weir__races_next_knows(&s->timeline, last, of->last_number);
		return 0;
	}
	return weir__stream_wait_ended(s, last, of->last_number);
}

/* Earlier runs may write the leaves that this one copies. */
static int copier_wait(struct weir_run *run, uint32_t c)
{
	struct weir__compiled *cg = run->compiled;
	int r = copier_own(run, c);

	for (uint32_t l = 0; cg->shared && l < cg->n_lanes && !r; l++)
		r = weir__wait_for_last(run->copier[c], &cg->lane[l]);
	return r;
}

static int transfer_wait(struct weir_run *run, uint32_t k,
			 struct weir_stream *s)
{
	const struct weir__compiled *cg = run->compiled;
	struct weir_event *event = run->exec->event[cg->n_points + k];
	int r = event ? weir__stream_wait_event(s, event) : 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++) {
		const struct weir__run_lane *lane = &run->lane[l];
		uint32_t steps = cg->wait[k * cg->n_lanes + l];

		if (!steps)
			continue;
		r = weir__stream_wait_timeline(
			s, weir__timeline_ref(&lane->progress->timeline),
			lane->base + steps);
	}
	return r;
}

/* All bytes of a class. */
static struct weir_tensor class_bytes(const struct weir_run *run,
				      const struct weir__location *location)
{
	return weir__flat_tensor(weir__location_buf(run->compiled, location,
						    run->copy),
				 location->offset, location->bytes);
}

static int transfer_queue(struct weir_run *run, uint32_t k)
{
	const struct weir__placed_copy *device_copy =
		&run->compiled->device_copy[k];
	struct weir_stream *s = run->copier[device_copy->copier];
	struct weir_tensor from = class_bytes(run, &device_copy->from);
	struct weir_tensor to = class_bytes(run, &device_copy->to);
	int r = transfer_wait(run, k, s);

	if (device_copy->from.where == WEIR_NODE_LEAF) {
		from.buf = run->exec->device_copy[k].buf;
		from.offset = run->exec->device_copy[k].offset;
	}
	if (r == 0 && device_copy->from.bytes)
		r = weir__stream_copy(s, &to, &from);
	run->copied[k] = weir__stream_tail(s);
	return r;
}

int weir__transfers_queue(struct weir_run *run)
{
	const struct weir__compiled *cg = run->compiled;
	int r = 0;

	for (uint32_t c = 0; c < cg->n_copiers && !r; c++)
		r = copier_wait(run, c);
	for (uint32_t i = 0; i < cg->n_transfers && !r; i++)
		r = transfer_queue(run, cg->transfer[i]);
	return r;
}
