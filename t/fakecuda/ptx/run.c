/* SPDX-License-Identifier: MIT */
/*
 * Launches: blocks, their warps, and the order in which they run.
 *
 * The lanes of a warp that are at the lowest instruction run together, up to
 * where other lanes wait. A lane at an instruction that names the lanes which
 * have to take part waits until all of them are there.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define SLICE 20000u    /* instructions of a warp before another one runs */
#define BLOCK_SLICE 50u /* slices of a block before another one starts */
#define RESIDENT 64u

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

static uint32_t rnd(struct machine *machine)
{
	machine->random =
		machine->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(machine->random >> 33);
}

void ptx_fault(struct warp *w, enum ptx_outcome outcome)
{
	struct machine *machine = w->block->machine;

	if (machine->outcome == PTX_DONE)
		machine->outcome = outcome;
}

/* "kernel k, line 12, block (0,0,0), thread (3,0,0): " and the finding. */
void ptx_found(struct warp *w, const struct ins *in, unsigned lane,
	       enum finding kind, const char *fmt, ...)
{
	struct block *block = w->block;
	struct machine *machine = block->machine;
	const unsigned *dim = machine->launch->block;
	unsigned thread = w->index * LANES + lane;
	uint64_t key = (uint64_t)kind << 32 |
		       (uint64_t)(in - machine->kernel->code);
	char text[PTX_SENTENCE];
	va_list args;
	size_t i;
	int n;

