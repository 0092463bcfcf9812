/* SPDX-License-Identifier: MIT */
/* Calls that describe a schedule: its sizes, nodes, splits and transfers. */
#include <string.h>

#include "core/error.h"
#include "graph/exec/sched.h"
#include "mem/buf.h"

typedef unsigned long long ull;

static void images_info(const struct weir__graph_plan *p,
			struct weir_exec_info *info)
{
	info->lanes = p->n_lanes;
	info->splits = p->n_splits;
	info->transfers = p->n_images;
	for (uint32_t k = 0; k < p->n_images; k++) {
		const struct weir__copied *image = &p->image[k];

		if (image->of.kind == WEIR__IMAGE_TRANSFER)
			info->transfer_bytes += image->to.bytes;
		if (image->of.kind != WEIR__IMAGE_IMPORT)
			continue;
		info->imports++;
		info->import_bytes += image->to.bytes;
	}
}

int weir_exec_info(const struct weir_exec *schedule,
		   struct weir_exec_info *ret_info)
{
	const struct weir__graph_plan *p = schedule->plan;
	struct weir_exec_info info = { .size = sizeof(info),
				       .copies = p->n_copies };
	struct weir_sched_estimate e = { .nodes = p->n };
	int r;

	WEIR__ENTER();
	r = weir__root_read(p->sched->weir);
	if (r < 0)
		return r;
	for (uint32_t l = 0; l < p->n_lanes; l++)
		weir__sizes_add(&p->lane[l].sizes, &e);
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
	images_info(p, &info);
	memcpy(info.fingerprint, p->fingerprint, sizeof(p->fingerprint));
	pthread_mutex_lock(&p->sched->lock);
	for (uint32_t c = 0; c < p->n_copies; c++)
		info.taken += p->taken[c];
	info.times = p->times;
	pthread_mutex_unlock(&p->sched->lock);
	return weir__info_out(ret_info, &info, sizeof(info));
}

int weir_exec_explain(const struct weir_exec *schedule, uint64_t i,
		      struct weir_node_place *ret_place)
{
	const struct weir__graph_plan *p = schedule->plan;
	struct weir_node_place place = { .size = sizeof(place) };
	const struct weir__node_at *at;
	int r;

	WEIR__ENTER();
	r = weir__root_read(p->sched->weir);
	if (r < 0)
		return r;
	if (i >= p->n)
		return weir__fail(-EINVAL, "node %llu of %u", (ull)i, p->n);
	at = &p->at[i];
	place.dev = at->computed ? p->lane[at->lane].on->dev : NULL;
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
	const struct weir__graph_plan *p = schedule->plan;
	struct weir_split out = { .size = sizeof(out) };
	const struct weir__split *split;
	int r;

	WEIR__ENTER();
	r = weir__root_read(p->sched->weir);
	if (r < 0)
		return r;
	if (i >= p->n_splits)
		return weir__fail(-EINVAL, "split %llu of %u", (ull)i,
				  p->n_splits);
	split = &p->split[i];
	out.dev = p->lane[split->lane].on->dev;
	out.first = split->first;
	out.n = split->n;
	out.inputs = split->inputs;
	out.bytes = split->bytes;
	return weir__info_out(ret_split, &out, sizeof(out));
}

static uint32_t how_of(const struct weir__copied *image)
{
	switch (image->of.kind) {
	case WEIR__IMAGE_INPUT:
		return WEIR_TRANSFER_INPUT;
	case WEIR__IMAGE_TRANSFER:
		return WEIR_TRANSFER_COPY;
	default:
		return image->fed ? WEIR_TRANSFER_FED : WEIR_TRANSFER_KEPT;
	}
}

int weir_exec_transfer(const struct weir_exec *schedule, uint64_t i,
		       struct weir_transfer *ret_transfer)
{
	const struct weir__graph_plan *p = schedule->plan;
	struct weir_transfer out = { .size = sizeof(out) };
	const struct weir__copied *image;
	int r;

	WEIR__ENTER();
	r = weir__root_read(p->sched->weir);
	if (r < 0)
		return r;
	if (i >= p->n_images)
		return weir__fail(-EINVAL, "transfer %llu of %u", (ull)i,
				  p->n_images);
	image = &p->image[i];
	if (image->from.where != WEIR_NODE_LEAF)
		out.from = p->lane[image->from.lane].on->dev;
	else if (schedule->image[i].buf)
		out.from = schedule->image[i].buf->buft->dev;
	if (image->of.kind == WEIR__IMAGE_INPUT)
		out.from = NULL;
	out.to = p->lane[image->of.lane].on->dev;
	out.node = image->of.node;
	out.bytes = image->to.bytes;
	out.step = image->of.first;
	out.how = how_of(image);
	return weir__info_out(ret_transfer, &out, sizeof(out));
}
