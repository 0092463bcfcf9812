/* SPDX-License-Identifier: MIT */
/*
 * Two loops over the nodes. The first finds which lane has each node, and which
 * steps other lanes wait for; the second numbers the steps, and adds sync
 * points and device copies as they are needed.
 */
#include "graph/compile/sync.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"

#define NONE WEIR__REACH_NONE

/* The state of one call of weir__sync(). */
struct syncing {
	const struct weir__sync_in *args;
	const struct weir__reach_in *in;
	const struct weir__reach *reach;
	struct weir__sync out;
	struct weir__sync_point *point; /* all lanes, in order of nodes */
	size_t point_cap, device_copy_cap, wait_cap;
	uint32_t n;
	uint8_t lane_of[WEIR__LANES]; /* lane of each device that has one */
	uint32_t *steps;              /* steps of each lane so far */
	/*
	 * The computed node whose value each node has; NONE: it has the value
	 * of a leaf or an input.
	 */
	uint32_t *made;
	uint8_t *released; /* true if others wait for the node's step */
	/*
	 * At l * n + c, for lane l and class c: 1 + the device copy of the
	 * class or, for a leaf whose memory the lane can use, 1 + its sync
	 * point. In the first loop: 1 + the last node of the lane that uses the
	 * class.
	 */
	uint32_t *of;
	/*
	 * At l * n_lanes + k: how many steps of lane k lane l has waited for.
	 */
	uint32_t *waited;
};

static bool computes(const struct syncing *s, uint32_t i)
{
	return weir__is_computed(s->in, s->reach, i);
}

static bool is_leaf(const struct syncing *s, uint32_t class)
{
	return s->args->marks[class] & WEIR__MARK_LEAF;
}

/* True if lane @l can use the bytes of @class where they are. */
static bool lane_can_use(const struct syncing *s, uint32_t l, uint32_t class)
{
	const uint8_t *dev = s->out.lane_dev;

	return is_leaf(s, class)
		       ? s->args->usable[class] >> dev[l] & 1
		       : s->args->shares[dev[l]] >> dev[s->out.lane[class]] & 1;
}

static bool is_import(const struct syncing *s, uint32_t l, uint32_t class)
{
	return s->args->marks[class] & WEIR__MARK_CONSTANT &&
	       !lane_can_use(s, l, class);
}

/* Each device that computes a node has a lane. */
static void lanes_find(struct syncing *s)
{
	uint64_t devs = 0;

	for (uint32_t i = 0; i < s->n; i++)
		if (computes(s, i))
			devs |= UINT64_C(1) << s->args->dev[i];
	if (!devs)
		devs = UINT64_C(1) << s->args->first;
	for (uint32_t d = 0; d < s->args->n_devs; d++)
		if (devs >> d & 1) {
			s->lane_of[d] = (uint8_t)s->out.n_lanes;
			s->out.lane_dev[s->out.n_lanes++] = (uint8_t)d;
		}
}

/* Leaves and inputs belong to the first lane that uses them. */
static void nodes_find(struct syncing *s)
{
	const struct weir__reach_in *in = s->in;
	uint8_t *lane = s->out.lane;

	for (uint32_t i = 0; i < s->n; i++) {
		bool computed = computes(s, i);

		lane[i] = computed ? s->lane_of[s->args->dev[i]]
				   : WEIR__NO_LANE;
		s->made[i] = computed         ? i
			     : in->of[i] == i ? NONE
					      : s->made[in->of[i]];
		if (!computed)
			continue;
		s->out.step_at[lane[i] + 1]++;
		for (uint32_t e = in->src_at[i]; e < in->src_at[i + 1]; e++)
			if (in->src[e] != NONE &&
			    lane[s->reach->alias[in->src[e]]] == WEIR__NO_LANE)
				lane[s->reach->alias[in->src[e]]] = lane[i];
	}
	for (uint32_t i = 0; i < s->n; i++)
		if (in->of[i] != i && s->made[i] != i)
			lane[i] = lane[s->made[i] != NONE ? s->made[i]
							  : in->of[i]];
		else if (lane[i] == WEIR__NO_LANE)
			lane[i] = 0;
	for (uint32_t l = 0; l < s->out.n_lanes; l++) {
		s->out.step_at[l + 1] += s->out.step_at[l];
		s->steps[l] = 0;
	}
	s->out.n = s->out.step_at[s->out.n_lanes];
}

/* Note that others wait for the step of node @b, if @l is another lane. */
static void release(struct syncing *s, uint32_t l, uint32_t b)
{
	s->released[b] |= s->out.lane[b] != l;
}

