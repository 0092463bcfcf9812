/* SPDX-License-Identifier: MIT */
/*
 * Accesses to memory: where an address is, whether it may be used, and what
 * is counted. Spaces: global memory is found in the ranges of the launch, the
 * others in the block.
 */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

static const struct ptx_range *range_of(struct machine *machine, uint64_t at)
{
	const struct ptx_launch *l = machine->launch;
	size_t low = 0, high = l->n_ranges, mid;

	if (machine->last && at >= machine->last->start &&
	    at < machine->last->end)
		return machine->last;
	while (low < high) {
		mid = low + (high - low) / 2;
		if (l->ranges[mid].end > at)
			high = mid;
		else
			low = mid + 1;
	}
	if (low == l->n_ranges || l->ranges[low].start > at)
		return NULL;
	machine->last = &l->ranges[low];
	return machine->last;
}

static bool writes(enum access access)
{
	return access == A_WRITE || access == A_WRITE_NOW;
}

static const char *verb(enum access access)
{
	return writes(access)       ? "writes"
	       : access == A_ATOMIC ? "changes"
				    : "reads";
}

static void unwritten(struct warp *w, const struct ins *in, unsigned lane,
		      const char *space, uint64_t address)
{
	ptx_found(w, in, lane, F_UNWRITTEN,
		  "reads byte %#llx of %s memory, which was never written",
		  (unsigned long long)address, space);
}

/* Bits of bytes that have been written; set by workers at the same time. */
static void valid_bits(struct warp *w, const struct ins *in, unsigned lane,
		       const struct ptx_range *r, uint64_t address,
		       unsigned bytes, enum access access)
{
	uint64_t bit = address - r->valid_base;
	unsigned i;

	for (i = 0; i < bytes; i++, bit++) {
		if (!writes(access) && !(r->valid[bit / 8] >> bit % 8 & 1)) {
			unwritten(w, in, lane, "global", address + i);
			return;
		}
		if (writes(access) || access == A_ATOMIC)
			__atomic_fetch_or(&r->valid[bit / 8],
					  (unsigned char)(1u << bit % 8),
					  __ATOMIC_RELAXED);
	}
}

static void *reach_global(struct warp *w, const struct ins *in, unsigned lane,
			  uint64_t address, unsigned bytes, enum access access)
{
	struct machine *machine = w->block->machine;
	const struct ptx_range *r = range_of(machine, address);

	if (!r || bytes > r->end - address) {
		if (r)
			ptx_found(
				w, in, lane, F_BOUNDS,
				"%s %u bytes at %#llx, of which %llu are in the allocation of %llu bytes at %#llx",
				verb(access), bytes,
				(unsigned long long)address,
				(unsigned long long)(r->end - address),
				(unsigned long long)(r->end - r->start),
				(unsigned long long)r->start);
		else
			ptx_found(
				w, in, lane, F_BOUNDS,
				"%s %u bytes at %#llx, where nothing is allocated",
				verb(access), bytes,
				(unsigned long long)address);
		ptx_fault(w, PTX_ILLEGAL_ADDRESS);
		return NULL;
	}
	if (r->readonly && (writes(access) || access == A_ATOMIC)) {
		ptx_found(w, in, lane, F_BOUNDS,
			  "writes at %#llx, which is mapped for reading only",
			  (unsigned long long)address);
		ptx_fault(w, PTX_ILLEGAL_ADDRESS);
		return NULL;
	}
	if (machine->check && access != A_PEEK) {
		if (r->valid)
			valid_bits(w, in, lane, r, address, bytes, access);
		ptx_check_cells(w, in, lane, false, address, bytes, access);
	}
	return r->at + (address - r->start);
}

static const char *owner_name(const struct machine *machine, unsigned owner)
{
	if (owner == 255)
		return "the dynamic shared memory";
	if (owner >= 254 || owner > machine->kernel->n_placed)
		return "a variable";
	return machine->kernel->placed[owner - 1].name;
}

