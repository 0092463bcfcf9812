/* SPDX-License-Identifier: MIT */
/*
 * The pass "assign": which device computes each operation. First the pass over
 * arrays; at the end its arrays for a graph, and the sentences of refusals.
 */
#include "graph/compile/assign.h"

#include <stdbool.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "dev/dev.h"
#include "graph/compile/compiled.h"
#include "graph/compile/sync.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/tensor.h"

#define NONE WEIR__ASSIGN_NONE
/* A node leaves its sources if it costs less than this part elsewhere. */
#define GAIN 0.9
/* Seconds for a copy between two devices, besides the time for its bytes. */
#define COPY_S 20e-6
/* Seconds to wait for a device whose memory is shared. */
#define CROSSING_S 5e-6
/* A source is compared with so many of those before it. */
#define NEAR 8u

/* The arrays of this pass. Those of classes are indexed by the class's node. */
struct assigning {
	const struct weir__assign_in *args;
	struct weir__assign *out;
	uint64_t *can; /* devices that may compute each node */
	/*
	 * Devices of the nodes that read each class, as far as they are known
	 * before devices are chosen; those of at least two such nodes; that of
	 * the first one.
	 */
	uint64_t *wanted, *wanted_twice;
	uint8_t *goal;
	uint64_t *sent; /* devices that have read each class so far */
};

static uint64_t bit(uint32_t dev)
{
	return UINT64_C(1) << dev;
}

static bool one(uint64_t mask)
{
	return !(mask & (mask - 1));
}

static uint8_t lowest(uint64_t mask)
{
	return (uint8_t)__builtin_ctzll(mask);
}

static bool is_computed(const struct weir__assign_in *a, uint32_t i)
{
	return weir__is_computed(a->in, a->reach, i);
}

static bool is_leaf(const struct weir__assign_in *a, uint32_t class)
{
	return a->marks[class] & WEIR__MARK_LEAF;
}

/* An input costs nothing: a run sets it on each device that needs it. */
static bool is_input(const struct weir__assign_in *a, uint32_t class)
{
	return a->marks[class] & WEIR__MARK_INPUT;
}

/* True if @dev can use the leaf, or keeps a copy, so that runs copy nothing. */
static bool is_home(const struct weir__assign_in *a, uint32_t leaf, uint8_t dev)
{
	return a->usable[leaf] & bit(dev) ||
	       a->marks[leaf] & WEIR__MARK_CONSTANT;
}

/* The class of source @s of a node; REACH_NONE: left out, or the same again. */
static uint32_t source_class(const struct weir__assign_in *a, uint32_t node,
			     uint32_t s)
{
	const struct weir__reach_in *in = a->in;
	uint32_t class;

	if (in->src[s] == WEIR__REACH_NONE)
		return WEIR__REACH_NONE;
	class = a->reach->alias[in->src[s]];
	for (uint32_t t = s - in->src_at[node] > NEAR ? s - NEAR
						      : in->src_at[node];
	     t < s; t++)
		if (in->src[t] != WEIR__REACH_NONE &&
		    a->reach->alias[in->src[t]] == class)
			return WEIR__REACH_NONE;
	return class;
}

/* The leaf that a node writes; REACH_NONE: it writes none. */
static uint32_t written_leaf(const struct weir__assign_in *a, uint32_t node)
{
	uint32_t s = a->in->writes[node];

	if (s == WEIR__REACH_NONE)
		return s;
	return a->reach->alias[a->in->src[a->in->src_at[node] + s]];
}

/* The sources of a node that may decide. */
struct sources {
	uint32_t leaf;   /* the largest; REACH_NONE: it has none */
	uint32_t pinned; /* the largest with a pin, also REACH_NONE */
	uint64_t leaf_bytes, pinned_bytes, result_bytes;
};

static void source_add(const struct weir__assign_in *a, uint32_t source,
		       struct sources *f)
{
	uint32_t class = a->reach->alias[source];
	uint64_t bytes = a->bytes[source];

