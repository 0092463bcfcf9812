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
			trans, shiftamt, to, hint;
		int cmp, boolean, space, order, vector;
		const char *other[8];
		unsigned n_other;
	} m;
	char base[32];
	char *sentence;
	jmp_buf failed;
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
	longjmp(d->failed, 1);
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

/* Instructions with registers as operands and nothing else. */
static bool arithmetic(struct decoder *d)
{
	const char *b = d->base;
	struct ins *in = d->in;
	struct mods *m = &d->m;
	unsigned n = arity(b), i;
	enum ptx_type type, types[5];
	char op[32];

	if (!any(b,
		 "add sub mul mad div rem neg abs min max and or xor not cnot shl shr sad popc clz brev bfind bfe bfi shf prmt lop3 dp4a dp2a slct selp fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign addc subc madc bmsk mul24"))
		return false;
	common(d);
	snprintf(op, sizeof(op), "%s", b);
	type = m->types[0];
	if (any(b, "add sub mul fma mad min max neg abs ex2 tanh") && n == 3 &&
	    m->n_types > 1)
		refuse(d, "operands of different types are not supported");
	if (any(b, "shf")) {
		bool left = other(d, "l"), clamp = other(d, "clamp");

		if (m->n_other != 2 || (!left && !other(d, "r")) ||
		    (!clamp && !other(d, "wrap")))
			refuse(d, "its modifiers are not supported");
		snprintf(op, sizeof(op), "shf.%s.%s", left ? "l" : "r",
			 clamp ? "clamp" : "wrap");
	} else if (any(b, "bmsk")) {
		in->sub = other(d, "wrap");
	} else if (any(b, "lop3 prmt") ? m->n_other > 0 : m->n_other > 0) {
		no_others(d);
	}
	if (!type || small_type(type))
		refuse(d, "this type is not supported");
	in->sub = m->shiftamt      ? 1
		  : m->wide        ? M_WIDE
		  : any(b, "dp2a") ? m->hi
		  : m->hi          ? M_HI
		  : any(b, "bmsk") ? in->sub
				   : M_LO;
	if (any(b, "addc subc madc")) {
		in->carry_in = true;
		op[3] = '\0';
	}
	in->carry_out = m->cc;
	if (any(b, "dp2a"))
		in->sub2 = (uint8_t)((m->types[0] == T_S32) |
				     (m->types[1] == T_S32) << 1);
	if (any(b, "dp4a dp2a")) {
		if (m->n_types != 2)
			refuse(d, "two types are needed");
	}
	need_words(d, n + 1, any(b, "lop3") ? n + 2 : n + 1);
	operands(d, 1, n);
	for (i = 0; i < 5; i++)
		types[i] = type;
	if (m->wide) {
		types[0] = type == T_S16   ? T_S32
			   : type == T_U16 ? T_U32
			   : type == T_S32 ? T_S64
					   : T_U64;
		types[3] = types[0];
	}
	if (any(b, "popc clz bfind"))
		types[0] = T_U32;
	if (any(b, "shl shr"))
		types[2] = T_U32;
	if (any(b, "bfe"))
		types[2] = types[3] = T_U32;
	if (any(b, "bfi"))
		types[3] = types[4] = T_U32;
	if (any(b, "slct")) {
		types[3] = m->types[1];
		if (m->n_types != 2)
			refuse(d, "two types are needed");
	}
	if (any(b, "selp"))
		types[3] = T_PRED;
	for (i = 0; i <= n; i++)
		in->op[i] = i ? source(d, &d->s->words[i], types[i], false)
			      : target(d, &d->s->words[0], types[0], false);
	if (any(b, "lop3")) {
		if (d->s->n != 5 || d->s->words[4].kind != W_IMM)
			refuse(d, "a table of 8 bits is needed");
		in->imm = d->s->words[4].value;
	}
	if (any(b, "selp"))
		in->keeps = true;
	in->fn = ptx_alu(op, in);
	if (!in->fn)
		refuse(d, "this form is not supported");
	return true;
}