static void shared_bounds(struct warp *w, const struct ins *in, unsigned lane,
			  uint64_t address, unsigned bytes, enum access access)
{
	struct block *b = w->block;
	uint64_t near = address;

	/* The variable that ends or begins nearest. */
	while (near && near < b->machine->shared_bytes && !b->owner[near])
		near--;
	if (near < b->machine->shared_bytes && near && b->owner[near])
		ptx_found(
			w, in, lane, F_BOUNDS,
			"%s %u bytes at %#llx of shared memory, %llu bytes beyond the end of %s",
			verb(access), bytes, (unsigned long long)address,
			(unsigned long long)(address - near -
					     (near != address)),
			owner_name(b->machine, b->owner[near]));
	else
		ptx_found(w, in, lane, F_BOUNDS,
			  "%s %u bytes at %#llx, outside of shared memory",
			  verb(access), bytes, (unsigned long long)address);
}

static void *reach_shared(struct warp *w, const struct ins *in, unsigned lane,
			  uint64_t address, unsigned bytes, enum access access)
{
	struct block *b = w->block;
	const uint8_t *owner = b->owner + address;
	unsigned i;

	if (address >= b->machine->shared_bytes - bytes || !owner[0] ||
	    owner[0] != owner[bytes - 1]) {
		shared_bounds(w, in, lane, address, bytes, access);
		ptx_fault(w, PTX_ILLEGAL_ADDRESS);
		return NULL;
	}
	for (i = 0; i < bytes; i++) {
		uint8_t *valid = &b->shared_valid[address + i];

		if (*valid == 2)
			ptx_found(
				w, in, lane, F_ASYNC,
				"%s byte %#llx of shared memory, to which cp.async still copies: its group was not awaited",
				verb(access),
				(unsigned long long)(address + i));
		else if (writes(access))
			*valid = 1;
		else if (!*valid && b->machine->check && access != A_PEEK)
			unwritten(w, in, lane, "shared", address + i);
		if (*valid == 2 || (!writes(access) && !*valid))
			break;
	}
	if (b->machine->check && access != A_PEEK)
		ptx_check_cells(w, in, lane, true, address, bytes, access);
	return b->shared + address;
}

static void *reach_local(struct warp *w, const struct ins *in, unsigned lane,
			 uint64_t address, unsigned bytes, enum access access,
			 bool arg)
{
	struct block *b = w->block;
	const struct ptx_kernel *k = b->machine->kernel;
	uint64_t end = arg ? k->local : k->local_window;
	size_t at = (size_t)(w->index * LANES + lane) * k->local + address;

	if (address >= end || bytes > end - address) {
		ptx_found(
			w, in, lane, F_BOUNDS,
			"%s %u bytes at %#llx of local memory, which has %llu",
			verb(access), bytes, (unsigned long long)address,
			(unsigned long long)end);
		ptx_fault(w, PTX_ILLEGAL_ADDRESS);
		return NULL;
	}
	if (writes(access))
		memset(b->local_valid + at, 1, bytes);
	else if (b->machine->check && memchr(b->local_valid + at, 0, bytes))
		unwritten(w, in, lane, "local", address);
	return b->local + at;
}

