/* SPDX-License-Identifier: MIT */
/*
 * Kernels: each is decoded, with the functions that it calls, into one array
 * of instructions. Functions that are called come before their callers: lanes
 * that have diverged run by the lowest instruction first, and so a call
 * returns before the lanes that did not call go on.
 *
 * There is no recursion, so registers, local variables and the return address
 * of each function have a fixed place. Constants are registers that a warp
 * starts with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define RED_ZONE 32u /* bytes at least between shared variables */

struct decoder {
	struct ptx_module *module;
	struct ptx_kernel *kernel;
	struct function *order[256];
	size_t n_order, index; /* functions, callees first */
	struct function *f;
	struct variable *shared; /* of all functions and the file */
	size_t n_shared;
	struct operand *regs[256];
	uint32_t *starts;    /* of statements of the function */
	uint32_t first[256]; /* instructions of functions */
	struct {
		size_t ins;
		const struct statement *s;
		unsigned scope;
	} * jumps;
	size_t n_jumps;
	const struct statement *s;
	struct ins *in;
	/* The modifiers of the statement. */
	struct mods {
		enum ptx_type types[4];
		unsigned n_types;
		int round;
		bool ftz, sat, relu, nan, cc, wide, lo, hi, sync, aligned, uni,
			trans, shiftamt, to, hint, cta;
		int cmp, boolean, space, order, vector;
		const char *other[8];
		unsigned n_other;
	} m;
	char base[32];
	char *sentence;
	jmp_buf *failed; /* where refuse() goes */
	/* For a survey: called with what is refused; NULL: it ends decoding. */
	ptx_refused *refused;
	void *arg;
};

static void __attribute__((noreturn, format(printf, 2, 3)))
refuse(struct decoder *d, const char *fmt, ...)
{
	va_list args;
	int n = snprintf(d->sentence, PTX_SENTENCE,
			 "line %u: %s: ", d->s ? d->s->line : d->f->line,
			 d->s ? d->s->op : d->f->name);

	n = n < PTX_SENTENCE ? n : PTX_SENTENCE - 1;
	va_start(args, fmt);
	vsnprintf(d->sentence + n, PTX_SENTENCE - (size_t)n, fmt, args);
	va_end(args);
	longjmp(*d->failed, 1);
}

/* Rows are aligned to 32 bytes, for vectors of the host. */
static uint32_t row(struct decoder *d, unsigned bytes)
{
	struct ptx_kernel *k = d->kernel;
	uint32_t off = k->regs;

	if (bytes) {
		off = (off + 31) & ~31u;
		k->regs = off + bytes * LANES;
	} else {
		k->regs = off + 4;
	}
	if (k->regs > 1u << 30)
		refuse(d, "too many registers");
	return off;
}

static unsigned width(enum ptx_type type)
{
	unsigned bytes = ptx_type_bytes(type);

	return type == T_PRED ? 0 : bytes < 2 ? 2 : bytes;
}

/* A row with the same value in all lanes. */
static struct operand constant(struct decoder *d, uint64_t value,
			       unsigned bytes)
{
	struct ptx_kernel *k = d->kernel;
	struct operand o = { .bytes = (uint8_t)bytes };
	size_t i;

	if (bytes < 8)
		value &= bytes ? (1ull << (8 * bytes)) - 1 : 1;
	for (i = 0; i < k->n_presets; i++) {
		if (k->presets[i].bytes == bytes &&
		    k->presets[i].value == value) {
			o.off = k->presets[i].off;
			return o;
		}
	}
	o.off = row(d, bytes);
	k->presets = ptx_more(d->module, k->presets, k->n_presets,
			      sizeof(*k->presets));
	k->presets[k->n_presets].off = o.off;
	k->presets[k->n_presets].bytes = (uint8_t)bytes;
	k->presets[k->n_presets++].value = value;
	return o;
}

static struct operand reg(struct decoder *d, unsigned number)
{
	return d->regs[d->index][number];
}