static void crossings_of(struct syncing *s, uint32_t i)
{
	const struct weir__reach_in *in = s->in;
	uint32_t l = s->out.lane[i];

	for (uint32_t b = s->reach->before_at[i];
	     b < s->reach->before_at[i + 1]; b++) {
		release(s, l, s->reach->before[b]);
		s->out.shared |= s->out.lane[s->reach->before[b]] != l;
	}
	if (!computes(s, i))
		return; /* it is only observed */
	for (uint32_t e = in->src_at[i]; e < in->src_at[i + 1]; e++) {
		uint32_t p, class;

		if (in->src[e] == NONE)
			continue;
		p = s->made[in->src[e]];
		class = s->reach->alias[in->src[e]];
		if (is_import(s, l, class))
			s->of[l * (size_t)s->n + class] = 1 + i;
		if (p == NONE)
			continue;
		release(s, l, p);
		s->out.exported[p] |= p == class && s->out.lane[p] != l;
	}
}

/* The steps that others wait for: another lane, or the prefetcher. */
static void crossings_find(struct syncing *s)
{
	size_t all = (size_t)s->out.n_lanes * s->n;

	for (uint32_t i = 0; i < s->n; i++)
		if (computes(s, i) || s->in->flags[i] & WEIR__REACH_OBSERVED)
			crossings_of(s, i);
	for (size_t k = 0; k < all; k++) {
		if (s->of[k])
			s->released[s->of[k] - 1] = 1;
		s->of[k] = 0;
	}
}

static int no_memory(const struct syncing *s)
{
	return weir__fail(-ENOMEM, "no memory for the order of %u nodes", s->n);
}

/*
 * Add a sync point before the next step of lane @l. Returns it, so that the
 * caller can fill in the rest.
 */
static struct weir__sync_point *
point_add(struct syncing *s, uint32_t l, enum weir__sync_kind kind, uint32_t of)
{
	struct weir__sync_point *point = &s->point[s->out.n_points++];

	*point = (struct weir__sync_point){ .step = s->steps[l],
					    .of = of,
					    .kind = (uint8_t)kind,
					    .lane = (uint8_t)l };
	s->out.point_at[l + 1]++;
	return point;
}

/* Make room for the sync points and the device copies of a node. */
static int node_room(struct syncing *s, uint32_t i)
{
	uint32_t edges = s->in->src_at[i + 1] - s->in->src_at[i];
	uint32_t before = s->reach->before_at[i + 1] - s->reach->before_at[i];
	size_t device_copies = (size_t)s->out.n_device_copies + edges;
	void *more;

	more = weir__array_grow(s->point, &s->point_cap,
				(size_t)s->out.n_points + 2 * edges + before +
					4,
				sizeof(*s->point));
	if (!more)
		return no_memory(s);
	s->point = more;
	more = weir__array_grow(s->out.device_copy, &s->device_copy_cap,
				device_copies, sizeof(*s->out.device_copy));
	if (!more)
		return no_memory(s);
	s->out.device_copy = more;
	more = weir__array_grow(s->out.wait, &s->wait_cap,
				device_copies * s->out.n_lanes,
				sizeof(*s->out.wait));
	if (!more)
		return no_memory(s);
	s->out.wait = more;
	return 0;
}

/* Let lane @l wait until node @b is computed. */
static void lane_wait(struct syncing *s, uint32_t l, uint32_t b)
{
	uint32_t k = s->out.lane[b], until = s->out.step[b] + 1;
	uint32_t *waited = &s->waited[l * s->out.n_lanes + k];

	if (k == l || *waited >= until)
		return;
	*waited = until;
	point_add(s, l, WEIR__SYNC_LANE, k)->until = until;
}

/* The sync point of the leaf in lane @l, which can use its memory. */
static struct weir__sync_point *leaf_wait(struct syncing *s, uint32_t l,
					  uint32_t leaf)
{
	uint32_t *of = &s->of[l * (size_t)s->n + leaf];

	if (*of)
		return &s->point[*of - 1];
	point_add(s, l, WEIR__SYNC_LEAF, leaf)->uses = true;
	*of = s->out.n_points;
	return &s->point[*of - 1];
}

static bool writes(const struct syncing *s, uint32_t i)
{
	return s->in->writes[i] != NONE;
}

/* True if a node before @i, which reads the leaf, has written it since then. */
static bool device_copy_is_old(const struct syncing *s,
			       const struct weir__device_copy *device_copy,
			       uint32_t i, uint32_t made)
{
	const uint32_t *before = s->reach->before;

	if (device_copy->kind != WEIR__DEVICE_COPY_TRANSFER ||
	    !is_leaf(s, device_copy->node))
		return false;
	if (made != NONE && made > device_copy->after)
		return true;
	for (uint32_t b = s->reach->before_at[i];
	     b < s->reach->before_at[i + 1]; b++)
		if (writes(s, before[b]) && before[b] > device_copy->after)
			return true;
	return false;
}