/* Where @bytes at @address are, or NULL after a fault. */
void *ptx_reach(struct warp *w, const struct ins *in, unsigned lane,
		enum ptx_space space, uint64_t address, unsigned bytes,
		unsigned align, enum access access)
{
	if (space == S_GENERIC) {
		uint64_t window = address & WINDOW_MASK;

		space = window == WINDOW_SHARED  ? S_SHARED
			: window == WINDOW_LOCAL ? S_LOCAL
			: window == WINDOW_PARAM ? S_PARAM
						 : S_GLOBAL;
		address &= space == S_GLOBAL ? ~0ull : ~WINDOW_MASK;
	}
	if (address & (align - 1)) {
		ptx_found(w, in, lane, F_ALIGN,
			  "%s %u bytes at %#llx, which is no multiple of %u",
			  verb(access), bytes, (unsigned long long)address,
			  align);
		ptx_fault(w, PTX_MISALIGNED);
		return NULL;
	}
	switch (space) {
	case S_SHARED:
		return reach_shared(w, in, lane, address, bytes, access);
	case S_LOCAL:
		return reach_local(w, in, lane, address, bytes, access, false);
	case S_ARG:
		return reach_local(w, in, lane, address, bytes, access, true);
	case S_PARAM:
		if (address >= w->block->machine->kernel->params ||
		    bytes > w->block->machine->kernel->params - address ||
		    writes(access) || access == A_ATOMIC) {
			ptx_found(w, in, lane, F_BOUNDS,
				  "%s %u bytes at %#llx of the parameters",
				  verb(access), bytes,
				  (unsigned long long)address);
			ptx_fault(w, PTX_ILLEGAL_ADDRESS);
			return NULL;
		}
		return (char *)(uintptr_t)w->block->machine->launch->params +
		       address;
	default:
		return reach_global(w, in, lane, address, bytes, access);
	}
}

static uint64_t place_of(const struct warp *w, const struct operand *o,
			 unsigned lane, int64_t offset, unsigned space)
{
	uint64_t at = ptx_value(w, o, lane) + (uint64_t)offset;

	return space == S_SHARED || space == S_LOCAL ? (uint32_t)at : at;
}

/* Requests, sectors of 32 bytes, and passes over the banks. */
struct traffic {
	uint64_t sectors[2 * LANES];
	unsigned n;
	uint64_t at[LANES];
	unsigned lanes;
	bool shared;
};

static void traffic_add(struct traffic *t, unsigned space, uint64_t address,
			unsigned bytes)
{
	uint64_t s;
	unsigned i;

	t->shared = space == S_SHARED ||
		    (space == S_GENERIC &&
		     (address & WINDOW_MASK) == WINDOW_SHARED);
	t->at[t->lanes++] = address;
	if (t->shared)
		return;
	for (s = address / 32; s <= (address + bytes - 1) / 32; s++) {
		for (i = t->n; i && t->sectors[i - 1] != s; i--)
			;
		if (!i && t->n < 2 * LANES)
			t->sectors[t->n++] = s;
	}
}

/* Passes for some lanes: the most different words of one bank. */
static unsigned passes(const uint64_t *at, unsigned n, unsigned bytes)
{
	uint64_t words[4 * LANES];
	unsigned count[LANES] = { 0 }, used = 0, most = 0, i, k, j;

	for (i = 0; i < n; i++) {
		for (k = 0; k < (bytes + 3) / 4; k++) {
			uint64_t word = at[i] / 4 + k;

			for (j = used; j && words[j - 1] != word; j--)
				;
			if (j || used == 4 * LANES)
				continue;
			words[used++] = word;
			if (++count[word % LANES] > most)
				most = count[word % LANES];
		}
	}
	return most;
}

static void banks(struct machine *machine, const uint64_t *at, unsigned n,
		  unsigned bytes)
{
	unsigned each = bytes <= 4 ? LANES : bytes <= 8 ? LANES / 2 : LANES / 4;
	unsigned i, p;

	machine->counts.shared_requests++;
	for (i = 0; i < n; i += each) {
		p = passes(at + i, n - i < each ? n - i : each, bytes);
		machine->counts.bank_conflicts += p > 1 ? p - 1 : 0;
	}
}