static const char *const specials[SPECIALS] = {
	[X_TID_X] = "%tid.x",
	[X_TID_Y] = "%tid.y",
	[X_TID_Z] = "%tid.z",
	[X_NTID_X] = "%ntid.x",
	[X_NTID_Y] = "%ntid.y",
	[X_NTID_Z] = "%ntid.z",
	[X_CTAID_X] = "%ctaid.x",
	[X_CTAID_Y] = "%ctaid.y",
	[X_CTAID_Z] = "%ctaid.z",
	[X_NCTAID_X] = "%nctaid.x",
	[X_NCTAID_Y] = "%nctaid.y",
	[X_NCTAID_Z] = "%nctaid.z",
	[X_LANEID] = "%laneid",
	[X_WARPID] = "%warpid",
	[X_NWARPID] = "%nwarpid",
	[X_SMID] = "%smid",
	[X_NSMID] = "%nsmid",
	[X_GRIDID] = "%gridid",
	[X_LANEMASK_EQ] = "%lanemask_eq",
	[X_LANEMASK_LE] = "%lanemask_le",
	[X_LANEMASK_LT] = "%lanemask_lt",
	[X_LANEMASK_GE] = "%lanemask_ge",
	[X_LANEMASK_GT] = "%lanemask_gt",
	[X_DYNAMIC_SMEM] = "%dynamic_smem_size",
	[X_TOTAL_SMEM] = "%total_smem_size",
	[X_CLUSTER_CTARANK] = "%cluster_ctarank",
	[X_CLUSTER_NCTARANK] = "%cluster_nctarank",
};

static bool special(struct decoder *d, const char *name, struct operand *ret)
{
	unsigned i;

	if (!strcmp(name, "WARP_SZ")) {
		*ret = constant(d, LANES, 4);
		return true;
	}
	for (i = 0; i < SPECIALS; i++) {
		if (strcmp(name, specials[i]))
			continue;
		if (!d->kernel->specials.off[i])
			d->kernel->specials.off[i] =
				row(d, i == X_GRIDID ? 8 : 4);
		*ret = (struct operand){ .off = d->kernel->specials.off[i],
					 .bytes = i == X_GRIDID ? 8 : 4 };
		return true;
	}
	return false;
}

static bool inside(const struct function *f, unsigned inner, unsigned outer)
{
	while (inner != outer) {
		if (!inner)
			return false;
		inner = f->parents[inner];
	}
	return true;
}

static const struct variable *find_in(const struct function *f,
				      const struct variable *list, size_t n,
				      const char *name, unsigned scope)
{
	while (n--) {
		if (!strcmp(list[n].name, name) &&
		    (!f || inside(f, scope, list[n].scope)))
			return &list[n];
	}
	return NULL;
}

static const struct variable *variable(struct decoder *d, const struct word *w)
{
	const struct function *f = d->f;
	const struct variable *v;

	v = find_in(f, f->variables, f->n_variables, w->name, w->scope);
	if (!v)
		v = find_in(NULL, f->params, f->n_params, w->name, 0);
	if (!v)
		v = find_in(NULL, f->returns, f->n_returns, w->name, 0);
	if (!v)
		v = find_in(NULL, d->module->globals, d->module->n_globals,
			    w->name, 0);
	if (!v)
		refuse(d, "'%s' is not known here", w->name);
	return v;
}

/* The address of a variable in its own space. */
static uint64_t address_of(struct decoder *d, const struct variable *v)
{
	if (v->space == S_SHARED && v->unsized)
		d->kernel->uses_dynamic = true;
	return v->offset;
}

static uint64_t real_bits(const struct word *w, enum ptx_type type)
{
	double v;
	float f;
	uint64_t ret = 0;

	if (w->kind == W_BITS && w->bytes == 4) {
		uint32_t bits = (uint32_t)w->value;

		memcpy(&f, &bits, 4);
		v = (double)f;
		if (type != T_F64)
			return bits;
	} else {
		memcpy(&v, &w->value, 8);
		if (w->kind == W_BITS && ptx_type_bytes(type) == 8)
			return (uint64_t)w->value;
	}
	f = (float)v;
	if (ptx_type_bytes(type) == 8)
		memcpy(&ret, &v, 8);
	else
		memcpy(&ret, &f, 4);
	return ret;
}

/* A source of @type. @loose: the register may be wider (ld, st, cvt). */
static struct operand source(struct decoder *d, const struct word *w,
			     enum ptx_type type, bool loose)
{
	unsigned bytes = width(type);
	struct operand o;