	for (i = 0; i < machine->n_reported; i++) {
		if (machine->reported[i] == key)
			return;
	}
	machine->reported = need(realloc(
		machine->reported, (machine->n_reported + 1) * sizeof(key)));
	machine->reported[machine->n_reported++] = key;
	n = snprintf(
		text, sizeof(text),
		"kernel %s, line %u, block (%u,%u,%u), thread (%u,%u,%u): ",
		machine->kernel->function->name, in->line, block->at[0],
		block->at[1], block->at[2], thread % dim[0],
		thread / dim[0] % dim[1], thread / dim[0] / dim[1]);
	if (n > PTX_SENTENCE / 2)
		n = PTX_SENTENCE / 2;
	va_start(args, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	va_end(args);
	if (machine->launch->found)
		machine->launch->found(machine->launch->arg, text);
}

static void preset(struct warp *w, uint32_t off, unsigned bytes, uint64_t value)
{
	struct operand o = { .off = off, .bytes = (uint8_t)bytes };

	if (!bytes) {
		*(uint32_t *)(void *)(w->regs + off) = value ? FULL : 0;
		return;
	}
	for (unsigned i = 0; i < LANES; i++)
		ptx_assign(w, &o, i, value);
}

static uint64_t special(const struct warp *w, unsigned which, unsigned lane)
{
	const struct block *b = w->block;
	const struct ptx_launch *l = b->machine->launch;
	unsigned thread = w->index * LANES + lane;

	switch (which) {
	case X_TID_X:
		return thread % l->block[0];
	case X_TID_Y:
		return thread / l->block[0] % l->block[1];
	case X_TID_Z:
		return thread / l->block[0] / l->block[1];
	case X_NTID_X:
	case X_NTID_Y:
	case X_NTID_Z:
		return l->block[which - X_NTID_X];
	case X_CTAID_X:
	case X_CTAID_Y:
	case X_CTAID_Z:
		return b->at[which - X_CTAID_X];
	case X_NCTAID_X:
	case X_NCTAID_Y:
	case X_NCTAID_Z:
		return l->grid[which - X_NCTAID_X];
	case X_LANEID:
		return lane;
	case X_WARPID:
		return w->index;
	case X_NWARPID:
		return b->n_warps;
	case X_NSMID:
	case X_CLUSTER_NCTARANK:
		return 1;
	case X_LANEMASK_EQ:
		return 1u << lane;
	case X_LANEMASK_LT:
		return (1u << lane) - 1;
	case X_LANEMASK_LE:
		return (1u << lane) | ((1u << lane) - 1);
	case X_LANEMASK_GT:
		return ~((1u << lane) | ((1u << lane) - 1));
	case X_LANEMASK_GE:
		return ~((1u << lane) - 1);
	case X_DYNAMIC_SMEM:
		return l->dynamic_shared;
	case X_TOTAL_SMEM:
		return b->machine->kernel->shared_true + l->dynamic_shared;
	default:
		return 0;
	}
}

/* Registers begin with bytes of 0xcd, and are not defined. */
static void warp_start(struct warp *w)
{
	const struct ptx_kernel *k = w->block->machine->kernel;
	size_t i;

	memset(w->regs, 0xcd, k->regs);
	w->def[0] = FULL;
	for (i = 0; i < k->n_presets; i++)
		preset(w, k->presets[i].off, k->presets[i].bytes,
		       k->presets[i].value);
	for (i = 0; i < SPECIALS; i++) {
		struct operand o = { .off = k->specials.off[i],
				     .bytes = i == X_GRIDID ? 8 : 4 };

		for (unsigned lane = 0; o.off && lane < LANES; lane++)
			ptx_assign(w, &o, lane, special(w, (unsigned)i, lane));
	}
	for (i = 0; i < LANES; i++)
		w->pc[i] = k->entry;
	w->run = w->live;
}

static size_t rounded(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static void place_owners(struct block *b)
{
	const struct ptx_kernel *k = b->machine->kernel;
	size_t i;

	for (i = 0; i < k->n_placed; i++)
		memset(b->owner + k->placed[i].at, (int)(i < 253 ? i + 1 : 254),
		       k->placed[i].size);
	memset(b->owner + k->dynamic_at, 255,
	       b->machine->launch->dynamic_shared);
}

static struct block *block_new(struct machine *machine, uint32_t serial,
			       const unsigned at[3])
{
	const struct ptx_launch *l = machine->launch;
	const struct ptx_kernel *k = machine->kernel;
	struct block *b = need(calloc(1, sizeof(*b)));
	size_t regs = rounded(k->regs), defs = rounded(4ul * k->n_regs);
	size_t returns = rounded(4ul * LANES * k->n_returns);
	size_t shared = rounded(machine->shared_bytes);
	size_t local, each = regs + defs + returns;
	uint8_t *p;

	b->machine = machine;
	b->serial = serial;
	memcpy(b->at, at, sizeof(b->at));
	b->n_threads = l->block[0] * l->block[1] * l->block[2];
	b->n_warps = (b->n_threads + LANES - 1) / LANES;
	b->tick = 1;
	local = rounded((size_t)k->local * b->n_threads);
	b->warps = need(calloc(b->n_warps, sizeof(*b->warps)));
	b->memory = need(aligned_alloc(64, each * b->n_warps + 3 * shared +
						   2 * local + 64));
	p = b->memory;
	for (uint32_t i = 0; i < b->n_warps; i++) {
		struct warp *w = &b->warps[i];
		uint32_t left = b->n_threads - i * LANES;

		w->block = b;
		w->index = i;
		w->live = left < LANES ? (1u << left) - 1 : FULL;
		w->regs = p;
		w->def = (uint32_t *)(void *)(p + regs);
		memset(w->def, 0, defs);
		w->returns = (uint32_t *)(void *)(p + regs + defs);
		p += each;
		warp_start(w);
	}
	b->shared = p;
	b->shared_valid = p + shared;
	b->owner = p + 2 * shared;
	b->local = p + 3 * shared;
	b->local_valid = b->local + local;
	memset(b->shared, 0xcd, shared);
	memset(b->shared_valid, 0, 2 * shared);
	memset(b->local, 0xcd, local);
	memset(b->local_valid, 0, local);
	place_owners(b);
	if (machine->check)
		b->cells = need(calloc(shared / 4 + 1, sizeof(*b->cells)));
	machine->counts.blocks++;
	return b;
}

static void block_free(struct block *b)
{
	ptx_async_drop(b);
	ptx_block_end(b);
	free(b->cells);
	free(b->memory);
	free(b->warps);
	free(b);
}

static void jump(struct warp *w, uint32_t lanes, uint32_t pc)
{
	for (; lanes; lanes &= lanes - 1)
		w->pc[__builtin_ctz(lanes)] = pc;
}

/* True if the registers that @in uses are defined in the lanes of @m. */
static bool defined(struct warp *w, const struct ins *in, uint32_t m)
{
	uint32_t bad = 0;
	unsigned i;

	for (i = in->nd; i < in->nd + in->ns; i++)
		bad |= m & ~w->def[in->op[i].reg];
	if (!bad)
		return true;
	ptx_found(w, in, (unsigned)__builtin_ctz(bad), F_REGISTER,
		  "uses a register that was never written");
	return false;
}

static void define(struct warp *w, const struct ins *in, uint32_t m)
{
	unsigned i;

	for (i = 0; i < in->nd; i++)
		w->def[in->op[i].reg] |= m;
}

static void execute(struct warp *w, const struct ins *in, uint32_t m)
{
	if (!in->keeps) {
		if (w->block->machine->check)
			defined(w, in, m);
		define(w, in, m);
	}
	in->fn(w, in, m);
	if (in->rough && w->block->machine->launch->rough)
		ptx_roughen(w, in, m);
	w->def[0] = FULL;
}

static void copy_args(struct warp *w, const struct copied *list, size_t n,
		      uint32_t lanes)
{
	struct block *b = w->block;
	uint32_t size = b->machine->kernel->local;

	for (; lanes; lanes &= lanes - 1) {
		size_t at = (size_t)(w->index * LANES +
				     (unsigned)__builtin_ctz(lanes)) *
			    size;

		for (size_t i = 0; i < n; i++) {
			memcpy(b->local + at + list[i].to,
			       b->local + at + list[i].from, list[i].bytes);
			memcpy(b->local_valid + at + list[i].to,
			       b->local_valid + at + list[i].from,
			       list[i].bytes);
		}
	}
}

static void leave(struct warp *w, uint32_t lanes)
{
	w->live &= ~lanes;
	w->run &= ~lanes;
}

/* The mask of an instruction that waits for lanes, as @lane gives it. */
static uint32_t members(struct warp *w, const struct ins *in, unsigned lane)
{
	if (in->fn == ptx_do_ldmatrix || in->fn == ptx_do_stmatrix ||
	    in->fn == ptx_do_mma)
		return FULL;
	return (uint32_t)ptx_value(w, &in->op[in->nd + in->ns - 1], lane);
}

/* Run a waiting instruction for those lanes that are there. */
static void sync_run(struct warp *w, const struct ins *in, uint32_t lanes,
		     uint32_t wanted)
{
	if (wanted & ~lanes)
		ptx_found(
			w, in, (unsigned)__builtin_ctz(lanes), F_LANES,
			"lanes %#x have to take part, and lanes %#x do not: they %s",
			wanted, wanted & ~lanes,
			wanted & ~lanes & w->live ? "are elsewhere"
						  : "have ended");
	execute(w, in, lanes);
	for (uint32_t l = lanes; l; l &= l - 1)
		w->pc[__builtin_ctz(l)]++;
	w->waiting &= ~lanes;
	w->run |= lanes;
}

/* The lanes of @m arrive at @in. True if it has run. */
static bool sync_arrive(struct warp *w, const struct ins *in, uint32_t m,
			uint32_t pc)
{
	unsigned first = (unsigned)__builtin_ctz(m);
	uint32_t wanted = members(w, in, first), there;

	for (uint32_t l = m; l; l &= l - 1) {
		unsigned lane = (unsigned)__builtin_ctz(l);

		if (!(members(w, in, lane) >> lane & 1))
			ptx_found(w, in, lane, F_LANES,
				  "lane %u is not in its own mask %#x", lane,
				  members(w, in, lane));
	}
	if (wanted == m) {
		execute(w, in, m);
		return true;
	}
	w->waiting |= m;
	w->run &= ~m;
	jump(w, m, pc);
	there = 0;
	for (uint32_t l = w->waiting; l; l &= l - 1) {
		unsigned lane = (unsigned)__builtin_ctz(l);

		if (w->pc[lane] == pc && members(w, in, lane) == wanted)
			there |= 1u << lane;
	}
	if (!(wanted & ~there))
		sync_run(w, in, there, wanted);
	return false;
}

static uint32_t live_threads(const struct block *b)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->n_warps; i++)
		n += (uint32_t)__builtin_popcount(b->warps[i].live);
	return n;
}