static void traffic_end(struct machine *machine, const struct traffic *t,
			unsigned bytes, bool load)
{
	const struct ptx_launch *l = machine->launch;
	struct ptx_counts *c = &machine->counts;
	unsigned i;

	if (t->shared) {
		banks(machine, t->at, t->lanes, bytes);
	} else if (load) {
		c->load_requests++;
		c->load_sectors += t->n;
		c->load_bytes += (uint64_t)t->lanes * bytes;
		for (i = 0; i < t->n; i++)
			c->watched_sectors +=
				t->sectors[i] * 32 < l->watch_end &&
				t->sectors[i] * 32 + 32 > l->watch_start;
	} else {
		c->store_requests++;
		c->store_sectors += t->n;
		c->store_bytes += (uint64_t)t->lanes * bytes;
	}
}

/* An element of memory as the value of a register. */
static uint64_t extended(const struct ins *in, const void *p)
{
	uint64_t v = 0;

	memcpy(&v, p, in->bytes);
	switch (in->type) {
	case T_S8:
		return (uint64_t)(int8_t)v;
	case T_S16:
		return (uint64_t)(int16_t)v;
	case T_S32:
		return (uint64_t)(int32_t)v;
	default:
		return v;
	}
}

void ptx_do_load(struct warp *w, const struct ins *in, uint32_t m)
{
	unsigned n = in->nd, bytes = n * in->bytes, lane, i;
	struct traffic t = { .n = 0 };
	uint64_t address;

	for (lane = 0; lane < LANES; lane++) {
		const char *p;

		if (!(m >> lane & 1))
			continue;
		address = place_of(w, &in->op[n], lane, in->imm, in->space);
		p = ptx_reach(w, in, lane, (enum ptx_space)in->space, address,
			      bytes, bytes,
			      in->order >= O_VOLATILE ? A_READ_NOW : A_READ);
		if (!p)
			return;
		traffic_add(&t, in->space, address, bytes);
		for (i = 0; i < n; i++)
			ptx_assign(w, &in->op[i], lane,
				   extended(in, p + i * in->bytes));
		if (in->order >= O_RELAXED && !in->cta)
			ptx_acquire(w, lane, address, in->order == O_ACQUIRE);
	}
	if (in->space != S_LOCAL && in->space != S_CONST &&
	    in->space != S_PARAM)
		traffic_end(w->block->machine, &t, bytes, true);
}

void ptx_do_store(struct warp *w, const struct ins *in, uint32_t m)
{
	unsigned n = in->ns - 1u, bytes = n * in->bytes, lane, i;
	struct traffic t = { .n = 0 };
	uint64_t address, v;

	for (lane = 0; lane < LANES; lane++) {
		char *p;

		if (!(m >> lane & 1))
			continue;
		address = place_of(w, &in->op[0], lane, in->imm, in->space);
		if (in->order >= O_RELAXED && !in->cta)
			ptx_release(w, lane, address, in->order == O_RELEASE);
		p = ptx_reach(w, in, lane, (enum ptx_space)in->space, address,
			      bytes, bytes,
			      in->order >= O_VOLATILE ? A_WRITE_NOW : A_WRITE);
		if (!p)
			return;
		traffic_add(&t, in->space, address, bytes);
		for (i = 0; i < n; i++) {
			v = ptx_value(w, &in->op[i + 1], lane);
			memcpy(p + i * in->bytes, &v, in->bytes);
		}
	}
	if (in->space != S_LOCAL)
		traffic_end(w->block->machine, &t, bytes, false);
}

/* Arguments of calls are in memory of the thread, without checks of races. */
void ptx_do_load_arg(struct warp *w, const struct ins *in, uint32_t m)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		const char *p;

		if (!(m >> lane & 1))
			continue;
		p = ptx_reach(w, in, lane, S_ARG, (uint64_t)in->imm,
			      in->nd * in->bytes, 1, A_READ);
		for (unsigned i = 0; p && i < in->nd; i++)
			ptx_assign(w, &in->op[i], lane,
				   extended(in, p + i * in->bytes));
	}
}