	switch (w->kind) {
	case W_REG:
		o = reg(d, w->reg);
		break;
	case W_IMM:
		if (type == T_F32 || type == T_F64) {
			struct word r = *w;
			double v = (double)w->value;

			r.kind = W_REAL;
			memcpy(&r.value, &v, 8);
			return constant(d, real_bits(&r, type), bytes);
		}
		return constant(
			d, type == T_PRED ? w->value != 0 : (uint64_t)w->value,
			bytes);
	case W_REAL:
	case W_BITS:
		return constant(d, real_bits(w, type), bytes);
	case W_NAME:
		if (special(d, w->name, &o))
			break;
		{
			const struct variable *v = variable(d, w);

			if (v->space == S_ARG)
				refuse(d,
				       "the address of '%s' is not supported",
				       w->name);
			return constant(d,
					address_of(d, v) + (uint64_t)w->value,
					bytes);
		}
	default:
		refuse(d, "an operand is no register and no number");
	}
	if (o.bytes != bytes && !(loose && o.bytes > bytes && bytes))
		refuse(d, "'%s' has %u bits, and the instruction needs %u",
		       w->name, o.bytes ? 8u * o.bytes : 1,
		       bytes ? 8 * bytes : 1);
	o.negated = w->negated;
	return o;
}

static struct operand target(struct decoder *d, const struct word *w,
			     enum ptx_type type, bool loose)
{
	struct operand o;

	if (w->kind == W_SINK)
		return (struct operand){
			.sink = true,
			.bytes = (uint8_t)width(type),
			.off = constant(d, 0, width(type)).off
		};
	if (w->kind != W_REG)
		refuse(d, "the result is no register");
	o = reg(d, w->reg);
	if (o.bytes != width(type) &&
	    !(loose && o.bytes > width(type) && width(type)))
		refuse(d, "'%s' has %u bits, and the result has %u", w->name,
		       o.bytes ? 8u * o.bytes : 1,
		       width(type) ? 8 * width(type) : 1);
	return o;
}

static void operands(struct decoder *d, unsigned nd, unsigned ns)
{
	d->in->nd = (uint8_t)nd;
	d->in->ns = (uint8_t)ns;
	d->in->op =
		ptx_alloc(d->module, (nd + ns + 1) * sizeof(struct operand));
}

static void need_words(struct decoder *d, size_t low, size_t high)
{
	if (d->s->n < low || d->s->n > high)
		refuse(d, "%zu operands", d->s->n);
}

static bool any(const char *word, const char *list)
{
	size_t n = strlen(word);
	const char *p = list;

	while ((p = strstr(p, word))) {
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
		p += n;
	}
	return false;
}

struct choice {
	const char *word;
	int value;
};

static int choose(const struct choice *list, const char *word)
{
	for (; list->word; list++) {
		if (!strcmp(list->word, word))
			return list->value;
	}
	return -1;
}

static const struct choice roundings[] = {
	{ "rn", R_RN },         { "rz", R_RZ },     { "rm", R_RM },
	{ "rp", R_RP },         { "rna", R_RNA },   { "rni", R_RNI },
	{ "rzi", R_RZI },       { "rmi", R_RMI },   { "rpi", R_RPI },
	{ "approx", R_APPROX }, { "full", R_FULL }, { NULL, 0 }
};
static const struct choice comparisons[] = {
	{ "eq", C_EQ },   { "ne", C_NE },   { "lt", C_LT },   { "le", C_LE },
	{ "gt", C_GT },   { "ge", C_GE },   { "lo", C_LT },   { "ls", C_LE },
	{ "hi", C_GT },   { "hs", C_GE },   { "equ", C_EQU }, { "neu", C_NEU },
	{ "ltu", C_LTU }, { "leu", C_LEU }, { "gtu", C_GTU }, { "geu", C_GEU },
	{ "num", C_NUM }, { "nan", C_NAN }, { NULL, 0 }
};
static const struct choice booleans[] = { { "and", B_AND },
					  { "or", B_OR },
					  { "xor", B_XOR },
					  { NULL, 0 } };