	if (is_leaf(a, class)) {
		if (f->leaf == WEIR__REACH_NONE || bytes > f->leaf_bytes) {
			f->leaf = class;
			f->leaf_bytes = bytes;
		}
		if (a->pin[class] != NONE && (f->pinned == WEIR__REACH_NONE ||
					      bytes > f->pinned_bytes)) {
			f->pinned = class;
			f->pinned_bytes = bytes;
		}
	} else if (!is_input(a, class) && bytes > f->result_bytes) {
		f->result_bytes = bytes;
	}
}

static struct sources sources_of(const struct weir__assign_in *a, uint32_t node)
{
	struct sources f = { .leaf = WEIR__REACH_NONE,
			     .pinned = WEIR__REACH_NONE };

	for (uint32_t s = a->in->src_at[node]; s < a->in->src_at[node + 1]; s++)
		if (a->in->src[s] != WEIR__REACH_NONE)
			source_add(a, a->in->src[s], &f);
	return f;
}

static int assign_fail(struct assigning *p, uint32_t node,
		       enum weir__assign_why why, uint8_t pinned)
{
	p->out->failed = node;
	p->out->why = why;
	p->out->pinned = pinned;
	return -EOPNOTSUPP;
}

static int can_set(struct assigning *p, uint32_t node, uint64_t can,
		   uint8_t cause)
{
	p->can[node] = can;
	p->out->cause[node] = cause;
	return 0;
}

/* The device that has @leaf in its memory, else those that can use it. */
static uint64_t where_leaf(const struct weir__assign_in *a, uint64_t supports,
			   uint32_t leaf)
{
	uint64_t can = supports & a->usable[leaf];
	uint8_t owner = a->owner[leaf];

	return owner != NONE && can & bit(owner) ? bit(owner) : can;
}

static int can_pinned(struct assigning *p, uint32_t node, uint8_t pin,
		      uint64_t writers)
{
	if (!(p->args->supports[node] & bit(pin)))
		return assign_fail(p, node, WEIR__ASSIGN_PIN_OP, pin);
	if (!(writers & bit(pin)))
		return assign_fail(p, node, WEIR__ASSIGN_PIN_LEAF, pin);
	return can_set(p, node, bit(pin), WEIR_NODE_CAUSE_PINNED);
}

/* Which devices may compute a node, and why. */
static int node_can(struct assigning *p, uint32_t node)
{
	const struct weir__assign_in *a = p->args;
	struct sources f = sources_of(a, node);
	uint32_t leaf = written_leaf(a, node);
	uint64_t supports = a->supports[node], where;
	uint64_t writers = leaf == WEIR__REACH_NONE ? ~UINT64_C(0)
						    : a->usable[leaf];

	if (a->pin[node] != NONE)
		return can_pinned(p, node, a->pin[node], writers);
	if (f.pinned != WEIR__REACH_NONE)
		return can_pinned(p, node, a->pin[f.pinned], writers);
	if (!supports)
		return assign_fail(p, node, WEIR__ASSIGN_NO_DEVICE, NONE);
	if (!(supports & writers))
		return assign_fail(p, node, WEIR__ASSIGN_NO_WRITER, NONE);
	if (one(supports))
		return can_set(p, node, supports, WEIR_NODE_CAUSE_ONLY);
	if (leaf != WEIR__REACH_NONE)
		return can_set(p, node, where_leaf(a, supports, leaf),
			       WEIR_NODE_CAUSE_WRITES);
	if (f.leaf == WEIR__REACH_NONE || f.leaf_bytes < f.result_bytes)
		return can_set(p, node, supports, WEIR_NODE_CAUSE_COST);
	where = where_leaf(a, supports, f.leaf);
	if (!where || where == supports)
		return can_set(p, node, supports, WEIR_NODE_CAUSE_COST);
	return can_set(p, node, where, WEIR_NODE_CAUSE_WEIGHTS);
}