void ptx_do_store_arg(struct warp *w, const struct ins *in, uint32_t m)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		char *p;
		uint64_t v;

		if (!(m >> lane & 1))
			continue;
		p = ptx_reach(w, in, lane, S_ARG, (uint64_t)in->imm,
			      (in->ns - 1u) * in->bytes, 1, A_WRITE);
		for (unsigned i = 0; p && i + 1 < in->ns; i++) {
			v = ptx_value(w, &in->op[i + 1], lane);
			memcpy(p + i * in->bytes, &v, in->bytes);
		}
	}
}

void ptx_do_load_param(struct warp *w, const struct ins *in, uint32_t m)
{
	const char *p =
		(const char *)w->block->machine->launch->params + in->imm;

	for (unsigned i = 0; i < in->nd; i++) {
		uint64_t v = extended(in, p + i * in->bytes);

		for (unsigned lane = 0; lane < LANES; lane++) {
			if (m >> lane & 1)
				ptx_assign(w, &in->op[i], lane, v);
		}
	}
}

/* Atomics, one lane after another. */
static float f32(uint64_t v)
{
	uint32_t u = (uint32_t)v;
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static uint64_t sum(const struct ins *in, uint64_t a, uint64_t b)
{
	uint64_t ret = 0;
	double x, y;
	float f;

	switch (in->type) {
	case T_F32:
		f = f32(a) + f32(b);
		memcpy(&ret, &f, 4);
		return ret;
	case T_F64:
		memcpy(&x, &a, 8);
		memcpy(&y, &b, 8);
		x += y;
		memcpy(&ret, &x, 8);
		return ret;
	case T_F16:
	case T_F16X2:
		for (unsigned i = 0; i < in->bytes / 2u; i++)
			ret |= (uint64_t)ptx_to_half(
				       (double)ptx_half_float(
					       (uint16_t)(a >> 16 * i)) +
					       (double)ptx_half_float(
						       (uint16_t)(b >> 16 * i)),
				       R_RN)
			       << 16 * i;
		return ret;
	case T_BF16:
	case T_BF16X2:
		for (unsigned i = 0; i < in->bytes / 2u; i++)
			ret |= (uint64_t)ptx_to_bf16(
				       ptx_fma_odd(
					       (double)ptx_bf16_float(
						       (uint16_t)(a >> 16 * i)),
					       1,
					       (double)ptx_bf16_float((
						       uint16_t)(b >> 16 * i))),
				       R_RN)
			       << 16 * i;
		return ret;
	default:
		return a + b;
	}
}

static bool less(unsigned type, uint64_t a, uint64_t b)
{
	switch (type) {
	case T_S32:
		return (int32_t)a < (int32_t)b;
	case T_S64:
		return (int64_t)a < (int64_t)b;
	default:
		return a < b;
	}
}

static uint64_t atomic(const struct ins *in, uint64_t old, uint64_t b,
		       uint64_t c)
{
	switch (in->sub) {
	case 0:
		return sum(in, old, b);
	case 1:
		return less(in->type, b, old) ? b : old;
	case 2:
		return less(in->type, old, b) ? b : old;
	case 3:
		return old & b;
	case 4:
		return old | b;
	case 5:
		return old ^ b;
	case 6:
		return b;
	case 7:
		return old == b ? c : old;
	case 8:
		return old >= b ? 0 : old + 1;
	default:
		return !old || old > b ? b : old - 1;
	}
}

void ptx_do_atom(struct warp *w, const struct ins *in, uint32_t m)
{
	const struct operand *s = &in->op[in->nd];
	unsigned lane, bytes = in->bytes;
	struct traffic t = { .n = 0 };
	uint64_t address, old, v;

	for (lane = 0; lane < LANES; lane++) {
		char *p;

		if (!(m >> lane & 1))
			continue;
		address = place_of(w, &s[0], lane, in->imm, in->space);
		if (!in->cta)
			ptx_release(w, lane, address, in->order >= O_RELEASE);
		p = ptx_reach(w, in, lane, (enum ptx_space)in->space, address,
			      bytes, bytes, A_ATOMIC);
		if (!p)
			return;
		if (!in->cta)
			ptx_acquire(w, lane, address,
				    in->order == O_ACQUIRE ||
					    in->order == O_ACQ_REL);
		traffic_add(&t, in->space, address, bytes);
		old = 0;
		memcpy(&old, p, bytes);
		v = atomic(in, old, ptx_value(w, &s[1], lane),
			   in->sub == 7 ? ptx_value(w, &s[2], lane) : 0);
		memcpy(p, &v, bytes);
		if (in->nd)
			ptx_assign(w, &in->op[0], lane, old);
	}
	traffic_end(w->block->machine, &t, bytes, false);
}

/* cp.async: bytes arrive as late as they may, when their group is awaited. */
void ptx_do_async(struct warp *w, const struct ins *in, uint32_t m)
{
	struct block *b = w->block;
	struct traffic t = { .n = 0 }, to = { .n = 0 };

	for (unsigned lane = 0; lane < LANES; lane++) {
		struct queue *q = &w->queues[lane];
		struct pending p = { .group = q->group, .ins = in };
		uint64_t src;
		uint32_t size;

		if (!(m >> lane & 1))
			continue;
		p.dst = (uint32_t)(ptx_value(w, &in->op[0], lane) +
				   (uint64_t)(in->imm >> 32));
		src = ptx_value(w, &in->op[1], lane) +
		      (uint64_t)(int64_t)(int32_t)in->imm;
		size = (uint32_t)ptx_value(w, &in->op[2], lane);
		p.bytes = in->bytes;
		p.zeros = size < in->bytes ? in->bytes - size : 0;
		if (size > in->bytes)
			ptx_found(
				w, in, lane, F_OTHER,
				"copies %u bytes to %u: what happens is undefined",
				size, in->bytes);
		p.src = src;
		if (!ptx_reach(w, in, lane, S_SHARED, p.dst, in->bytes,
			       in->bytes, A_WRITE))
			return;
		if (src & (in->bytes - 1)) {
			ptx_found(
				w, in, lane, F_ALIGN,
				"copies %u bytes from %#llx, which is no multiple of %u",
				in->bytes, (unsigned long long)src, in->bytes);
			ptx_fault(w, PTX_MISALIGNED);
			return;
		}
		if (p.zeros < p.bytes &&
		    !ptx_reach(w, in, lane, S_GLOBAL, src, p.bytes - p.zeros, 1,
			       A_READ))
			return;
		if (p.zeros < p.bytes)
			traffic_add(&t, S_GLOBAL, src, p.bytes - p.zeros);
		traffic_add(&to, S_SHARED, p.dst, p.bytes);
		memset(b->shared + p.dst, 0xcd, p.bytes);
		memset(b->shared_valid + p.dst, 2, p.bytes);
		if (q->n == q->room) {
			q->room = 2 * q->room + 8;
			q->list = realloc(q->list, q->room * sizeof(p));
			if (!q->list)
				abort();
		}
		q->list[q->n++] = p;
	}
	traffic_end(b->machine, &t, in->bytes, true);
	traffic_end(b->machine, &to, in->bytes, false);
}

void ptx_do_commit(struct warp *w, const struct ins *in, uint32_t m)
{
	(void)in;
	for (unsigned lane = 0; lane < LANES; lane++)
		w->queues[lane].group += m >> lane & 1;
}

static void arrive(struct warp *w, unsigned lane, const struct pending *p)
{
	struct block *b = w->block;
	const void *from = NULL;

	if (p->zeros < p->bytes)
		from = ptx_reach(w, p->ins, lane, S_GLOBAL, p->src,
				 p->bytes - p->zeros, 1, A_PEEK);
	if (from)
		memcpy(b->shared + p->dst, from, p->bytes - p->zeros);
	memset(b->shared + p->dst + p->bytes - p->zeros, 0, p->zeros);
	memset(b->shared_valid + p->dst, 1, p->bytes);
	if (b->machine->check)
		ptx_check_cells(w, p->ins, lane, true, p->dst, p->bytes,
				A_WRITE);
}

void ptx_do_wait(struct warp *w, const struct ins *in, uint32_t m)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		struct queue *q = &w->queues[lane];
		size_t i, kept = 0;

		if (!(m >> lane & 1))
			continue;
		for (i = 0; i < q->n; i++) {
			/* wait_all also takes what is not committed. */
			bool done = in->sub || (q->list[i].group < q->group &&
						q->group - q->list[i].group >
							(uint64_t)in->imm);

			if (done)
				arrive(w, lane, &q->list[i]);
			else
				q->list[kept++] = q->list[i];
		}
		q->n = kept;
	}
}