/* Let the transfer of a device copy wait until node @b is computed. */
static void transfer_wait(struct syncing *s, uint32_t device_copy, uint32_t b)
{
	uint32_t l = s->out.lane[b];
	uint32_t *wait = &s->out.wait[device_copy * s->out.n_lanes + l];

	if (l != s->out.device_copy[device_copy].lane &&
	    *wait <= s->out.step[b])
		*wait = s->out.step[b] + 1;
}

/* Find what the transfer of a new device copy waits for; @i reads it first. */
static void transfer_make(struct syncing *s, uint32_t k, uint32_t i,
			  uint32_t made)
{
	struct weir__device_copy *device_copy = &s->out.device_copy[k];

	device_copy->after = made == device_copy->node ? made : i - 1;
	point_add(s, device_copy->lane, WEIR__SYNC_TRANSFER, k);
	if (made != NONE)
		transfer_wait(s, k, made);
	if (!is_leaf(s, device_copy->node))
		return;
	for (uint32_t b = s->reach->before_at[i];
	     b < s->reach->before_at[i + 1]; b++)
		if (writes(s, s->reach->before[b]))
			transfer_wait(s, k, s->reach->before[b]);
}

/* The device copy of @class that node @i, of lane @l, reads. */
static uint32_t device_copy_use(struct syncing *s, uint32_t l, uint32_t i,
				uint32_t class, uint32_t made)
{
	uint32_t *of = &s->of[l * (size_t)s->n + class];
	uint32_t k = s->out.n_device_copies;
	struct weir__device_copy *device_copy =
		*of ? &s->out.device_copy[*of - 1] : NULL;

	if (!device_copy || device_copy_is_old(s, device_copy, i, made)) {
		device_copy = &s->out.device_copy[k];
		*device_copy = (struct weir__device_copy){
			.node = class,
			.first = s->steps[l],
			.kind = WEIR__DEVICE_COPY_TRANSFER,
			.lane = (uint8_t)l
		};
		memset(&s->out.wait[k * s->out.n_lanes], 0,
		       s->out.n_lanes * sizeof(*s->out.wait));
		*of = ++s->out.n_device_copies;
		if (s->args->marks[class] & WEIR__MARK_INPUT)
			device_copy->kind = WEIR__DEVICE_COPY_INPUT;
		else if (is_import(s, l, class))
			device_copy->kind = WEIR__DEVICE_COPY_IMPORT;
		if (device_copy->kind == WEIR__DEVICE_COPY_IMPORT)
			point_add(s, l, WEIR__SYNC_IMPORT, k);
		if (device_copy->kind == WEIR__DEVICE_COPY_TRANSFER)
			transfer_make(s, k, i, made);
	}
	device_copy->last = s->steps[l];
	return *of - 1;
}

/* Note that the bytes of @class are used in its lane before step @until. */
static void class_use(struct syncing *s, uint32_t class, uint32_t until)
{
	if (s->out.until[class] < until)
		s->out.until[class] = until;
}

/* Let node @i of lane @l use its source @e: by a device copy, or in place. */
static void source_use(struct syncing *s, uint32_t l, uint32_t i, uint32_t e)
{
	uint32_t class = s->reach->alias[s->in->src[e]];
	uint32_t made = s->made[s->in->src[e]];

	if (!lane_can_use(s, l, class)) {
		s->out.device_copy_of[e] =
			device_copy_use(s, l, i, class, made);
		return;
	}
	if (is_leaf(s, class))
		leaf_wait(s, l, class);
	if (made != NONE)
		lane_wait(s, l, made);
	if (is_leaf(s, class) || s->out.lane[class] == l)
		class_use(s, class, s->steps[l] + 1);
}

static void result_use(struct syncing *s, uint32_t l, uint32_t i)
{
	uint32_t class = s->reach->alias[i];

	if (is_leaf(s, class))
		leaf_wait(s, l, class)->writes = true;
	if (!lane_can_use(s, l, class) && s->out.refused == NONE)
		s->out.refused = i;
	class_use(s, class, s->steps[l] + 1);
}

static void node_compute(struct syncing *s, uint32_t i)
{
	const struct weir__reach_in *in = s->in;
	uint32_t l = s->out.lane[i];

	for (uint32_t b = s->reach->before_at[i];
	     b < s->reach->before_at[i + 1]; b++)
		lane_wait(s, l, s->reach->before[b]);
	for (uint32_t e = in->src_at[i]; e < in->src_at[i + 1]; e++)
		if (in->src[e] != NONE)
			source_use(s, l, i, e);
	result_use(s, l, i);
	s->out.node[s->out.step_at[l] + s->steps[l]++] = i;
	if (s->released[i])
		point_add(s, l, WEIR__SYNC_RELEASE, i);
}

/*
 * An observed view is read after the step before it, which must not have taken
 * its place, so its bytes stay for one step more.
 */