static void decode_setp(struct decoder *d)
{
	struct ins *in = d->in;
	const struct word *w = d->s->words;
	enum ptx_type type;
	bool p = !strcmp(d->base, "setp");
	unsigned n = d->m.boolean ? 3 : 2;

	common(d);
	no_others(d);
	if (d->m.cmp < 0 || d->m.n_types != (p ? 1 : 2))
		refuse(d, "this form is not supported");
	type = d->m.types[p ? 0 : 1];
	if (small_type(type))
		refuse(d, "this type is not supported");
	in->type2 = (uint8_t)type;
	in->sub = (uint8_t)d->m.cmp;
	in->sub2 = (uint8_t)d->m.boolean;
	need_words(d, n + 1, n + 1);
	operands(d, w->second ? 2 : 1, n);
	in->op[0] = target(d, w, p ? T_PRED : d->m.types[0], false);
	if (w->second)
		in->op[1] = target(d, w->second, T_PRED, false);
	in->op[in->nd] = source(d, &w[1], type, false);
	in->op[in->nd + 1] = source(d, &w[2], type, false);
	if (n == 3)
		in->op[in->nd + 2] = source(d, &w[3], T_PRED, false);
	in->fn = ptx_alu(d->base, in);
}

static void decode_testp(struct decoder *d)
{
	static const char *const kinds[] = { "finite", "infinite",
					     "number", "notanumber",
					     "normal", "subnormal" };
	unsigned i = 0;

	common(d);
	while (i < 6 && !other(d, kinds[i]))
		i++;
	if (i == 6 || (d->in->type != T_F32 && d->in->type != T_F64))
		refuse(d, "this form is not supported");
	d->in->sub = (uint8_t)i;
	need_words(d, 2, 2);
	operands(d, 1, 1);
	d->in->op[0] = target(d, &d->s->words[0], T_PRED, false);
	d->in->op[1] = source(d, &d->s->words[1], d->m.types[0], false);
	d->in->fn = ptx_alu("testp", d->in);
}

static void decode_mov(struct decoder *d)
{
	struct ins *in = d->in;
	const struct word *to = &d->s->words[0], *from = &d->s->words[1];
	enum ptx_type type = only_type(d), half;
	const struct word *v;
	size_t i;

	no_others(d);
	common(d);
	need_words(d, 2, 2);
	if (to->kind != W_VECTOR && from->kind != W_VECTOR) {
		operands(d, 1, 1);
		in->op[0] = target(d, to, type, false);
		if (from->kind == W_NAME &&
		    any(from->name,
			"%clock %clock64 %globaltimer %clock_hi %globaltimer_lo")) {
			in->ns = 0;
			in->fn = ptx_do_clock;
			return;
		}
		in->op[1] = source(d, from, type, false);
		if (in->op[1].negated)
			refuse(d, "'!' is not supported");
		in->keeps = true;
		in->fn = ptx_alu("mov", in);
		return;
	}
	v = to->kind == W_VECTOR ? to : from;
	if (!v->n || ptx_type_bytes(type) % v->n)
		refuse(d, "a vector of %zu does not fit", v->n);
	half = ptx_type_bytes(type) / v->n == 4   ? T_B32
	       : ptx_type_bytes(type) / v->n == 2 ? T_B16
						  : T_B8;
	operands(d, to == v ? (unsigned)v->n : 1, to == v ? 1 : (unsigned)v->n);
	in->bytes = (uint8_t)ptx_type_bytes(half);
	if (half == T_B8)
		refuse(d, "vectors of bytes are not supported");
	for (i = 0; i < v->n; i++)
		in->op[to == v ? i : i + 1] =
			to == v ? target(d, &v->items[i], half, false)
				: source(d, &v->items[i], half, false);
	if (to == v)
		in->op[v->n] = source(d, from, type, false);
	else
		in->op[0] = target(d, to, type, false);
	in->fn = ptx_alu("pack", in);
}