static int pass_can(struct assigning *p)
{
	int r = 0;

	for (uint32_t i = 0; i < p->args->in->n && !r; i++)
		if (is_computed(p->args, i))
			r = node_can(p, i);
	return r;
}

/* The device to which a result goes. A write has none: the leaf stays. */
static uint8_t result_goal(const struct assigning *p, uint32_t node)
{
	return p->args->reach->alias[node] == node ? p->goal[node] : NONE;
}

/* The device of a node if it is known, else that to which its result goes. */
static uint8_t node_goal(const struct assigning *p, uint32_t node)
{
	uint8_t goal = result_goal(p, node);

	if (one(p->can[node]))
		return lowest(p->can[node]);
	return goal != NONE && p->can[node] & bit(goal) ? goal : NONE;
}

static void pass_goals(struct assigning *p)
{
	const struct weir__reach_in *in = p->args->in;

	for (uint32_t i = in->n; i-- > 0;) {
		uint8_t goal;

		if (!is_computed(p->args, i) ||
		    (goal = node_goal(p, i)) == NONE)
			continue;
		for (uint32_t s = in->src_at[i]; s < in->src_at[i + 1]; s++) {
			uint32_t class = source_class(p->args, i, s);

			if (class == WEIR__REACH_NONE)
				continue;
			p->goal[class] = goal;
			p->wanted_twice[class] |= p->wanted[class] & bit(goal);
			p->wanted[class] |= bit(goal);
		}
	}
}

static double copy_cost(const struct weir__assign_in *a, uint64_t bytes,
			uint32_t from, uint32_t to)
{
	double link = a->rates[from].link < a->rates[to].link
			      ? a->rates[from].link
			      : a->rates[to].link;

	if (from == to)
		return 0;
	if (a->shares[to] & bit(from))
		return CROSSING_S;
	return COPY_S + (double)bytes / link;
}

/* The cost of getting @class to a node on @dev whose goal is @goal. */
static double source_cost(const struct assigning *p, uint32_t class,
			  uint8_t dev, uint8_t goal)
{
	const struct weir__assign_in *a = p->args;
	uint64_t others = goal == dev ? p->wanted_twice[class]
				      : p->wanted[class];
	uint8_t from = p->out->dev[class];

	if (is_input(a, class) || (p->sent[class] | others) & bit(dev))
		return 0;
	if (is_leaf(a, class))
		return is_home(a, class, dev)
			       ? 0
			       : COPY_S + (double)a->bytes[class] /
						  a->rates[dev].link;
	return from == NONE ? 0 : copy_cost(a, a->bytes[class], from, dev);
}

static double node_cost(const struct assigning *p, uint32_t node, uint8_t dev)
{
	const struct weir__assign_in *a = p->args;
	double flops = (double)a->flops[node] / a->rates[dev].flops;
	double bytes = (double)a->moved[node] / a->rates[dev].bytes;
	double cost = flops > bytes ? flops : bytes;
	uint8_t goal = node_goal(p, node), to = result_goal(p, node);

	for (uint32_t s = a->in->src_at[node]; s < a->in->src_at[node + 1];
	     s++) {
		uint32_t class = source_class(a, node, s);

		if (class != WEIR__REACH_NONE)
			cost += source_cost(p, class, dev, goal);
	}
	if (to != NONE)
		cost += copy_cost(a, a->bytes[node], dev, to);
	return cost;
}

/* The device of the largest result that a node reads, or the first device. */
static uint8_t node_base(const struct assigning *p, uint32_t node)
{
	const struct weir__assign_in *a = p->args;
	uint8_t base = lowest(p->can[node]);
	uint64_t most = 0;

	for (uint32_t s = a->in->src_at[node]; s < a->in->src_at[node + 1];
	     s++) {
		uint32_t source = a->in->src[s], class;
		uint8_t dev;

		if (source == WEIR__REACH_NONE)
			continue;
		class = a->reach->alias[source];
		dev = p->out->dev[class];
		if (is_leaf(a, class) || is_input(a, class) || dev == NONE ||
		    !(p->can[node] & bit(dev)) || a->bytes[source] <= most)
			continue;
		base = dev;
		most = a->bytes[source];
	}
	return base;
}

