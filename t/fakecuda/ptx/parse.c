/* SPDX-License-Identifier: MIT */
/*
 * The text of a module: directives, variables, functions, and statements in
 * words. Registers get numbers here, so that a name that is declared again in
 * an inner scope is another register.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

/* Memory of a module, freed with it. */
struct chunk {
	struct chunk *next;
	size_t used, size;
	max_align_t data[];
};

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

void *ptx_alloc(struct ptx_module *module, size_t bytes)
{
	struct chunk *chunk = module->arena;
	char *ret;

	bytes = (bytes + 15) & ~(size_t)15;
	if (!chunk || chunk->size - chunk->used < bytes) {
		size_t size = bytes > 65536 ? bytes : 65536;

		chunk = need(calloc(1, sizeof(*chunk) + size));
		chunk->size = size;
		chunk->next = module->arena;
		module->arena = chunk;
	}
	ret = (char *)chunk->data + chunk->used;
	chunk->used += bytes;
	return ret;
}

char *ptx_strdup(struct ptx_module *module, const char *text, size_t n)
{
	char *ret = ptx_alloc(module, n + 1);

	memcpy(ret, text, n);
	return ret;
}

/* The array has room for the next power of two of its elements. */
void *ptx_more(struct ptx_module *module, void *array, size_t n, size_t size)
{
	void *more;

	if (n && (n < 8 || n & (n - 1)))
		return array;
	more = ptx_alloc(module, (n < 8 ? 8 : 2 * n) * size);
	if (n)
		memcpy(more, array, n * size);
	return more;
}

/* Registers of a scope: a prefix and a count, or one name. */
struct names {
	const char *name;
	size_t length;
	unsigned count, first, scope;
	bool single;
};

struct parser {
	struct ptx_module *module;
	const char *at, *end;
	unsigned line;
	struct function *function;
	struct names *names;
	size_t n_names;
	unsigned scope, n_scopes;
	unsigned *parents;
	char *sentence;
	jmp_buf failed;
};

static void __attribute__((noreturn, format(printf, 2, 3)))
fail(struct parser *p, const char *fmt, ...)
{
	va_list args;
	int n = snprintf(p->sentence, PTX_SENTENCE, "line %u: ", p->line);

	va_start(args, fmt);
	vsnprintf(p->sentence + n, PTX_SENTENCE - (size_t)n, fmt, args);
	va_end(args);
	longjmp(p->failed, 1);
}

static void space(struct parser *p)
{
	while (p->at < p->end) {
		if (*p->at == '\n') {
			p->line++;
			p->at++;
		} else if (isspace((unsigned char)*p->at)) {
			p->at++;
		} else if (p->end - p->at > 1 && p->at[0] == '/' &&
			   p->at[1] == '/') {
			while (p->at < p->end && *p->at != '\n')
				p->at++;
		} else if (p->end - p->at > 1 && p->at[0] == '/' &&
			   p->at[1] == '*') {
			while (p->at + 1 < p->end &&
			       !(p->at[0] == '*' && p->at[1] == '/'))
				p->line += *p->at++ == '\n';
			p->at = p->at + 2 < p->end ? p->at + 2 : p->end;
		} else {
			return;
		}
	}
}

static char peek(struct parser *p)
{
	space(p);
	return p->at < p->end ? *p->at : '\0';
}

static bool take(struct parser *p, char c)
{
	if (peek(p) != c)
		return false;
	p->at++;
	return true;
}

static void expect(struct parser *p, char c)
{
	if (!take(p, c))
		fail(p, "'%c' was expected before '%.20s'", c, p->at);
}

/* A name, a directive or an operation; its length in @ret. */
static const char *token(struct parser *p, size_t *ret)
{
	const char *start;

	space(p);
	start = p->at;
	while (p->at < p->end &&
	       (isalnum((unsigned char)*p->at) || strchr("_$%.:", *p->at))) {
		/* .reg.b32 are two. */
		if (*p->at == '.' && *start == '.' && p->at > start)
			break;
		/* A label ends with one colon; ::cta has two. */
		if (*p->at == ':') {
			if (p->end - p->at < 2 || p->at[1] != ':')
				break;
			p->at++;
		}
		p->at++;
	}
	*ret = (size_t)(p->at - start);
	if (!*ret)
		fail(p, "'%.1s' was not expected", start < p->end ? start : "");
	return start;
}