static void decode_cvt(struct decoder *d)
{
	struct ins *in = d->in;
	struct mods *m = &d->m;
	enum ptx_type to = m->types[0], from = m->types[1];
	bool pair = to == T_F16X2 || to == T_BF16X2;
	unsigned i;

	common(d);
	if (other(d, "pack") || m->n_types != 2)
		refuse(d, "this form is not supported");
	no_others(d);
	if ((to == T_TF32 && m->round != R_RNA) || (pair && from != T_F32) ||
	    from == T_F16X2 || from == T_BF16X2 || from == T_TF32 ||
	    (m->sat && other(d, "satfinite")))
		refuse(d, "this form is not supported");
	if ((pair || to == T_F16 || to == T_BF16) && m->sat &&
	    strstr(d->s->op, "satfinite"))
		refuse(d, "'.satfinite' is not supported");
	need_words(d, pair ? 3 : 2, pair ? 3 : 2);
	operands(d, 1, pair ? 2 : 1);
	in->op[0] = target(d, &d->s->words[0], to, true);
	for (i = 1; i < d->s->n; i++)
		in->op[i] = source(d, &d->s->words[i], from, true);
	in->fn = ptx_alu("cvt", in);
}

/* Generic addresses: those of global memory are themselves. */
static void decode_cvta(struct decoder *d)
{
	struct ins *in = d->in;
	uint64_t window = d->m.space == S_SHARED  ? WINDOW_SHARED
			  : d->m.space == S_LOCAL ? WINDOW_LOCAL
			  : d->m.space == S_PARAM ? WINDOW_PARAM
						  : 0;

	need_words(d, 2, 2);
	if (only_type(d) != T_U64 || !d->m.space)
		refuse(d, "this form is not supported");
	in->type = T_U64;
	in->type2 = T_U64;
	operands(d, 1, 2);
	in->op[0] = target(d, &d->s->words[0], T_U64, false);
	in->op[1] = source(d, &d->s->words[1], T_U64, false);
	in->op[2] = constant(d, window, 8);
	in->fn = ptx_alu(d->m.to ? "sub" : "add", in);
}

/* [base + offset]: the base becomes a source, the offset in->imm. */
static const struct variable *address(struct decoder *d, const struct word *w,
				      struct operand *ret)
{
	const struct word *base;

	if (w->kind != W_ADDRESS)
		refuse(d, "an address is needed");
	base = w->items;
	d->in->imm = w->value;
	if (base->kind == W_REG) {
		*ret = reg(d, base->reg);
		if (ret->bytes < 4)
			refuse(d, "an address has 32 or 64 bits");
		return NULL;
	}
	if (base->kind == W_IMM) {
		*ret = constant(d, (uint64_t)base->value, 8);
		return NULL;
	}
	if (base->kind == W_NAME) {
		const struct variable *v = variable(d, base);

		d->in->imm += base->value;
		*ret = constant(d, address_of(d, v), 8);
		if (v->space == S_ARG || v->space == S_PARAM)
			d->in->imm += (int64_t)v->offset;
		return v;
	}
	refuse(d, "this address is not supported");
}