/* All are there: what the lanes get, and on they go. */
static void barrier_complete(struct block *b, unsigned id)
{
	struct barrier *bar = &b->barriers[id];

	b->machine->counts.barriers++;
	ptx_barrier_synced(b, bar->lanes);
	for (uint32_t i = 0; i < b->n_warps; i++) {
		struct warp *w = &b->warps[i];
		uint32_t lanes = bar->lanes[i] & w->barred;

		for (uint32_t l = lanes; l; l &= l - 1) {
			unsigned lane = (unsigned)__builtin_ctz(l);
			const struct ins *in =
				&b->machine->kernel->code[w->bar_pc[lane]];

			if (w->bar_id[lane] != id)
				continue;
			if (in->sub >= BAR_POPC) {
				uint64_t v = in->sub == BAR_POPC ? bar->trues
					     : in->sub == BAR_OR
						     ? bar->trues > 0
						     : bar->trues ==
							       bar->arrived;

				ptx_assign(w, &in->op[0], lane, v);
				w->def[in->op[0].reg] |= 1u << lane;
			}
			w->pc[lane] = w->bar_pc[lane] + 1;
			w->barred &= ~(1u << lane);
			w->run |= 1u << lane;
		}
	}
	memset(bar, 0, sizeof(*bar));
}