static uint8_t node_choose(const struct assigning *p, uint32_t node)
{
	uint8_t base = node_base(p, node), best = base;
	double limit, least;

	if (one(p->can[node]))
		return lowest(p->can[node]);
	least = node_cost(p, node, base);
	limit = GAIN * least;
	for (uint8_t dev = 0; dev < p->args->n_devs; dev++) {
		double cost;

		if (dev == base || !(p->can[node] & bit(dev)))
			continue;
		cost = node_cost(p, node, dev);
		if (cost < limit && cost < least) {
			best = dev;
			least = cost;
		}
	}
	return best;
}

/* Sources without a device get one from their first user. */
static void sources_used(struct assigning *p, uint32_t node, uint8_t dev)
{
	const struct weir__assign_in *a = p->args;

	for (uint32_t s = a->in->src_at[node]; s < a->in->src_at[node + 1];
	     s++) {
		uint32_t class = source_class(a, node, s);

		if (class == WEIR__REACH_NONE)
			continue;
		p->sent[class] |= bit(dev);
		if (p->out->dev[class] == NONE &&
		    (is_input(a, class) ||
		     (is_leaf(a, class) && is_home(a, class, dev))))
			p->out->dev[class] = dev;
	}
}

/* The device that a leaf has before its users; NONE: the first one decides. */
static uint8_t leaf_home(const struct weir__assign_in *a, uint32_t leaf)
{
	uint8_t pin = a->pin[leaf];

	if (a->owner[leaf] != NONE)
		return a->owner[leaf];
	return pin != NONE && is_home(a, leaf, pin) ? pin : NONE;
}

static void pass_choose(struct assigning *p)
{
	const struct weir__assign_in *a = p->args;
	uint8_t *dev = p->out->dev;

	for (uint32_t i = 0; i < a->in->n; i++) {
		if (!a->reach->needed[i])
			continue;
		if (is_leaf(a, i))
			dev[i] = leaf_home(a, i);
		if (!is_computed(a, i))
			continue;
		dev[i] = node_choose(p, i);
		sources_used(p, i, dev[i]);
	}
	for (uint32_t i = 0; i < a->in->n; i++)
		if (a->reach->needed[i] && !is_computed(a, i))
			dev[i] = dev[a->reach->alias[i]];
}

static int pass_alloc(struct assigning *p, size_t n)
{
	struct weir__assign *out = p->out;

	out->dev = weir__array_alloc(n, sizeof(*out->dev));
	out->cause = weir__array_alloc(n, sizeof(*out->cause));
	p->can = weir__array_alloc(n, sizeof(*p->can));
	p->wanted = weir__array_alloc(n, sizeof(*p->wanted));
	p->wanted_twice = weir__array_alloc(n, sizeof(*p->wanted_twice));
	p->goal = weir__array_alloc(n, sizeof(*p->goal));
	p->sent = weir__array_alloc(n, sizeof(*p->sent));
	if (!out->dev || !out->cause || !p->can || !p->wanted ||
	    !p->wanted_twice || !p->goal || !p->sent)
		return weir__fail(-ENOMEM,
				  "no memory to assign %u nodes to devices",
				  p->args->in->n);
	memset(out->dev, NONE, n);
	memset(out->cause, WEIR_NODE_CAUSE_NONE, n);
	memset(p->wanted, 0, n * sizeof(*p->wanted));
	memset(p->wanted_twice, 0, n * sizeof(*p->wanted_twice));
	memset(p->goal, NONE, n);
	memset(p->sent, 0, n * sizeof(*p->sent));
	return 0;
}