static void decode_memory(struct decoder *d)
{
	struct ins *in = d->in;
	bool load = d->base[0] == 'l';
	const struct word *data, *at;
	enum ptx_type type = only_type(d);
	const struct variable *v;
	unsigned n = (unsigned)d->m.vector, i;

	common(d);
	no_others(d);
	need_words(d, 2, d->m.hint ? 3 : 2);
	data = &d->s->words[load ? 0 : 1];
	at = &d->s->words[load ? 1 : 0];
	if (ptx_type_bytes(type) > 8)
		refuse(d, "this type is not supported");
	in->bytes = (uint8_t)ptx_type_bytes(type);
	in->space = (uint8_t)d->m.space;
	in->sub = strstr(d->s->op, ".nc") != NULL;
	operands(d, load ? n : 0, load ? 1 : n + 1);
	v = address(d, at, &in->op[load ? n : 0]);
	if ((n > 1) != (data->kind == W_VECTOR) || (n > 1 && data->n != n))
		refuse(d, "a vector of %u is needed", n);
	for (i = 0; i < n; i++) {
		const struct word *w = n > 1 ? &data->items[i] : data;

		if (load)
			in->op[i] = target(d, w, type, true);
		else
			in->op[i + 1] = source(d, w, type, true);
	}
	if (d->m.space == S_PARAM) {
		if (!v) /* a register: parameters that are indexed */
			refuse(d,
			       "parameters at computed addresses are not supported");
		in->ns = load ? 0 : in->ns;
		in->space = (uint8_t)v->space;
		if (v->space == S_PARAM) {
			if (!load)
				refuse(d,
				       "parameters of a kernel are only read");
			if (in->imm < 0 || (uint64_t)in->imm + in->bytes * n >
						   v->offset + v->size)
				refuse(d, "outside of the parameter '%s'",
				       v->name);
			in->fn = ptx_do_load_param;
		} else {
			in->fn = load ? ptx_do_load_arg : ptx_do_store_arg;
		}
		return;
	}
	if (v && v->space == S_ARG)
		refuse(d, "'%s' is a parameter", v->name);
	if (!load && d->m.space == S_CONST)
		refuse(d, "constants are only read");
	in->fn = load ? ptx_do_load : ptx_do_store;
}

static const struct choice atomics[] = {
	{ "add", 0 }, { "min", 1 }, { "max", 2 },  { "and", 3 },
	{ "or", 4 },  { "xor", 5 }, { "exch", 6 }, { "cas", 7 },
	{ "inc", 8 }, { "dec", 9 }, { NULL, 0 }
};

static void decode_atom(struct decoder *d)
{
	struct ins *in = d->in;
	bool red = d->base[0] == 'r';
	enum ptx_type type = only_type(d);
	unsigned words, i;
	int op = -1;

	common(d);
	if (in->order == O_WEAK)
		in->order = O_RELAXED;
	for (i = 0; i < d->m.n_other; i++) {
		if (choose(atomics, d->m.other[i]) >= 0)
			op = choose(atomics, d->m.other[i]);
		else if (!any(d->m.other[i], "noftz"))
			refuse(d, "'.%s' is not supported", d->m.other[i]);
	}
	if (op < 0 || d->m.vector != 1 || ptx_type_bytes(type) > 8 ||
	    small_type(type))
		refuse(d, "this form is not supported");
	if (type >= T_F16 && op != 0 && !(op <= 2 && type < T_TF32 && 0))
		refuse(d, "this form is not supported");
	in->sub = (uint8_t)op;
	in->bytes = (uint8_t)ptx_type_bytes(type);
	in->space = (uint8_t)d->m.space;
	words = (red ? 0 : 1) + 1 + (op == 7 ? 2 : 1);
	need_words(d, words, words + d->m.hint);
	operands(d, red ? 0 : 1, words - !red);
	if (!red)
		in->op[0] = target(d, &d->s->words[0], type, false);
	address(d, &d->s->words[!red], &in->op[in->nd]);
	for (i = !red + 1u; i < words; i++)
		in->op[i] = source(d, &d->s->words[i], type, false);
	in->fn = ptx_do_atom;
}