static bool is(const char *token, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(token, word, n);
}

static const char *text(struct parser *p)
{
	size_t n;
	const char *t = token(p, &n);

	return ptx_strdup(p->module, t, n);
}

/* A number, as a word; false: there is none. */
static bool number(struct parser *p, struct word *ret)
{
	bool minus = false;
	char *end;

	space(p);
	if (p->at < p->end && *p->at == '-') {
		minus = true;
		p->at++;
		space(p);
	}
	if (p->at >= p->end || !isdigit((unsigned char)*p->at)) {
		if (minus)
			fail(p, "a number was expected after '-'");
		return false;
	}
	if (p->at[0] == '0' && (p->at[1] == 'f' || p->at[1] == 'F' ||
				p->at[1] == 'd' || p->at[1] == 'D')) {
		ret->kind = W_BITS;
		ret->bytes = tolower((unsigned char)p->at[1]) == 'f' ? 4 : 8;
		ret->value = (int64_t)strtoull(p->at + 2, &end, 16);
		if (end != p->at + 2 + 2 * ret->bytes)
			fail(p, "a number of %u digits was expected",
			     2 * ret->bytes);
		if (minus)
			ret->value ^= (int64_t)1 << (8 * ret->bytes - 1);
	} else {
		double real = strtod(p->at, &end);
		const char *dot = p->at;

		while (dot < end && isdigit((unsigned char)*dot))
			dot++;
		if (dot < end && (*dot == '.' || *dot == 'e' || *dot == 'E')) {
			ret->kind = W_REAL;
			real = minus ? -real : real;
			memcpy(&ret->value, &real, 8);
		} else {
			uint64_t v = p->at[0] == '0' && (p->at[1] == 'b' ||
							 p->at[1] == 'B')
					     ? strtoull(p->at + 2, &end, 2)
					     : strtoull(p->at, &end, 0);

			ret->kind = W_IMM;
			ret->value = (int64_t)(minus ? 0 - v : v);
			if (*end == 'U')
				end++;
		}
	}
	p->at = end;
	return true;
}

static uint64_t integer(struct parser *p)
{
	struct word w = { 0 };

	if (!number(p, &w) || w.kind != W_IMM)
		fail(p, "an integer was expected");
	return (uint64_t)w.value;
}

static bool within(const unsigned *parents, unsigned inner, unsigned outer)
{
	while (inner != outer) {
		if (!inner)
			return false;
		inner = parents[inner];
	}
	return true;
}

/* The number of the register @name in the current scope; 0: there is none. */
static unsigned reg_of(struct parser *p, const char *name, size_t n)
{
	size_t digits = n, i;
	unsigned index = 0;

	while (digits && isdigit((unsigned char)name[digits - 1]))
		digits--;
	if (n - digits > 9)
		return 0;
	for (i = digits; i < n; i++)
		index = index * 10 + (unsigned)(name[i] - '0');
	for (i = p->n_names; i--;) {
		const struct names *r = &p->names[i];

		if (!within(p->parents, p->scope, r->scope))
			continue;
		if (r->single ? is(name, n, r->name)
			      : r->length == digits && digits < n &&
					!memcmp(r->name, name, digits) &&
					index < r->count)
			return r->first + (r->single ? 0 : index);
	}
	return 0;
}

static void words(struct parser *p, struct word *ret, char close);

static void word(struct parser *p, struct word *ret)
{
	const char *t;
	size_t n;

	memset(ret, 0, sizeof(*ret));
	ret->scope = p->scope;
	if (take(p, '!')) {
		word(p, ret);
		ret->negated = true;
		return;
	}
	if (take(p, '{')) {
		ret->kind = W_VECTOR;
		words(p, ret, '}');
		return;
	}
	if (take(p, '(')) {
		ret->kind = W_LIST;
		words(p, ret, ')');
		return;
	}
	if (take(p, '[')) {
		struct word *base = ptx_alloc(p->module, sizeof(*base));

		ret->kind = W_ADDRESS;
		word(p, base);
		ret->items = base;
		ret->n = 1;
		while (peek(p) == '+' || peek(p) == '-')
			ret->value += p->at[0] == '+'
					      ? (p->at++, (int64_t)integer(p))
					      : (int64_t)integer(p);
		/* The coordinates of a tensor. */
		if (take(p, ',')) {
			ret->second = ptx_alloc(p->module, sizeof(*ret));
			word(p, ret->second);
		}
		expect(p, ']');
		return;
	}
	if (number(p, ret))
		return;
	t = token(p, &n);
	if (is(t, n, "_")) {
		ret->kind = W_SINK;
	} else {
		ret->reg = reg_of(p, t, n);
		ret->kind = ret->reg ? W_REG : W_NAME;
		ret->name = ptx_strdup(p->module, t, n);
	}
	while (ret->kind == W_NAME && (peek(p) == '+' || peek(p) == '-')) {
		if (*p->at == '+')
			p->at++;
		ret->value += (int64_t)integer(p);
	}
	if (take(p, '|')) {
		ret->second = ptx_alloc(p->module, sizeof(*ret));
		word(p, ret->second);
	}
}