static bool barrier_try(struct block *b, unsigned id)
{
	struct barrier *bar = &b->barriers[id];

	if (!bar->arrived)
		return false;
	if (bar->arrived < (bar->expected ? bar->expected : live_threads(b)))
		return false;
	barrier_complete(b, id);
	return true;
}

static void barrier_arrive(struct warp *w, const struct ins *in, uint32_t m,
			   uint32_t pc)
{
	struct block *b = w->block;
	unsigned first = (unsigned)__builtin_ctz(m);
	uint32_t id = (uint32_t)ptx_value(w, &in->op[in->nd], first);
	uint32_t count = (uint32_t)ptx_value(w, &in->op[in->nd + 1], first);
	uint32_t p = ptx_mask(w, &in->op[in->nd + 2]) & m;
	struct barrier *bar;

	defined(w, in, m);
	if (id >= BARRIERS || count % LANES) {
		ptx_found(
			w, in, first, F_BARRIER,
			"barrier %u of %u threads: there are %u, of multiples of %u threads",
			id, count, BARRIERS, LANES);
		ptx_fault(w, PTX_TRAP);
		return;
	}
	bar = &b->barriers[id];
	if (bar->arrived && bar->expected != count)
		ptx_found(w, in, first, F_BARRIER,
			  "barrier %u waits for %u threads, and others say %u",
			  id, count, bar->expected);
	bar->expected = count;
	bar->arrived += (uint32_t)__builtin_popcount(m);
	bar->lanes[w->index] |= m;
	bar->trues += (uint32_t)__builtin_popcount(p);
	/* The lanes of a warp that does not fill its last one count too. */
	if (count && w->index == b->n_warps - 1 && b->n_threads % LANES &&
	    m == w->live)
		bar->arrived += LANES - b->n_threads % LANES;
	if (in->sub == BAR_ARRIVE) {
		jump(w, m, pc + 1);
		barrier_try(b, id);
		return;
	}
	for (uint32_t l = m; l; l &= l - 1) {
		unsigned lane = (unsigned)__builtin_ctz(l);

		w->bar_pc[lane] = pc;
		w->bar_id[lane] = (uint8_t)id;
	}
	jump(w, m, pc);
	w->barred |= m;
	w->run &= ~m;
	if (in->aligned) {
		for (uint32_t l = w->barred; l; l &= l - 1) {
			unsigned lane = (unsigned)__builtin_ctz(l);
			const struct ins *o =
				&b->machine->kernel->code[w->bar_pc[lane]];

			if (o != in)
				ptx_found(
					w, in, first, F_BARRIER,
					"lanes of one warp wait at the barriers of lines %u and %u",
					o->line, in->line);
		}
	}
	barrier_try(b, id);
}