static void decode_cp(struct decoder *d)
{
	struct ins *in = d->in;
	const struct word *w = d->s->words;

	common(d);
	if (!other(d, "async") || other(d, "bulk") || other(d, "mbarrier"))
		refuse(d, "this form is not supported");
	in->space = S_GLOBAL;
	if (other(d, "commit_group")) {
		operands(d, 0, 0);
		in->fn = ptx_do_commit;
		return;
	}
	if (other(d, "wait_group") || other(d, "wait_all")) {
		operands(d, 0, 0);
		in->sub = other(d, "wait_all");
		if (!in->sub && (d->s->n != 1 || w->kind != W_IMM))
			refuse(d, "a number of groups is needed");
		in->imm = in->sub ? 0 : w->value;
		in->fn = ptx_do_wait;
		return;
	}
	if (!other(d, "shared") || !other(d, "global") ||
	    (!other(d, "ca") && !other(d, "cg")))
		refuse(d, "this form is not supported");
	need_words(d, 3, 4 + d->m.hint);
	operands(d, 0, 3);
	address(d, &w[1], &in->op[1]);
	in->sub2 = 0;
	{
		int64_t offset = in->imm;

		address(d, &w[0], &in->op[0]);
		/* The offset of the source, and above it that of the target. */
		if (offset != (int32_t)offset || in->imm != (int32_t)in->imm)
			refuse(d, "an offset is too large");
		in->imm = (int64_t)((uint64_t)(uint32_t)offset |
				    (uint64_t)(uint32_t)in->imm << 32);
	}
	if (w[2].kind != W_IMM ||
	    (w[2].value != 4 && w[2].value != 8 && w[2].value != 16) ||
	    (other(d, "cg") && w[2].value != 16))
		refuse(d, "the size is 4, 8 or 16 bytes, and 16 with .cg");
	in->bytes = (uint8_t)w[2].value;
	in->op[2] = d->s->n - d->m.hint == 4
			    ? source(d, &w[3], T_U32, false)
			    : constant(d, (uint64_t)w[2].value, 4);
	if (in->op[2].bytes == 0)
		refuse(d, "'ignore-src' is not supported");
	in->fn = ptx_do_async;
}

static void decode_matrix(struct decoder *d)
{
	struct ins *in = d->in;
	bool load = d->base[0] == 'l';
	const struct word *v = &d->s->words[load ? 0 : 1];
	unsigned n = other(d, "x4") ? 4 : other(d, "x2") ? 2 : 1, i;

	common(d);
	if (!other(d, "m8n8") || only_type(d) != T_B16 || d->m.n_other != 2)
		refuse(d, "this form is not supported");
	need_words(d, 2, 2);
	in->kind = I_SYNC;
	in->sub = (uint8_t)n;
	in->space = (uint8_t)d->m.space;
	in->bytes = 16;
	operands(d, load ? n : 0, load ? 1 : n + 1);
	address(d, &d->s->words[load ? 1 : 0], &in->op[load ? n : 0]);
	if (v->kind == W_VECTOR ? v->n != n : n != 1)
		refuse(d, "a vector of %u is needed", n);
	for (i = 0; i < n; i++) {
		const struct word *w = v->kind == W_VECTOR ? &v->items[i] : v;

		if (load)
			in->op[i] = target(d, w, T_B32, false);
		else
			in->op[i + 1] = source(d, w, T_B32, false);
	}
	in->fn = load ? ptx_do_ldmatrix : ptx_do_stmatrix;
}

/* Shapes: rows, columns, depth; registers of d, a, b, c. */
static const struct shape_of {
	const char *shape;
	enum ptx_type d, a;
	unsigned char k, m, nd, na, nb;
} shapes[] = {
	{ "m16n8k16", T_F32, T_F16, 16, 16, 4, 4, 2 },
	{ "m16n8k16", T_F16, T_F16, 16, 16, 2, 4, 2 },
	{ "m16n8k16", T_F32, T_BF16, 16, 16, 4, 4, 2 },
	{ "m16n8k8", T_F32, T_F16, 8, 16, 4, 2, 1 },
	{ "m16n8k8", T_F16, T_F16, 8, 16, 2, 2, 1 },
	{ "m16n8k8", T_F32, T_BF16, 8, 16, 4, 2, 1 },
	{ "m16n8k8", T_F32, T_TF32, 8, 16, 4, 4, 2 },
	{ "m16n8k4", T_F32, T_TF32, 4, 16, 4, 2, 1 },
	{ "m16n8k32", T_S32, T_S8, 32, 16, 4, 4, 2 },
	{ "m16n8k16", T_S32, T_S8, 16, 16, 4, 2, 1 },
	{ "m8n8k16", T_S32, T_S8, 16, 8, 2, 1, 1 },
	{ "m8n8k4", T_F64, T_F64, 4, 8, 2, 1, 1 },
};