/* Words with commas between them, up to @close. */
static void words(struct parser *p, struct word *ret, char close)
{
	struct word item;

	if (take(p, close))
		return;
	do {
		word(p, &item);
		ret->items =
			ptx_more(p->module, ret->items, ret->n, sizeof(item));
		ret->items[ret->n++] = item;
	} while (take(p, ','));
	expect(p, close);
}

static void skip_line(struct parser *p)
{
	while (p->at < p->end && *p->at != '\n')
		p->at++;
}

/* Skip a directive that nothing depends on, to its semicolon. */
static void skip_statement(struct parser *p)
{
	while (p->at < p->end && *p->at != ';')
		p->line += *p->at++ == '\n';
	expect(p, ';');
}

static enum ptx_space space_of(const char *t, size_t n)
{
	if (is(t, n, ".global"))
		return S_GLOBAL;
	if (is(t, n, ".shared"))
		return S_SHARED;
	if (is(t, n, ".local"))
		return S_LOCAL;
	if (is(t, n, ".const"))
		return S_CONST;
	if (is(t, n, ".param"))
		return S_PARAM;
	return S_GENERIC;
}

static void initial(struct parser *p, struct variable *v)
{
	unsigned each = ptx_type_bytes(v->type);
	bool braces = take(p, '{');
	uint64_t at = 0;
	struct word w;

	v->init = ptx_alloc(p->module, v->size ? v->size : 1);
	do {
		if (braces && peek(p) == '}')
			break;
		if (peek(p) == '{')
			fail(p,
			     "%s: initial values in more than one dimension are not supported",
			     v->name);
		memset(&w, 0, sizeof(w));
		if (!number(p, &w))
			fail(p,
			     "%s: only numbers are supported as initial values",
			     v->name);
		if (at + each > v->size)
			fail(p,
			     "%s: more initial values than its %llu bytes hold",
			     v->name, (unsigned long long)v->size);
		if (w.kind == W_REAL && v->type == T_F32) {
			double d;
			float f;

			memcpy(&d, &w.value, 8);
			f = (float)d;
			w.value = 0;
			memcpy(&w.value, &f, 4);
		}
		memcpy(v->init + at, &w.value, each);
		at += each;
	} while (braces && take(p, ','));
	if (braces)
		expect(p, '}');
}

/*
 * A variable after the word of its space: .align 4 .b8 name[16] = {...}. Its
 * end is left to the caller.
 */
static struct variable variable(struct parser *p, enum ptx_space where)
{
	struct variable v = { .space = where, .scope = p->scope };
	unsigned vector = 1;
	const char *t;
	size_t n;

	for (;;) {
		t = token(p, &n);
		if (is(t, n, ".align")) {
			v.align = integer(p);
		} else if (is(t, n, ".v2")) {
			vector = 2;
		} else if (is(t, n, ".v4")) {
			vector = 4;
		} else if (is(t, n, ".ptr") || is(t, n, ".const") ||
			   is(t, n, ".global") || is(t, n, ".shared") ||
			   is(t, n, ".local")) {
			/* What a parameter points to. */
		} else if (*t == '.') {
			v.type = ptx_type_of(t + 1, n - 1);
			if (!v.type || v.type == T_PRED)
				fail(p, "'%.*s' is no type of a variable",
				     (int)n, t);
		} else {
			break;
		}
	}
	if (!v.type)
		fail(p, "%.*s has no type", (int)n, t);
	v.name = ptx_strdup(p->module, t, n);
	v.size = ptx_type_bytes(v.type) * vector;
	if (v.align < v.size)
		v.align = v.align ? v.align : v.size;
	if (v.align & (v.align - 1) || v.align > 4096)
		fail(p, "%s: alignment %llu", v.name,
		     (unsigned long long)v.align);
	while (take(p, '[')) {
		if (take(p, ']')) {
			v.unsized = true;
			v.size = 0;
			continue;
		}
		if (__builtin_mul_overflow(v.size, integer(p), &v.size) ||
		    v.size > (uint64_t)1 << 32)
			fail(p, "%s is too large", v.name);
		expect(p, ']');
	}
	if (take(p, '='))
		initial(p, &v);
	return v;
}