static const struct choice spaces[] = { { "global", S_GLOBAL },
					{ "shared", S_SHARED },
					{ "shared::cta", S_SHARED },
					{ "local", S_LOCAL },
					{ "const", S_CONST },
					{ "param", S_PARAM },
					{ "param::entry", S_PARAM },
					{ "param::func", S_PARAM },
					{ NULL, 0 } };
static const struct choice orders[] = { { "weak", O_WEAK },
					{ "volatile", O_VOLATILE },
					{ "relaxed", O_RELAXED },
					{ "acquire", O_ACQUIRE },
					{ "release", O_RELEASE },
					{ "acq_rel", O_ACQ_REL },
					{ NULL, 0 } };

/* Split the operation into its base and its modifiers. */
static void modifiers(struct decoder *d)
{
	struct mods *m = &d->m;
	char text[64];
	const char *p = d->s->op, *end;
	bool compares = false, memory = false;
	int v;

	memset(m, 0, sizeof(*m));
	m->cmp = -1;
	m->vector = 1;
	end = strchr(p, '.');
	snprintf(d->base, sizeof(d->base), "%.*s",
		 (int)(end ? (size_t)(end - p) : strlen(p)), p);
	compares = any(d->base, "setp set");
	memory = any(
		d->base,
		"ld st atom red ldu cp prefetch prefetchu cvta isspacep fence membar ldmatrix stmatrix mov");
	for (p = end; p && *p; p = end) {
		p++;
		end = strchr(p, '.');
		snprintf(text, sizeof(text), "%.*s",
			 (int)(end ? (size_t)(end - p) : strlen(p)), p);
		if (ptx_type_of(text, strlen(text))) {
			if (m->n_types == 4)
				refuse(d, "too many types");
			m->types[m->n_types++] =
				ptx_type_of(text, strlen(text));
		} else if (compares && (v = choose(comparisons, text)) >= 0 &&
			   m->cmp < 0) {
			m->cmp = v;
		} else if (compares && (v = choose(booleans, text)) >= 0) {
			m->boolean = v;
		} else if ((v = choose(roundings, text)) >= 0) {
			m->round = v;
		} else if (!strcmp(text, "ftz")) {
			m->ftz = true;
		} else if (any(text, "sat satfinite")) {
			m->sat = true;
		} else if (!strcmp(text, "relu")) {
			m->relu = true;
		} else if (!strcmp(text, "NaN")) {
			m->nan = true;
		} else if (!strcmp(text, "cc")) {
			m->cc = true;
		} else if (!strcmp(text, "wide")) {
			m->wide = true;
		} else if (!strcmp(text, "lo")) {
			m->lo = true;
		} else if (!strcmp(text, "hi")) {
			m->hi = true;
		} else if (!strcmp(text, "sync")) {
			m->sync = true;
		} else if (!strcmp(text, "aligned")) {
			m->aligned = true;
		} else if (!strcmp(text, "uni")) {
			m->uni = true;
		} else if (!strcmp(text, "trans")) {
			m->trans = true;
		} else if (!strcmp(text, "shiftamt")) {
			m->shiftamt = true;
		} else if (!strcmp(text, "to")) {
			m->to = true;
		} else if (memory && (v = choose(spaces, text)) >= 0) {
			/* cp.async has two: the last is of its source. */
			m->space = v;
			if (!strcmp(d->base, "cp"))
				m->other[m->n_other++] =
					v == S_SHARED ? "shared" : "global";
		} else if (memory && (v = choose(orders, text)) >= 0) {
			m->order = v;
		} else if (memory && any(text, "v2 v4 v8")) {
			m->vector = text[1] - '0';
		} else if (
			memory &&
			any(text,
			    "cta gpu sys gl cluster ca cg cs lu cv nc wb wt unified proxy sc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B L2::128B L2::256B L2::evict_last L2::evict_normal L2::evict_first L1 L2")) {
			m->cta |= any(text, "cta");
			if (any(text, "cv"))
				m->order = m->order ? m->order : O_VOLATILE;
			if (any(text, "ca cg") && !strcmp(d->base, "cp"))
				m->other[m->n_other++] = text[1] == 'a' ? "ca"
									: "cg";
		} else if (any(text, "L2::cache_hint")) {
			m->hint = true;
		} else {
			if (m->n_other == 8)
				refuse(d, "'.%s' is not supported", text);
			m->other[m->n_other++] =
				ptx_strdup(d->module, text, strlen(text));
		}
	}
}