static void decode_mma(struct decoder *d)
{
	struct ins *in = d->in;
	struct mods *m = &d->m;
	const struct shape_of *s = NULL;
	enum ptx_type types[4], a;
	unsigned counts[4], i, k, at = 0;
	char layout[8];

	common(d);
	a = m->types[1] == T_U8 ? T_S8 : m->types[1];
	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		if (m->n_types == 4 && other(d, shapes[i].shape) &&
		    shapes[i].d == m->types[0] && shapes[i].a == a)
			s = &shapes[i];
	}
	snprintf(layout, sizeof(layout), "row");
	if (!s || m->types[3] != m->types[0] || !other(d, "row") ||
	    !other(d, "col") || m->n_other != 3 || !m->sync ||
	    (a != T_S8 && m->types[1] != m->types[2]) ||
	    (a == T_S8 && m->types[2] != T_S8 && m->types[2] != T_U8))
		refuse(d, "this form is not supported");
	in->kind = I_SYNC;
	in->type2 = (uint8_t)a;
	in->sub = s->k;
	in->sub2 = (uint8_t)((m->types[1] == T_S8) |
			     (m->types[2] == T_S8) << 1 | (s->m == 16) << 2);
	in->bytes = s->na;
	in->space = s->nb;
	types[0] = types[3] = m->types[0] == T_F16 ? T_B32 : m->types[0];
	types[1] = types[2] = a == T_F64 ? T_F64 : T_B32;
	counts[0] = counts[3] = s->nd;
	counts[1] = s->na;
	counts[2] = s->nb;
	need_words(d, 4, 4);
	operands(d, s->nd, s->na + s->nb + s->nd);
	for (i = 0; i < 4; i++) {
		const struct word *v = &d->s->words[i];

		if (v->kind == W_VECTOR ? v->n != counts[i] : counts[i] != 1)
			refuse(d, "operand %u has to be a vector of %u", i,
			       counts[i]);
		for (k = 0; k < counts[i]; k++) {
			const struct word *w =
				v->kind == W_VECTOR ? &v->items[k] : v;

			in->op[at++] = i ? source(d, w, types[i], false)
					 : target(d, w, types[i], false);
		}
	}
	in->fn = ptx_do_mma;
}

static void decode_shfl(struct decoder *d)
{
	static const char *const modes[] = { "up", "down", "bfly", "idx" };
	struct ins *in = d->in;
	const struct word *w = d->s->words;
	unsigned i = 0;

	common(d);
	while (i < 4 && !other(d, modes[i]))
		i++;
	if (i == 4 || !d->m.sync || only_type(d) != T_B32)
		refuse(d, "this form is not supported");
	in->kind = I_SYNC;
	in->sub = (uint8_t)i;
	need_words(d, 5, 5);
	operands(d, w->second ? 2 : 1, 4);
	in->op[0] = target(d, w, T_B32, false);
	if (w->second)
		in->op[1] = target(d, w->second, T_PRED, false);
	for (i = 0; i < 4; i++)
		in->op[in->nd + i] = source(d, &w[i + 1], T_B32, false);
	in->fn = ptx_do_shfl;
}