static void node_observe(struct syncing *s, uint32_t i)
{
	uint32_t l = s->out.lane[i], class = s->reach->alias[i];

	for (uint32_t b = s->reach->before_at[i];
	     !computes(s, i) && b < s->reach->before_at[i + 1]; b++)
		lane_wait(s, l, s->reach->before[b]);
	class_use(s, class, s->steps[l] + !computes(s, i));
	if (is_leaf(s, class) && lane_can_use(s, l, class))
		leaf_wait(s, l, class);
	else if (is_leaf(s, class))
		point_add(s, l, WEIR__SYNC_LEAF, class);
	point_add(s, l, WEIR__SYNC_OBSERVE, i);
}

static int nodes_order(struct syncing *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		int r = node_room(s, i);

		if (r < 0)
			return r;
		s->out.step[i] = s->steps[s->out.lane[i]];
		if (!s->reach->needed[i])
			continue;
		if (computes(s, i))
			node_compute(s, i);
		if (s->args->marks[i] & WEIR__MARK_OBSERVED)
			node_observe(s, i);
	}
	return 0;
}

/* Sort the sync points by lane. */
static int points_sort(struct syncing *s)
{
	uint32_t n = s->out.n_lanes, *to = s->steps;

	s->out.point = weir__array_alloc((size_t)s->out.n_points + 1,
					 sizeof(*s->out.point));
	if (!s->out.point)
		return no_memory(s);
	for (uint32_t l = 0; l < n; l++) {
		to[l] = s->out.point_at[l];
		s->out.point_at[l + 1] += s->out.point_at[l];
	}
	for (uint32_t i = 0; i < s->out.n_points; i++)
		s->out.point[to[s->point[i].lane]++] = s->point[i];
	return 0;
}

static void *zeroed(size_t n, size_t size)
{
	void *array = weir__array_alloc(n, size);

	return array ? memset(array, 0, n * size) : NULL;
}

static int order_alloc(struct syncing *s)
{
	size_t n = (size_t)s->n + 1, lanes = s->out.n_lanes; /* never 0 */
	size_t edges = (size_t)s->in->src_at[s->n] + 1;
	struct weir__sync *o = &s->out;

	o->lane = weir__array_alloc(n, sizeof(*o->lane));
	o->step_at = zeroed(lanes + 1, sizeof(*o->step_at));
	o->node = weir__array_alloc(n, sizeof(*o->node));
	o->step = weir__array_alloc(n, sizeof(*o->step));
	o->until = zeroed(n, sizeof(*o->until));
	o->exported = zeroed(n, sizeof(*o->exported));
	o->point_at = zeroed(lanes + 1, sizeof(*o->point_at));
	o->device_copy_of =
		weir__array_alloc(edges, sizeof(*o->device_copy_of));
	s->steps = weir__array_alloc(lanes, sizeof(*s->steps));
	s->made = weir__array_alloc(n, sizeof(*s->made));
	s->released = zeroed(n, sizeof(*s->released));
	s->of = zeroed(lanes * n, sizeof(*s->of));
	s->waited = zeroed(lanes * lanes, sizeof(*s->waited));
	if (!o->lane || !o->step_at || !o->node || !o->step || !o->until ||
	    !o->exported || !o->point_at || !o->device_copy_of || !s->steps ||
	    !s->made || !s->released || !s->of || !s->waited)
		return no_memory(s);
	memset(o->device_copy_of, 0xff, edges * sizeof(*o->device_copy_of));
	return 0;
}

int weir__sync(const struct weir__sync_in *in, struct weir__sync *ret)
{
	struct syncing s = { .args = in,
			     .in = in->in,
			     .reach = in->reach,
			     .n = in->in->n,
			     .out = { .refused = NONE } };
	int r;

	lanes_find(&s);
	r = order_alloc(&s);
	if (r == 0) {
		nodes_find(&s);
		crossings_find(&s);
		r = nodes_order(&s);
	}
	if (r == 0)
		r = points_sort(&s);
	weir__array_free(s.point);
	weir__array_free(s.steps);
	weir__array_free(s.made);
	weir__array_free(s.released);
	weir__array_free(s.of);
	weir__array_free(s.waited);
	if (r < 0)
		weir__sync_free(&s.out);
	else
		*ret = s.out;
	return r;
}

void weir__sync_free(struct weir__sync *sync)
{
	weir__array_free(sync->lane);
	weir__array_free(sync->step_at);
	weir__array_free(sync->node);
	weir__array_free(sync->step);
	weir__array_free(sync->until);
	weir__array_free(sync->exported);
	weir__array_free(sync->point_at);
	weir__array_free(sync->point);
	weir__array_free(sync->device_copy);
	weir__array_free(sync->device_copy_of);
	weir__array_free(sync->wait);
	memset(sync, 0, sizeof(*sync));
}