static bool other(struct decoder *d, const char *word)
{
	for (unsigned i = 0; i < d->m.n_other; i++) {
		if (!strcmp(d->m.other[i], word))
			return true;
	}
	return false;
}

static void no_others(struct decoder *d)
{
	if (d->m.n_other)
		refuse(d, "'.%s' is not supported", d->m.other[0]);
}

static enum ptx_type only_type(struct decoder *d)
{
	if (d->m.n_types != 1)
		refuse(d, "%u types", d->m.n_types);
	return d->m.types[0];
}

static void common(struct decoder *d)
{
	struct ins *in = d->in;
	const struct mods *m = &d->m;

	in->ftz = m->ftz;
	in->sat = m->sat;
	in->relu = m->relu;
	in->nan = m->nan;
	in->round = (uint8_t)m->round;
	in->order = (uint8_t)m->order;
	in->aligned = m->aligned;
	in->trans = m->trans;
	in->cta = m->cta;
	in->type = (uint8_t)m->types[0];
	in->type2 = (uint8_t)(m->n_types > 1 ? m->types[1] : m->types[0]);
}

static bool small_type(unsigned t)
{
	return t == T_B8 || t == T_U8 || t == T_S8;
}

static unsigned arity(const char *base)
{
	if (any(base, "mad fma slct sad lop3 prmt dp4a dp2a shf bfe madc selp"))
		return 3;
	if (any(base,
		"neg abs not cnot popc clz brev bfind rcp sqrt rsqrt sin cos lg2 ex2 tanh"))
		return 1;
	if (!strcmp(base, "bfi"))
		return 4;
	return 2;
}

#include "operations.inc"

static void decode(struct decoder *d)
{
	const char *b = d->base;
	struct ins *in = d->in;

	in->guard = UINT32_MAX;
	in->line = d->s->line;
	if (d->s->guarded) {
		struct operand o = reg(d, d->s->guard);

		in->guard = o.off;
		in->guard_reg = o.reg;
		in->guard_negated = d->s->guard_negated;
	}
	modifiers(d);
	if (arithmetic(d))
		return;
	if (any(b, "setp set")) {
		decode_setp(d);
	} else if (any(b, "testp")) {
		decode_testp(d);
	} else if (any(b, "mov")) {
		decode_mov(d);
	} else if (any(b, "cvt")) {
		decode_cvt(d);
	} else if (any(b, "cvta")) {
		decode_cvta(d);
	} else if (any(b, "ld ldu st")) {
		decode_memory(d);
	} else if (any(b, "atom red")) {
		decode_atom(d);
	} else if (any(b, "cp")) {
		decode_cp(d);
	} else if (any(b, "ldmatrix stmatrix")) {
		decode_matrix(d);
	} else if (any(b, "mma")) {
		decode_mma(d);
	} else if (any(b, "shfl")) {
		decode_shfl(d);
	} else if (any(b, "vote match redux")) {
		decode_lanes(d);
	} else if (any(b, "bar barrier")) {
		decode_barrier(d);
	} else if (any(b, "bra brx")) {
		decode_branch(d);
	} else if (any(b, "call")) {
		decode_call(d);
	} else if (any(b, "isspacep")) {
		decode_isspacep(d);
	} else if (any(b, "ret exit trap")) {
		operands(d, 0, 0);
		in->kind = b[0] == 't'                  ? I_TRAP
			   : b[0] == 'e' || d->f->entry ? I_EXIT
							: I_RETURN;
	} else if (any(b, "membar fence")) {
		need_words(d, 0, 0);
		operands(d, 0, 0);
		in->cta = d->m.cta;
		in->fn = ptx_do_fence;
	} else if (any(b, "activemask")) {
		operands(d, 1, 0);
		need_words(d, 1, 1);
		in->op[0] = target(d, d->s->words, T_B32, false);
		in->fn = ptx_do_activemask;
	} else if (
		any(b,
		    "nanosleep prefetch prefetchu griddepcontrol pmevent setmaxnreg")) {
		operands(d, 0, 0);
		in->fn = ptx_do_nothing;
	} else {
		refuse(d, "this instruction is not supported");
	}
}