/* vote, match, redux, bar.warp: the mask of lanes is the last source. */
static void decode_lanes(struct decoder *d)
{
	static const char *const votes[] = { "all", "any", "uni", "ballot" };
	static const char *const sums[] = { "add", "min", "max",
					    "and", "or",  "xor" };
	struct ins *in = d->in;
	const struct word *w = d->s->words;
	enum ptx_type type = only_type(d);
	unsigned i = 0;

	common(d);
	if (!d->m.sync)
		refuse(d, "only the forms with .sync are supported");
	in->kind = I_SYNC;
	need_words(d, 3, 3);
	operands(d, w->second ? 2 : 1, 2);
	if (d->base[0] == 'v') {
		while (i < 4 && !other(d, votes[i]))
			i++;
		if (d->m.uni)
			i = 2;
		in->op[0] = target(d, w, i == 3 ? T_B32 : T_PRED, false);
		in->op[1] = source(d, &w[1], T_PRED, false);
		in->op[2] = source(d, &w[2], T_B32, false);
		in->fn = ptx_do_vote;
	} else if (d->base[0] == 'm') {
		i = other(d, "all");
		if (!i && !other(d, "any"))
			refuse(d, "this form is not supported");
		in->op[0] = target(d, w, T_B32, false);
		if (w->second)
			in->op[1] = target(d, w->second, T_PRED, false);
		in->op[in->nd] = source(d, &w[1], type, false);
		in->op[in->nd + 1] = source(d, &w[2], T_B32, false);
		in->fn = ptx_do_match;
	} else {
		while (i < 6 && !other(d, sums[i]))
			i++;
		if (i == 6 || ptx_type_bytes(type) != 4 || type == T_F32)
			refuse(d, "this form is not supported");
		in->op[0] = target(d, w, type, false);
		in->op[1] = source(d, &w[1], type, false);
		in->op[2] = source(d, &w[2], T_B32, false);
		in->fn = ptx_do_redux;
	}
	in->sub = (uint8_t)i;
}

static void decode_barrier(struct decoder *d)
{
	struct ins *in = d->in;
	const struct word *w = d->s->words;
	bool red = other(d, "red"), arrive = other(d, "arrive");
	size_t at = red ? 1 : 0, n = d->s->n;

	common(d);
	if (other(d, "warp")) {
		need_words(d, 1, 1);
		in->kind = I_SYNC;
		operands(d, 0, 1);
		in->op[0] = source(d, w, T_B32, false);
		in->fn = ptx_do_warpsync;
		return;
	}
	if (other(d, "cluster"))
		refuse(d, "clusters are not supported");
	in->kind = I_BARRIER;
	/* bar has .aligned built in. */
	in->aligned = d->m.aligned || !strcmp(d->base, "bar");
	in->sub = (uint8_t)(arrive             ? BAR_ARRIVE
			    : !red             ? BAR_SYNC
			    : other(d, "popc") ? BAR_POPC
			    : other(d, "and")  ? BAR_AND
					       : BAR_OR);
	if (n < at + 1)
		refuse(d, "%zu operands", n);
	operands(d, red, 3);
	if (red)
		in->op[0] = target(d, w, in->sub == BAR_POPC ? T_U32 : T_PRED,
				   false);
	in->op[in->nd] = source(d, &w[at], T_U32, false);
	in->op[in->nd + 1] = constant(d, 0, 4);
	in->op[in->nd + 2] = constant(d, 0, 0);
	if (n > at + 1 + red)
		in->op[in->nd + 1] = source(d, &w[at + 1], T_U32, false);
	if (red)
		in->op[in->nd + 2] = source(d, &w[n - 1], T_PRED, false);
}

static struct function *callee(struct decoder *d, const char *name, size_t *ret)
{
	size_t i;

	for (i = 0; i < d->n_order; i++) {
		if (!strcmp(d->order[i]->name, name)) {
			*ret = i;
			return d->order[i];
		}
	}
	return NULL;
}