void ptx_async_drop(struct block *block)
{
	for (uint32_t i = 0; i < block->n_warps; i++) {
		for (unsigned lane = 0; lane < LANES; lane++)
			free(block->warps[i].queues[lane].list);
	}
}

/* Matrices of 8 rows of 16 bytes; lane l has bytes 4 * (l % 4) of row l / 4. */
static bool rows_of(struct warp *w, const struct ins *in, bool load,
		    char *rows[LANES])
{
	const struct operand *at = &in->op[in->nd];
	uint64_t address[LANES];
	unsigned i;

	for (i = 0; i < 8u * in->sub; i++) {
		address[i] = place_of(w, at, i, in->imm, in->space);
		rows[i] = ptx_reach(w, in, i, (enum ptx_space)in->space,
				    address[i], 16, 16,
				    load ? A_READ : A_WRITE);
		if (!rows[i])
			return false;
	}
	banks(w->block->machine, address, 8u * in->sub, 16);
	return true;
}

void ptx_do_ldmatrix(struct warp *w, const struct ins *in, uint32_t m)
{
	char *rows[LANES];

	if (m != FULL || !rows_of(w, in, true, rows))
		return;
	for (unsigned k = 0; k < in->sub; k++) {
		for (unsigned lane = 0; lane < LANES; lane++) {
			uint16_t e[2];
			unsigned r = lane / 4, c = 2 * (lane % 4);

			for (unsigned i = 0; i < 2; i++)
				memcpy(&e[i],
				       in->trans
					       ? rows[8 * k + c + i] + 2 * r
					       : rows[8 * k + r] + 2 * (c + i),
				       2);
			ptx_assign(w, &in->op[k], lane,
				   e[0] | (uint32_t)e[1] << 16);
		}
	}
}