static void assertion(struct warp *w, const struct ins *in, uint32_t m)
{
	ptx_found(w, in, (unsigned)__builtin_ctz(m), F_OTHER,
		  "an assertion does not hold");
	ptx_fault(w, PTX_ASSERT);
}

/*
 * Run the lanes of the lowest instruction, until they meet others, part, wait
 * or have run for a while.
 */
static void group(struct warp *w)
{
	struct machine *machine = w->block->machine;
	const struct ins *code = machine->kernel->code, *in;
	uint32_t pc = UINT32_MAX, limit = UINT32_MAX, mask = 0, m, guard;
	uint32_t count = 0, lanes = 0, t, ordinal;
	unsigned lane;

	for (uint32_t l = w->run; l; l &= l - 1) {
		lane = (unsigned)__builtin_ctz(l);
		t = w->pc[lane];
		if (t < pc) {
			limit = pc;
			pc = t;
			mask = 1u << lane;
		} else if (t == pc) {
			mask |= 1u << lane;
		} else if (t < limit) {
			limit = t;
		}
	}
	while (machine->outcome == PTX_DONE) {
		if (pc >= limit || count >= SLICE) {
			jump(w, mask, pc);
			break;
		}
		in = &code[pc];
		m = mask;
		if (in->guard != UINT32_MAX) {
			guard = *(const uint32_t *)(const void *)(w->regs +
								  in->guard);
			if (machine->check && mask & ~w->def[in->guard_reg])
				ptx_found(
					w, in,
					(unsigned)__builtin_ctz(
						mask & ~w->def[in->guard_reg]),
					F_REGISTER,
					"is guarded by a predicate that was never set");
			m &= in->guard_negated ? ~guard : guard;
		}
		count++;
		lanes += (uint32_t)__builtin_popcount(m);
		if (!m) {
			pc++;
			continue;
		}
		switch (in->kind) {
		case I_PLAIN:
			execute(w, in, m);
			pc++;
			continue;
		case I_SYNC:
			if (m != mask) {
				jump(w, mask & ~m, pc + 1);
				jump(w, m, pc);
				if (sync_arrive(w, in, m, pc))
					jump(w, m, pc + 1);
				goto out;
			}
			if (!sync_arrive(w, in, m, pc))
				goto out;
			pc++;
			continue;
		case I_BRANCH:
			if (m == mask) {
				pc = (uint32_t)in->imm;
				/* Others may now be lower. */
				if (limit != UINT32_MAX && pc >= limit) {
					jump(w, mask, pc);
					goto out;
				}
				continue;
			}
			jump(w, mask & ~m, pc + 1);
			jump(w, m, (uint32_t)in->imm);
			goto out;
		case I_TABLE:
			defined(w, in, m);
			jump(w, mask & ~m, pc + 1);
			for (uint32_t l = m; l; l &= l - 1) {
				lane = (unsigned)__builtin_ctz(l);
				ordinal = (uint32_t)ptx_value(w, &in->op[0],
							      lane);
				if (ordinal >= (uint64_t)in->imm) {
					ptx_found(w, in, lane, F_BOUNDS,
						  "jumps to entry %u of %u",
						  ordinal, (unsigned)in->imm);
					ptx_fault(w, PTX_TRAP);
					goto out;
				}
				w->pc[lane] = in->table[ordinal];
			}
			goto out;
		case I_CALL:
			copy_args(w, in->call->in, in->call->n_in, m);
			jump(w, mask & ~m, pc + 1);
			jump(w, m, in->call->target);
			for (uint32_t l = m; l; l &= l - 1)
				w->returns[in->call->slot * LANES +
					   (uint32_t)__builtin_ctz(l)] = pc;
			goto out;
		case I_RETURN:
			jump(w, mask & ~m, pc + 1);
			for (uint32_t l = m; l; l &= l - 1) {
				lane = (unsigned)__builtin_ctz(l);
				t = w->returns[in->sub * LANES + lane];
				copy_args(w, code[t].call->out,
					  code[t].call->n_out, 1u << lane);
				w->pc[lane] = t + 1;
			}
			goto out;
		case I_EXIT:
			jump(w, mask & ~m, pc + 1);
			leave(w, m);
			goto out;
		case I_BARRIER:
			jump(w, mask & ~m, pc + 1);
			barrier_arrive(w, in, m, pc);
			goto out;
		case I_TRAP:
			ptx_found(w, in, (unsigned)__builtin_ctz(m), F_OTHER,
				  "executes trap");
			ptx_fault(w, PTX_TRAP);
			goto out;
		default:
			assertion(w, in, m);
			goto out;
		}
	}
out:
	machine->executed += count;
	machine->counts.instructions += count;
	machine->counts.lane_instructions += lanes;
}