static void place_variables(struct decoder *d);

/* Callees first; a cycle is refused. */
static void collect(struct decoder *d, struct function *f)
{
	size_t i, k;

	if (f->mark == 2)
		return;
	d->f = f;
	d->s = NULL;
	if (f->mark == 1)
		refuse(d, "recursion is not supported");
	f->mark = 1;
	for (i = 0; i < f->n_body; i++) {
		const struct statement *s = &f->body[i];
		const char *name = NULL;

		if (strncmp(s->op, "call", 4))
			continue;
		for (k = 0; k < s->n && !name; k++)
			name = s->words[k].kind == W_NAME ? s->words[k].name
							  : NULL;
		for (k = 0; name && k < d->module->n_functions; k++) {
			struct function *g = &d->module->functions[k];

			if (!strcmp(g->name, name) && g->defined && !g->entry)
				collect(d, g);
		}
	}
	f->mark = 2;
	if (d->n_order == 256)
		refuse(d, "too many functions");
	d->order[d->n_order++] = f;
}

static uint32_t aligned(uint32_t at, uint64_t align)
{
	return (uint32_t)((at + align - 1) & ~(align - 1));
}

static void place_shared(struct decoder *d, struct variable *v)
{
	struct ptx_kernel *k = d->kernel;

	if (v->unsized) {
		if (v->align > k->dynamic_align)
			k->dynamic_align = (uint32_t)v->align;
		return;
	}
	if (v->size > 1 << 20)
		refuse(d, "%s has %llu bytes", v->name,
		       (unsigned long long)v->size);
	k->shared =
		aligned(k->shared + RED_ZONE, v->align < 16 ? 16 : v->align);
	v->offset = k->shared;
	k->placed =
		ptx_more(d->module, k->placed, k->n_placed, sizeof(*k->placed));
	k->placed[k->n_placed++] =
		(struct placed){ v->name, k->shared, (uint32_t)v->size };
	k->shared += (uint32_t)v->size;
	k->shared_true = aligned(k->shared_true, v->align) + (uint32_t)v->size;
}

/* True if a function of the kernel names the shared variable @v. */
static bool named(const struct word *w, size_t n, const char *name)
{
	for (; n--; w++) {
		if ((w->kind == W_NAME && !strcmp(w->name, name)) ||
		    named(w->items, w->n, name))
			return true;
	}
	return false;
}

static bool uses(struct decoder *d, const char *name)
{
	for (size_t i = 0; i < d->n_order; i++) {
		for (size_t k = 0; k < d->order[i]->n_body; k++) {
			if (named(d->order[i]->body[k].words,
				  d->order[i]->body[k].n, name))
				return true;
		}
	}
	return false;
}

static void place_list(struct decoder *d, struct variable *list, size_t n,
		       enum ptx_space which)
{
	struct ptx_kernel *k = d->kernel;

	for (; n--; list++) {
		if (list->space != which)
			continue;
		if (which == S_SHARED) {
			place_shared(d, list);
		} else if (which == S_PARAM) {
			k->params = aligned(k->params, list->align);
			list->offset = k->params;
			k->params += (uint32_t)list->size;
		} else {
			/* Of a thread: local variables, then arguments. */
			k->local = aligned(k->local,
					   list->align < 8 ? 8 : list->align);
			list->offset = k->local;
			k->local += (uint32_t)list->size;
			if (which == S_LOCAL)
				k->local_window = k->local;
		}
	}
}