void ptx_do_stmatrix(struct warp *w, const struct ins *in, uint32_t m)
{
	char *rows[LANES];

	if (m != FULL || !rows_of(w, in, false, rows))
		return;
	for (unsigned k = 0; k < in->sub; k++) {
		for (unsigned lane = 0; lane < LANES; lane++) {
			uint64_t v = ptx_value(w, &in->op[k + 1], lane);
			unsigned r = lane / 4, c = 2 * (lane % 4);

			for (unsigned i = 0; i < 2; i++, v >>= 16)
				memcpy(in->trans
					       ? rows[8 * k + c + i] + 2 * r
					       : rows[8 * k + r] + 2 * (c + i),
				       &v, 2);
		}
	}
}

void ptx_do_fence(struct warp *w, const struct ins *in, uint32_t m)
{
	if (!in->cta)
		ptx_fence(w, m);
}

void ptx_do_isspace(struct warp *w, const struct ins *in, uint32_t m)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		uint64_t window = ptx_value(w, &in->op[1], lane) & WINDOW_MASK;
		bool yes = in->space == S_SHARED  ? window == WINDOW_SHARED
			   : in->space == S_LOCAL ? window == WINDOW_LOCAL
			   : in->space == S_PARAM ? window == WINDOW_PARAM
						  : !window;

		if (m >> lane & 1)
			ptx_assign(w, &in->op[0], lane, yes);
	}
}