static void add_variable(struct parser *p, struct variable **list, size_t *n,
			 const struct variable *v)
{
	*list = ptx_more(p->module, *list, *n, sizeof(*v));
	(*list)[(*n)++] = *v;
}

static unsigned reg_new(struct parser *p, enum ptx_type type, unsigned count)
{
	struct function *f = p->function;
	unsigned first = (unsigned)f->n_regs;

	while (count--) {
		f->regs = ptx_more(p->module, f->regs, f->n_regs,
				   sizeof(*f->regs));
		f->regs[f->n_regs++].type = type;
	}
	return first;
}

/* .reg .b32 %r<9>, a, b; */
static void registers(struct parser *p)
{
	struct names r = { .scope = p->scope };
	enum ptx_type type;
	const char *t;
	size_t n;

	t = token(p, &n);
	type = *t == '.' ? ptx_type_of(t + 1, n - 1) : T_NONE;
	if (!type)
		fail(p, "registers of type '%.*s' are not supported", (int)n,
		     t);
	do {
		t = token(p, &n);
		r.name = ptx_strdup(p->module, t, n);
		r.length = n;
		r.count = 1;
		r.single = !take(p, '<');
		if (!r.single) {
			uint64_t count = integer(p);

			if (count > 10000000 || p->function->n_regs > 10000000)
				fail(p, "%llu registers",
				     (unsigned long long)count);
			r.count = (unsigned)count;
			expect(p, '>');
		}
		r.first = reg_new(p, type, r.count);
		p->names = ptx_more(p->module, p->names, p->n_names, sizeof(r));
		p->names[p->n_names++] = r;
	} while (take(p, ','));
	expect(p, ';');
}

static void open_scope(struct parser *p)
{
	p->parents = ptx_more(p->module, p->parents, p->n_scopes,
			      sizeof(*p->parents));
	p->parents[p->n_scopes] = p->scope;
	p->scope = p->n_scopes++;
}

static void branch_targets(struct parser *p, const char *name)
{
	struct function *f = p->function;
	struct branches b = { .name = name, .scope = p->scope };

	do {
		b.labels =
			ptx_more(p->module, b.labels, b.n, sizeof(*b.labels));
		b.labels[b.n++] = text(p);
	} while (take(p, ','));
	expect(p, ';');
	f->tables = ptx_more(p->module, f->tables, f->n_tables, sizeof(b));
	f->tables[f->n_tables++] = b;
}

static void directive(struct parser *p, const char *t, size_t n)
{
	struct function *f = p->function;
	enum ptx_space where = space_of(t, n);
	struct variable v;

	if (is(t, n, ".reg")) {
		registers(p);
	} else if (is(t, n, ".loc") || is(t, n, ".file")) {
		skip_line(p);
	} else if (is(t, n, ".pragma")) {
		skip_statement(p);
	} else if (where != S_GENERIC && where != S_CONST) {
		do {
			v = variable(p, where == S_PARAM ? S_ARG : where);
			if (where == S_GLOBAL)
				add_variable(p, &p->module->globals,
					     &p->module->n_globals, &v);
			else
				add_variable(p, &f->variables, &f->n_variables,
					     &v);
		} while (take(p, ','));
		expect(p, ';');
	} else {
		fail(p, "the directive '%.*s' is not supported", (int)n, t);
	}
}

