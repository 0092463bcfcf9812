/* SPDX-License-Identifier: MIT */
/* Calls that describe a schedule: its sizes, nodes, splits and transfers. */
#include <string.h>

#include "core/error.h"
#include "graph/exec/sched.h"
#include "mem/buf.h"

typedef unsigned long long ull;

static void device_copies_info(const struct weir__compiled *cg,
			       struct weir_exec_info *info)
{
	info->lanes = cg->n_lanes;
	info->splits = cg->n_splits;
	info->transfers = cg->n_device_copies;
	for (uint32_t k = 0; k < cg->n_device_copies; k++) {
		const struct weir__placed_copy *device_copy =
			&cg->device_copy[k];

		if (device_copy->of.kind == WEIR__DEVICE_COPY_TRANSFER)
			info->transfer_bytes += device_copy->to.bytes;
		if (device_copy->of.kind != WEIR__DEVICE_COPY_IMPORT)
			continue;
		info->imports++;
		info->import_bytes += device_copy->to.bytes;
	}
}

int weir_exec_info(const struct weir_exec *schedule,
		   struct weir_exec_info *ret_info)
{
	const struct weir__compiled *cg = schedule->compiled;
	struct weir_exec_info info = { .size = sizeof(info),
				       .copies = cg->n_copies };
	struct weir_sched_estimate e = { .nodes = cg->n };
	int r;

	WEIR__ENTER();
	r = weir__root_read(cg->sched->weir);
	if (r < 0)
		return r;
	for (uint32_t l = 0; l < cg->n_lanes; l++)
		weir__sizes_add(&cg->lane[l].sizes, &e);
	info.bytes = e.bytes;
	info.results = e.results;
	info.inputs = e.inputs;
	info.workspace = e.workspace;
	info.leaves = e.leaves;
	info.nodes = e.nodes;
	info.computed = e.computed;
	info.in_place = e.in_place;
	info.lowest = e.lowest;
	info.kept = e.kept;
	info.fed = e.fed;
	info.ring = e.ring;
	device_copies_info(cg, &info);
	memcpy(info.fingerprint, cg->fingerprint, sizeof(cg->fingerprint));
	pthread_mutex_lock(&cg->sched->lock);
	for (uint32_t c = 0; c < cg->n_copies; c++)
		info.taken += cg->taken[c];
	info.times = cg->times;
	pthread_mutex_unlock(&cg->sched->lock);
	return weir__info_out(ret_info, &info, sizeof(info));
}

int weir_exec_explain(const struct weir_exec *schedule, uint64_t i,
		      struct weir_node_place *ret_place)
{
	const struct weir__compiled *cg = schedule->compiled;
	struct weir_node_place place = { .size = sizeof(place) };
	const struct weir__node_at *at;
	int r;

	WEIR__ENTER();
	r = weir__root_read(cg->sched->weir);
	if (r < 0)
		return r;
	if (i >= cg->n)
		return weir__fail(-EINVAL, "node %llu of %u", (ull)i, cg->n);
	at = &cg->at[i];
	place.dev = at->computed ? cg->lane[at->lane].on->dev : NULL;
	place.cause = at->cause;
	place.where = at->where;
	place.why = at->why;
	place.offset = at->offset;
	place.bytes = at->bytes;
	place.over = at->over;
	place.step = at->step;
	place.until = at->until == UINT32_MAX ? UINT64_MAX : at->until;
	return weir__info_out(ret_place, &place, sizeof(place));
}

int weir_exec_split(const struct weir_exec *schedule, uint64_t i,
		    struct weir_split *ret_split)
{
	const struct weir__compiled *cg = schedule->compiled;
	struct weir_split out = { .size = sizeof(out) };
	const struct weir__split *split;
	int r;

	WEIR__ENTER();
	r = weir__root_read(cg->sched->weir);
	if (r < 0)
		return r;
	if (i >= cg->n_splits)
		return weir__fail(-EINVAL, "split %llu of %u", (ull)i,
				  cg->n_splits);
	split = &cg->split[i];
	out.dev = cg->lane[split->lane].on->dev;
	out.first = split->first;
	out.n = split->n;
	out.inputs = split->inputs;
	out.bytes = split->bytes;
	return weir__info_out(ret_split, &out, sizeof(out));
}

static uint32_t how_of(const struct weir__placed_copy *device_copy)
{
	switch (device_copy->of.kind) {
	case WEIR__DEVICE_COPY_INPUT:
		return WEIR_TRANSFER_INPUT;
	case WEIR__DEVICE_COPY_TRANSFER:
		return WEIR_TRANSFER_COPY;
	default:
		return device_copy->fed ? WEIR_TRANSFER_FED
					: WEIR_TRANSFER_KEPT;
	}
}

int weir_exec_transfer(const struct weir_exec *schedule, uint64_t i,
		       struct weir_transfer *ret_transfer)
{
	const struct weir__compiled *cg = schedule->compiled;
	struct weir_transfer out = { .size = sizeof(out) };
	const struct weir__placed_copy *device_copy;
	int r;

	WEIR__ENTER();
	r = weir__root_read(cg->sched->weir);
	if (r < 0)
		return r;
	if (i >= cg->n_device_copies)
		return weir__fail(-EINVAL, "transfer %llu of %u", (ull)i,
				  cg->n_device_copies);
	device_copy = &cg->device_copy[i];
	if (device_copy->from.where != WEIR_NODE_LEAF)
		out.from = cg->lane[device_copy->from.lane].on->dev;
	else if (schedule->device_copy[i].buf)
		out.from = schedule->device_copy[i].buf->buft->dev;
	if (device_copy->of.kind == WEIR__DEVICE_COPY_INPUT)
		out.from = NULL;
	out.to = cg->lane[device_copy->of.lane].on->dev;
	out.node = device_copy->of.node;
	out.bytes = device_copy->to.bytes;
	out.step = device_copy->of.first;
	out.how = how_of(device_copy);
	return weir__info_out(ret_transfer, &out, sizeof(out));
}