static void place_variables(struct decoder *d)
{
	struct ptx_kernel *k = d->kernel;
	size_t i;

	k->dynamic_align = 16;
	for (i = 0; i < d->n_order; i++) {
		place_list(d, d->order[i]->variables, d->order[i]->n_variables,
			   S_SHARED);
		place_list(d, d->order[i]->variables, d->order[i]->n_variables,
			   S_LOCAL);
	}
	for (i = 0; i < d->module->n_globals; i++) {
		struct variable *v = &d->module->globals[i];

		if (v->space == S_SHARED && uses(d, v->name))
			place_shared(d, v);
		else if (v->space == S_CONST)
			k->constant += (uint32_t)v->size;
	}
	for (i = 0; i < d->n_order; i++) {
		struct function *f = d->order[i];

		place_list(d, f->params, f->n_params, S_PARAM);
		place_list(d, f->params, f->n_params, S_ARG);
		place_list(d, f->returns, f->n_returns, S_ARG);
		place_list(d, f->variables, f->n_variables, S_ARG);
	}
	k->local = aligned(k->local, 16);
	k->dynamic_at = aligned(k->shared + RED_ZONE, k->dynamic_align);
	for (i = 0; i < d->module->n_globals; i++) {
		if (d->module->globals[i].space == S_SHARED &&
		    d->module->globals[i].unsized)
			d->module->globals[i].offset = k->dynamic_at;
	}
}

static void instruction(struct decoder *d)
{
	jmp_buf here, *outer = d->failed;

	if (!d->refused) {
		decode(d);
		return;
	}
	d->failed = &here;
	if (setjmp(here))
		d->refused(d->arg, d->s->op, d->sentence);
	else
		decode(d);
	d->failed = outer;
}

static void function(struct decoder *d)
{
	struct function *f = d->f;
	struct ptx_kernel *k = d->kernel;
	size_t i;

	d->s = NULL;
	d->regs[d->index] =
		ptx_alloc(d->module, f->n_regs * sizeof(struct operand));
	for (i = 1; i < f->n_regs; i++) {
		struct operand *o = &d->regs[d->index][i];

		o->bytes = (uint8_t)width(f->regs[i].type);
		o->off = row(d, o->bytes);
		o->reg = k->n_regs++;
	}
	for (i = 0; i < f->n_body; i++) {
		d->s = &f->body[i];
		d->in = &k->code[k->n_code++];
		instruction(d);
	}
	/* The end of the text is the end of the function. */
	d->in = &k->code[k->n_code++];
	d->in->guard = UINT32_MAX;
	d->in->kind = f->entry ? I_EXIT : I_RETURN;
	d->in->line = f->n_body ? f->body[f->n_body - 1].line : f->line;
}

/* Numbers of statements become those of instructions. */
static void fix_jumps(struct decoder *d, size_t from)
{
	struct ptx_kernel *k = d->kernel;
	size_t i, t;

	for (i = from; i < k->n_code; i++) {
		struct ins *in = &k->code[i];

		if (in->kind == I_BRANCH)
			in->imm += (int64_t)from;
		if (in->kind == I_RETURN)
			in->sub = (uint8_t)d->index;
		if (in->kind != I_TABLE)
			continue;
		for (t = 0; t < (size_t)in->imm; t++)
			((uint32_t *)(uintptr_t)in->table)[t] += (uint32_t)from;
	}
}

struct ptx_kernel *ptx_decode(struct ptx_module *module, struct function *f,
			      ptx_refused *refused, void *arg,
			      char sentence[PTX_SENTENCE])
{
	struct decoder *d = ptx_alloc(module, sizeof(*d));
	struct ptx_kernel *k = ptx_alloc(module, sizeof(*k));
	jmp_buf failed;
	size_t i, n = 0;

	d->module = module;
	d->kernel = k;
	d->sentence = sentence;
	d->refused = refused;
	d->arg = arg;
	d->failed = &failed;
	if (setjmp(failed))
		return NULL;
	k->module = module;
	k->function = f;
	k->n_regs = 1;
	k->regs = 64; /* so that no row is at 0 */
	for (i = 0; i < module->n_functions; i++)
		module->functions[i].mark = 0;
	collect(d, f);
	d->f = f;
	place_variables(d);
	for (i = 0; i < d->n_order; i++)
		n += d->order[i]->n_body + 1;
	k->code = ptx_alloc(module, n * sizeof(*k->code));
	k->n_returns = (uint32_t)d->n_order;
	for (d->index = 0; d->index < d->n_order; d->index++) {
		d->f = d->order[d->index];
		d->first[d->index] = (uint32_t)k->n_code;
		k->entry = (uint32_t)k->n_code;
		function(d);
		fix_jumps(d, d->first[d->index]);
	}
	k->live = k->n_regs < 255 ? k->n_regs : 255;
	return k;
}