static void statement(struct parser *p)
{
	struct function *f = p->function;
	struct statement s = { 0 };
	struct word w;
	const char *t;
	size_t n;

	space(p);
	s.line = p->line;
	if (take(p, '@')) {
		s.guarded = true;
		s.guard_negated = take(p, '!');
		t = token(p, &n);
		s.guard = reg_of(p, t, n);
		if (!s.guard || f->regs[s.guard].type != T_PRED)
			fail(p, "'%.*s' is no predicate", (int)n, t);
	}
	t = token(p, &n);
	if (peek(p) == ':' && !s.guarded) {
		struct label l = { .name = ptx_strdup(p->module, t, n),
				   .scope = p->scope,
				   .at = f->n_body };

		expect(p, ':');
		if (peek(p) == '.') {
			const char *at = p->at;

			t = token(p, &n);
			if (is(t, n, ".branchtargets")) {
				branch_targets(p, l.name);
				return;
			}
			if (is(t, n, ".callprototype"))
				fail(p, "calls of pointers are not supported");
			p->at = at;
		}
		f->labels =
			ptx_more(p->module, f->labels, f->n_labels, sizeof(l));
		f->labels[f->n_labels++] = l;
		return;
	}
	if (*t == '.') {
		directive(p, t, n);
		return;
	}
	s.op = ptx_strdup(p->module, t, n);
	if (peek(p) != ';') {
		do {
			word(p, &w);
			s.words = ptx_more(p->module, s.words, s.n, sizeof(w));
			s.words[s.n++] = w;
		} while (take(p, ','));
	}
	expect(p, ';');
	f->body = ptx_more(p->module, f->body, f->n_body, sizeof(s));
	f->body[f->n_body++] = s;
}

static void body(struct parser *p)
{
	unsigned depth = 1;

	while (depth) {
		if (take(p, '{')) {
			open_scope(p);
			depth++;
		} else if (take(p, '}')) {
			p->scope = p->parents[p->scope];
			depth--;
		} else if (peek(p) == '\0') {
			fail(p, "%s has no end", p->function->name);
		} else {
			statement(p);
		}
	}
}

static void parameters(struct parser *p, struct variable **list, size_t *n,
		       enum ptx_space where)
{
	const char *t;
	size_t len;

	if (take(p, ')'))
		return;
	do {
		struct variable v;

		t = token(p, &len);
		if (!is(t, len, ".param"))
			fail(p, "parameters in '%.*s' are not supported",
			     (int)len, t);
		v = variable(p, where);
		add_variable(p, list, n, &v);
	} while (take(p, ','));
	expect(p, ')');
}

static struct function *function_named(struct ptx_module *module,
				       const char *name)
{
	size_t i;

	for (i = 0; i < module->n_functions; i++) {
		if (!strcmp(module->functions[i].name, name))
			return &module->functions[i];
	}
	return NULL;
}

/* .maxntid 256, 1, 1 and the like. */
static void tuning(struct parser *p, struct function *f)
{
	const char *t;
	size_t n;
	uint64_t v[3];
	unsigned i;

	while (peek(p) == '.') {
		t = token(p, &n);
		if (is(t, n, ".noreturn") || is(t, n, ".blocksareclusters"))
			continue;
		if (is(t, n, ".pragma")) {
			skip_statement(p);
			continue;
		}
		for (i = 0; i < 3; i++)
			v[i] = i && !take(p, ',') ? 1 : integer(p);
		if (is(t, n, ".maxntid")) {
			f->max_threads = (unsigned)(v[0] * v[1] * v[2]);
		} else if (is(t, n, ".reqntid")) {
			for (i = 0; i < 3; i++)
				f->required[i] = (unsigned)v[i];
		} else if (!is(t, n, ".minnctapersm") &&
			   !is(t, n, ".maxnreg") &&
			   !is(t, n, ".maxnctapersm")) {
			fail(p, "the directive '%.*s' is not supported", (int)n,
			     t);
		}
	}
}