/* No lane can run: run what waits without those that are missing. */
static bool force(struct warp *w)
{
	const struct ins *in;
	uint32_t there = 0, wanted;
	unsigned first;

	if (!w->waiting)
		return false;
	first = (unsigned)__builtin_ctz(w->waiting);
	in = &w->block->machine->kernel->code[w->pc[first]];
	wanted = members(w, in, first);
	for (uint32_t l = w->waiting; l; l &= l - 1) {
		unsigned lane = (unsigned)__builtin_ctz(l);

		if (w->pc[lane] == w->pc[first] &&
		    members(w, in, lane) == wanted)
			there |= 1u << lane;
	}
	sync_run(w, in, there, wanted);
	return true;
}

/* Nobody can run, and nobody waits for lanes: threads wait at barriers. */
static void stuck(struct block *b)
{
	for (uint32_t i = 0; i < b->n_warps; i++) {
		struct warp *w = &b->warps[i];
		const struct ins *in;
		unsigned lane;

		if (!w->barred)
			continue;
		lane = (unsigned)__builtin_ctz(w->barred);
		in = &b->machine->kernel->code[w->bar_pc[lane]];
		ptx_found(
			w, in, lane, F_BARRIER,
			"%u of %u threads wait at barrier %u, and the others never come",
			b->barriers[w->bar_id[lane]].arrived,
			b->barriers[w->bar_id[lane]].expected
				? b->barriers[w->bar_id[lane]].expected
				: live_threads(b),
			w->bar_id[lane]);
		ptx_fault(w, PTX_TIMEOUT);
		return;
	}
}