int weir__assign(const struct weir__assign_in *in, struct weir__assign *ret)
{
	struct assigning p = { .args = in, .out = ret };
	int r;

	memset(ret, 0, sizeof(*ret));
	r = pass_alloc(&p, (size_t)in->in->n + 1);
	if (r == 0)
		r = pass_can(&p);
	if (r == 0) {
		pass_goals(&p);
		pass_choose(&p);
	}
	weir__array_free(p.can);
	weir__array_free(p.wanted);
	weir__array_free(p.wanted_twice);
	weir__array_free(p.goal);
	weir__array_free(p.sent);
	if (r < 0)
		weir__assign_free(ret);
	return r;
}

void weir__assign_free(struct weir__assign *assign)
{
	weir__array_free(assign->dev);
	weir__array_free(assign->cause);
	assign->dev = assign->cause = NULL;
}

/*
 * From here on: the pass for a graph, which asks the devices, and its
 * sentences. These are the arrays that the caller's struct lacks.
 */
struct device_facts {
	uint64_t *supports, *bytes, *moved, *flops;
	uint8_t *owner;
	struct weir_operand *operand; /* operands of one node */
};

static void arrays_free(struct device_facts *a)
{
	weir__array_free(a->supports);
	weir__array_free(a->bytes);
	weir__array_free(a->moved);
	weir__array_free(a->flops);
	weir__array_free(a->owner);
	weir__array_free(a->operand);
}

static int arrays_alloc(struct device_facts *a, const struct weir_graph *g)
{
	size_t n = g->n + 1, most = 1; /* never 0 */

	for (size_t i = 0; i < g->n; i++)
		if (g->node[i]->n_src > most)
			most = g->node[i]->n_src;
	a->supports = weir__array_alloc(n, sizeof(*a->supports));
	a->bytes = weir__array_alloc(n, sizeof(*a->bytes));
	a->moved = weir__array_alloc(n, sizeof(*a->moved));
	a->flops = weir__array_alloc(n, sizeof(*a->flops));
	a->owner = weir__array_alloc(n, sizeof(*a->owner));
	a->operand = weir__array_alloc(most, sizeof(*a->operand));
	if (a->supports && a->bytes && a->moved && a->flops && a->owner &&
	    a->operand)
		return 0;
	return weir__fail(-ENOMEM, "no memory to assign %zu nodes to devices",
			  g->n);
}

static uint64_t supports_of(struct weir_dev *const *devs, uint32_t n_devs,
			    const struct weir_backend_node *node)
{
	uint64_t mask = 0;

	for (uint32_t d = 0; d < n_devs; d++)
		if (weir__dev_compute(devs[d]) &&
		    weir__dev_compute(devs[d])->supports(devs[d], node) == 0)
			mask |= UINT64_C(1) << d;
	return mask;
}

static uint8_t owner_of(struct weir_dev *const *devs, uint32_t n_devs,
			const struct weir_node *leaf)
{
	for (uint32_t d = 0; leaf->t.buf && d < n_devs; d++)
		if (leaf->t.buf->buft->dev == devs[d])
			return (uint8_t)d;
	return WEIR__ASSIGN_NONE;
}

static int arrays_fill(struct device_facts *a, const struct weir_graph *g,
		       struct weir_dev *const *devs,
		       const struct weir__assign_in *in)
{
	struct weir_backend_node flat;
	int r = 0;

	for (uint32_t i = 0; i < g->n && !r; i++) {
		const struct weir_node *node = g->node[i];

		r = weir__tensor_bytes(&node->t, &a->bytes[i]);
		a->supports[i] = a->moved[i] = a->flops[i] = 0;
		a->owner[i] = WEIR__ASSIGN_NONE;
		if (in->marks[i] & WEIR__MARK_LEAF)
			a->owner[i] = owner_of(devs, in->n_devs, node);
		if (!weir__is_computed(in->in, in->reach, i))
			continue;
		weir__node_flat(node, &flat, a->operand);
		a->supports[i] = supports_of(devs, in->n_devs, &flat);
		a->moved[i] = weir__op_bytes(node);
		a->flops[i] = weir__op_flops(node);
	}
	return r;
}