static void decode_call(struct decoder *d)
{
	struct ins *in = d->in;
	const struct word *w = d->s->words, *args = NULL, *results = NULL;
	struct function *f;
	struct call *c;
	const char *name = NULL;
	size_t i, index;

	for (i = 0; i < d->s->n; i++) {
		if (w[i].kind == W_NAME && !name)
			name = w[i].name;
		else if (w[i].kind == W_LIST && !name)
			results = &w[i];
		else if (w[i].kind == W_LIST)
			args = &w[i];
	}
	if (!name)
		refuse(d, "calls of pointers are not supported");
	operands(d, 0, 0);
	if (!strcmp(name, "__assertfail")) {
		in->kind = I_ASSERT;
		return;
	}
	f = callee(d, name, &index);
	if (!f)
		refuse(d, "'%s' is not supported", name);
	if ((args ? args->n : 0) != f->n_params ||
	    (results ? results->n : 0) != f->n_returns)
		refuse(d, "'%s' has %zu parameters and %zu results", name,
		       f->n_params, f->n_returns);
	in->kind = I_CALL;
	c = in->call = ptx_alloc(d->module, sizeof(*c));
	c->target = d->first[index];
	c->slot = (uint32_t)index;
	c->n_in = f->n_params;
	c->n_out = f->n_returns;
	c->in = ptx_alloc(d->module, (c->n_in + 1) * sizeof(*c->in));
	c->out = ptx_alloc(d->module, (c->n_out + 1) * sizeof(*c->out));
	for (i = 0; i < c->n_in; i++)
		c->in[i] = (struct copied){
			(uint32_t)variable(d, &args->items[i])->offset,
			(uint32_t)f->params[i].offset,
			(uint32_t)f->params[i].size
		};
	for (i = 0; i < c->n_out; i++)
		c->out[i] = (struct copied){
			(uint32_t)f->returns[i].offset,
			(uint32_t)variable(d, &results->items[i])->offset,
			(uint32_t)f->returns[i].size
		};
}

static size_t label(struct decoder *d, const char *name, unsigned scope)
{
	const struct function *f = d->f;
	size_t i;

	for (i = 0; i < f->n_labels; i++) {
		if (!strcmp(f->labels[i].name, name) &&
		    inside(f, scope, f->labels[i].scope))
			return f->labels[i].at;
	}
	refuse(d, "there is no label '%s'", name);
}

static void decode_branch(struct decoder *d)
{
	const struct function *f = d->f;
	const struct word *w = d->s->words;
	uint32_t *table;
	size_t i, k;

	operands(d, 0, 1);
	if (!other(d, "idx")) {
		need_words(d, 1, 1);
		if (w->kind != W_NAME)
			refuse(d, "a label is needed");
		d->in->ns = 0;
		d->in->kind = I_BRANCH;
		d->in->imm = (int64_t)label(d, w->name, w->scope);
		return;
	}
	need_words(d, 2, 2);
	d->in->kind = I_TABLE;
	d->in->op[0] = source(d, w, T_U32, false);
	for (i = 0; i < f->n_tables; i++) {
		const struct branches *b = &f->tables[i];

		if (strcmp(b->name, w[1].name))
			continue;
		table = ptx_alloc(d->module, (b->n + 1) * sizeof(*table));
		for (k = 0; k < b->n; k++)
			table[k] = (uint32_t)label(d, b->labels[k], b->scope);
		d->in->table = table;
		d->in->imm = (int64_t)b->n;
		return;
	}
	refuse(d, "there are no branch targets '%s'", w[1].name);
}

static void decode_isspacep(struct decoder *d)
{
	need_words(d, 2, 2);
	operands(d, 1, 1);
	d->in->space = (uint8_t)d->m.space;
	d->in->op[0] = target(d, &d->s->words[0], T_PRED, false);
	d->in->op[1] = source(d, &d->s->words[1], T_U64, false);
	d->in->fn = ptx_do_isspace;
}

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
		operands(d, 0, 0);
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
		decode(d);
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
			      char sentence[PTX_SENTENCE])
{
	struct decoder *d = ptx_alloc(module, sizeof(*d));
	struct ptx_kernel *k = ptx_alloc(module, sizeof(*k));
	size_t i, n = 0;

	d->module = module;
	d->kernel = k;
	d->sentence = sentence;
	if (setjmp(d->failed))
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