static void function(struct parser *p, bool entry)
{
	struct ptx_module *module = p->module;
	struct function f = { .entry = entry }, *old;

	p->scope = 0;
	p->n_scopes = 0;
	p->parents = NULL;
	open_scope(p);
	p->n_names = 0;
	p->names = NULL;
	if (!entry && take(p, '('))
		parameters(p, &f.returns, &f.n_returns, S_ARG);
	f.line = p->line;
	f.name = text(p);
	if (take(p, '('))
		parameters(p, &f.params, &f.n_params, entry ? S_PARAM : S_ARG);
	tuning(p, &f);
	old = function_named(module, f.name);
	if (!old) {
		module->functions = ptx_more(module, module->functions,
					     module->n_functions, sizeof(f));
		old = &module->functions[module->n_functions++];
	} else if (old->defined) {
		if (take(p, ';'))
			return;
		fail(p, "%s is defined twice", f.name);
	}
	*old = f;
	if (take(p, ';'))
		return;
	p->function = old;
	reg_new(p, T_NONE, 1); /* number 0 is none */
	expect(p, '{');
	old->defined = true;
	body(p);
	old->parents = p->parents;
	old->n_scopes = p->n_scopes;
	p->function = NULL;
}

static void header(struct parser *p, const char *t, size_t n)
{
	struct ptx_module *module = p->module;
	const char *word;
	unsigned major, minor = 0;

	if (is(t, n, ".version")) {
		word = text(p);
		if (sscanf(word, "%u.%u", &major, &minor) < 1)
			fail(p, ".version %s", word);
		module->version = 10 * major + minor;
	} else if (is(t, n, ".target")) {
		do {
			word = text(p);
			if (!strncmp(word, "sm_", 3))
				module->target = (unsigned)atoi(word + 3);
		} while (take(p, ','));
	} else if (integer(p) != 64) {
		fail(p, ".address_size: only 64 is supported");
	}
}

static void global(struct parser *p, const char *t, size_t n)
{
	enum ptx_space where = space_of(t, n);
	struct variable v;

	if (where == S_GENERIC || where == S_PARAM || where == S_LOCAL)
		fail(p, "the directive '%.*s' is not supported", (int)n, t);
	do {
		v = variable(p, where);
		if (v.unsized && where != S_SHARED)
			fail(p,
			     "%s is defined elsewhere, which is not supported",
			     v.name);
		add_variable(p, &p->module->globals, &p->module->n_globals, &v);
	} while (take(p, ','));
	expect(p, ';');
}

static void whole(struct parser *p)
{
	const char *t;
	size_t n;

	while (peek(p) != '\0') {
		t = token(p, &n);
		if (is(t, n, ".version") || is(t, n, ".target") ||
		    is(t, n, ".address_size")) {
			header(p, t, n);
			continue;
		}
		if (!p->module->version || !p->module->target)
			fail(p, "a module begins with .version and .target");
		if (is(t, n, ".visible") || is(t, n, ".extern") ||
		    is(t, n, ".weak") || is(t, n, ".common"))
			continue;
		if (is(t, n, ".entry"))
			function(p, true);
		else if (is(t, n, ".func"))
			function(p, false);
		else if (is(t, n, ".file") || is(t, n, ".loc"))
			skip_line(p);
		else if (is(t, n, ".pragma") || is(t, n, ".alias"))
			skip_statement(p);
		else if (is(t, n, ".section"))
			fail(p, "debugging information is not supported");
		else
			global(p, t, n);
	}
	if (!p->module->version)
		fail(p, "the text is empty");
}

struct ptx_module *ptx_module_parse(const char *source, size_t length,
				    char sentence[PTX_SENTENCE])
{
	struct ptx_module *module = need(calloc(1, sizeof(*module)));
	struct parser *p = ptx_alloc(module, sizeof(*p));
	struct variable *v;
	/* A byte of 0 ends it, for strtod. */
	char *copy = ptx_strdup(module, source, length);

	*p = (struct parser){ .module = module,
			      .at = copy,
			      .end = copy + strlen(copy),
			      .line = 1,
			      .sentence = sentence };
	if (setjmp(p->failed)) {
		ptx_module_free(module);
		return NULL;
	}
	whole(p);
	for (size_t i = 0; i < module->n_globals; i++) {
		v = &module->globals[i];
		if (v->space == S_SHARED)
			continue;
		module->shown = ptx_more(module, module->shown, module->n_shown,
					 sizeof(*module->shown));
		module->shown[module->n_shown++] = (struct ptx_variable){
			.name = v->name,
			.size = v->size,
			.align = v->align,
			.init = v->init,
			.constant = v->space == S_CONST,
		};
	}
	return module;
}

void ptx_module_free(struct ptx_module *module)
{
	struct chunk *chunk = module->arena, *next;

	for (; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(module);
}