/* Append to @text why @dev does not compute the node. */
static void add_reason(char *text, struct weir_dev *dev,
		       const struct weir_backend_node *node)
{
	if (!weir__dev_compute(dev))
		weir__append(text, WEIR__ERROR_MAX, "; %s does not compute%s%s",
			     dev->desc.name, *dev->desc.no_compute ? ": " : "",
			     dev->desc.no_compute);
	else if (weir__dev_compute(dev)->supports(dev, node) < 0)
		weir__append(text, WEIR__ERROR_MAX, "; %s: %s", dev->desc.name,
			     weir__error_text());
}

static int refuse_op(const struct weir__assign *assign, const char *text,
		     const struct weir_backend_node *node,
		     struct weir_dev *const *devs, uint32_t n_devs)
{
	char reasons[WEIR__ERROR_MAX] = "";

	if (assign->why == WEIR__ASSIGN_PIN_OP) {
		add_reason(reasons, devs[assign->pinned], node);
		return weir__fail(-EOPNOTSUPP, "%s is pinned to %s%s", text,
				  devs[assign->pinned]->desc.name, reasons);
	}
	for (uint32_t d = 0; d < n_devs; d++)
		add_reason(reasons, devs[d], node);
	return weir__fail(-EOPNOTSUPP, "no device has %s%s", text, reasons);
}

static int refuse_leaf(const struct weir__assign *assign, const char *text,
		       const struct weir_node *leaf,
		       struct weir_dev *const *devs)
{
	const char *name = weir__tensor_describe(&leaf->t, leaf->index);
	const char *owner = leaf->t.buf->buft->dev->desc.name;

	if (assign->why == WEIR__ASSIGN_PIN_LEAF)
		return weir__fail(
			-EOPNOTSUPP,
			"%s is pinned to %s, but writes leaf %s in memory of %s, where %s does not compute",
			text, devs[assign->pinned]->desc.name, name, owner,
			devs[assign->pinned]->desc.name);
	return weir__fail(
		-EOPNOTSUPP,
		"%s writes leaf %s in memory of %s, where no device that has the operation computes",
		text, name, owner);
}

/* The sentence for a node that could not be assigned. */
static int assign_refuse(const struct weir_graph *g,
			 struct weir_dev *const *devs, uint32_t n_devs,
			 const struct weir__assign *assign,
			 struct weir_operand *operand)
{
	const struct weir_node *node = g->node[assign->failed];
	char text[WEIR__NODE_DESCRIBE_MAX];
	struct weir_backend_node flat;

	weir__node_flat(node, &flat, operand);
	weir__node_describe(&flat, text);
	if (assign->why == WEIR__ASSIGN_NO_DEVICE ||
	    assign->why == WEIR__ASSIGN_PIN_OP)
		return refuse_op(assign, text, &flat, devs, n_devs);
	return refuse_leaf(assign, text, node->storage, devs);
}

int weir__assign_graph(const struct weir_graph *g, struct weir_dev *const *devs,
		       const struct weir__assign_in *in,
		       struct weir__assign *ret)
{
	struct weir__assign_in all = *in;
	struct weir__error_saved saved;
	struct device_facts a = { 0 };
	int r;

	/* A device that does not have an operation is no failure. */
	weir__error_save(&saved);
	memset(ret, 0, sizeof(*ret));
	r = arrays_alloc(&a, g);
	if (r == 0)
		r = arrays_fill(&a, g, devs, in);
	if (r == 0) {
		all.supports = a.supports;
		all.bytes = a.bytes;
		all.moved = a.moved;
		all.flops = a.flops;
		all.owner = a.owner;
		r = weir__assign(&all, ret);
	}
	if (r == 0)
		weir__error_restore(&saved);
	else if (ret->why != WEIR__ASSIGN_FINE)
		r = assign_refuse(g, devs, in->n_devs, ret, a.operand);
	arrays_free(&a);
	return r;
}