/* Run @b for a while. True if it has ended. */
static bool block_run(struct block *b)
{
	struct machine *machine = b->machine;
	unsigned slices = 0;

	while (machine->outcome == PTX_DONE && slices < BLOCK_SLICE) {
		uint32_t start = machine->launch->seed ? rnd(machine) : 0;
		bool alive = false, ran = false;

		for (uint32_t i = 0; i < b->n_warps; i++) {
			struct warp *w = &b->warps[(start + i) % b->n_warps];

			/* Up to a barrier, or for a slice. */
			uint64_t end = machine->executed + SLICE;

			alive |= w->live != 0;
			while (w->run && machine->outcome == PTX_DONE &&
			       machine->executed < end) {
				group(w);
				ran = true;
			}
			/* Barriers do not wait for threads that have ended. */
			if (!w->live)
				for (unsigned id = 0; id < BARRIERS; id++)
					ran |= barrier_try(b, id);
		}
		slices++;
		if (!alive)
			return true;
		if (ran)
			continue;
		for (unsigned id = 0; id < BARRIERS && !ran; id++)
			ran = barrier_try(b, id);
		for (uint32_t i = 0; i < b->n_warps && !ran; i++)
			ran = force(&b->warps[i]);
		if (!ran) {
			for (uint32_t i = 0; i < b->n_warps; i++)
				ran |= b->warps[i].live != 0;
			if (!ran)
				return true;
			stuck(b);
			return false;
		}
	}
	return false;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	return b ? gcd(b, a % b) : a;
}

static bool over(struct machine *machine, struct block *b)
{
	const struct ptx_launch *l = machine->launch;

	if (l->stop && l->stop(l->arg)) {
		machine->outcome = PTX_STOPPED;
		return true;
	}
	if (!l->limit || machine->executed < l->limit)
		return false;
	for (uint32_t i = 0; i < b->n_warps; i++) {
		struct warp *w = &b->warps[i];
		uint32_t lanes = w->live & (w->run ? w->run : FULL);

		if (!lanes)
			continue;
		ptx_found(w,
			  &machine->kernel->code[w->pc[__builtin_ctz(lanes)]],
			  (unsigned)__builtin_ctz(lanes), F_OTHER,
			  "the launch has not ended after %llu instructions",
			  (unsigned long long)machine->executed);
		break;
	}
	machine->outcome = PTX_TIMEOUT;
	return true;
}

static void blocks_run(struct machine *machine)
{
	const struct ptx_launch *l = machine->launch;
	uint64_t n = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	uint64_t next = 0, step = 1, first = 0, number;
	struct block *resident[RESIDENT];
	unsigned count = 0, turn = 0, at[3];

	if (l->seed && n > 1) {
		first = rnd(machine) % n;
		step = rnd(machine) % n;
		while (!step || gcd(step, n) != 1)
			step = (step + 1) % n;
	}
	while (machine->outcome == PTX_DONE && (count || next < n)) {
		if (turn >= count && next < n && count < RESIDENT) {
			number = (first + next % n * step) % n;
			at[0] = (unsigned)(number % l->grid[0]);
			at[1] = (unsigned)(number / l->grid[0] % l->grid[1]);
			at[2] = (unsigned)(number / l->grid[0] / l->grid[1]);
			resident[count++] =
				block_new(machine, (uint32_t)++next, at);
		}
		turn = turn < count ? turn : 0;
		if (block_run(resident[turn])) {
			block_free(resident[turn]);
			resident[turn] = resident[--count];
		} else {
			over(machine, resident[turn]);
			turn++;
		}
		if (l->stop && !(next & 63) && l->stop(l->arg) &&
		    machine->outcome == PTX_DONE)
			machine->outcome = PTX_STOPPED;
	}
	while (count)
		block_free(resident[--count]);
}

enum ptx_outcome ptx_launch(struct ptx_launch *launch)
{
	const struct ptx_kernel *k = launch->kernel;
	struct machine machine = {
		.launch = launch,
		.kernel = k,
		.check = launch->check,
		.random = launch->seed * 0x9e3779b97f4a7c15u + launch->seed
	};

	machine.shared_bytes =
		k->dynamic_at + (unsigned)launch->dynamic_shared + 64;
	machine.counts.launches = 1;
	blocks_run(&machine);
	ptx_check_end(&machine);
	free(machine.reported);
	launch->counts = machine.counts;
	return machine.outcome;
}
