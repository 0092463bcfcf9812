/* SPDX-License-Identifier: MIT */
/* The options of weir convert. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "args.h"
#include "convert.h"
#include "output.h"
#include "progress.h"
#include "slices.h"

static const char help[] =
	"usage: weir convert [OPTION]... IN OUT\n"
	"Write the tensors and metadata of the model IN to OUT: a file whose name\n"
	"ends in .safetensors or .gguf. A model of Hugging Face, with its config.json,\n"
	"becomes GGUF with its hyperparameters and tokenizer. If OUT is a folder, with\n"
	"a slash at its end, a GGUF model becomes one of Hugging Face there, and one\n"
	"of Hugging Face keeps the files beside its weights. Tensors are copied in\n"
	"chunks, so the memory that is needed does not grow with the model. If OUT\n"
	"cannot be written whole, it stays as it was.\n"
	"\n"
	"  --dtype TYPE     convert floating-point and quantised tensors to f32, f16,\n"
	"                   bf16, q8_0, q4_0, q4_k or q6_k; in GGUF files tensors of\n"
	"                   one dimension become f32\n"
	"  --shard SIZE     several files, each with at most SIZE bytes of tensors\n"
	"  --drop G         leave out tensors whose whole name matches the glob G\n"
	"  --rename P=R     replace the first match of the extended regular\n"
	"                   expression P in each name by R, in which \\0 is the match\n"
	"                   and \\1 to \\9 are its groups\n"
	"  --slice G:DIM    write only the part of --rank of tensors that match, in\n"
	"                   dimension DIM; 0 is the outermost\n"
	"  --slice G:DIM:START+N\n"
	"                   write only the N indices of DIM that begin at START\n"
	"  --rank R/N       which part --slice writes: R (from 0) of N equal parts\n"
	"  --drop-meta G    leave out metadata whose key matches the glob G\n"
	"  --set KEY=TYPE:VALUE\n"
	"                   set metadata; TYPE is string, bool, u8, i8, u16, i16, u32,\n"
	"                   i32, u64, i64, f32 or f64, or TYPE[] for an array, in\n"
	"                   whose VALUE commas separate the items\n"
	"  --force          replace OUT if it exists\n"
	"  --raw            convert the tensors and metadata as they are, even if a\n"
	"                   config.json makes the files a model of Hugging Face\n"
	"  --estimate       only print on stdout what would be written, and whether\n"
	"                   there is room for it; status 3 if not\n"
	"  --staging SIZE   most bytes of memory for chunks [64M]\n"
	"  --cache HOW      keep or drop: leave nothing of the files in the page cache\n"
	"                   [keep]\n"
	"  --lenient        accept all that the format's reference reader accepts\n"
	"  --json           print a JSON object on stdout instead of the report\n"
	"  --quiet          print no report\n"
	"  --progress-fd N  write the progress to descriptor N, as lines of JSON\n"
	"\n"
	"--drop, --rename, --slice, --drop-meta and --set may be repeated. All\n"
	"--rename apply, one after the other; --drop and --slice take the names\n"
	"before that, and of --slice the first that matches is used. Sizes may have\n"
	"the suffixes K, M, G and T.\n";

enum {
	CONVERT_DTYPE = ARGS_OPTION,
	CONVERT_SHARD,
	CONVERT_DROP,
	CONVERT_RENAME,
	CONVERT_SLICE,
	CONVERT_RANK,
	CONVERT_DROP_META,
	CONVERT_SET,
	CONVERT_FORCE,
	CONVERT_ESTIMATE,
	CONVERT_STAGING,
	CONVERT_CACHE,
	CONVERT_LENIENT,
	CONVERT_RAW,
	CONVERT_JSON,
	CONVERT_QUIET,
	CONVERT_PROGRESS_FD,
};

static const struct option options[] = {
	{ "dtype", required_argument, NULL, CONVERT_DTYPE },
	{ "shard", required_argument, NULL, CONVERT_SHARD },
	{ "drop", required_argument, NULL, CONVERT_DROP },
	{ "rename", required_argument, NULL, CONVERT_RENAME },
	{ "slice", required_argument, NULL, CONVERT_SLICE },
	{ "rank", required_argument, NULL, CONVERT_RANK },
	{ "drop-meta", required_argument, NULL, CONVERT_DROP_META },
	{ "set", required_argument, NULL, CONVERT_SET },
	{ "force", no_argument, NULL, CONVERT_FORCE },
	{ "estimate", no_argument, NULL, CONVERT_ESTIMATE },
	{ "staging", required_argument, NULL, CONVERT_STAGING },
	{ "cache", required_argument, NULL, CONVERT_CACHE },
	{ "lenient", no_argument, NULL, CONVERT_LENIENT },
	{ "raw", no_argument, NULL, CONVERT_RAW },
	{ "json", no_argument, NULL, CONVERT_JSON },
	{ "quiet", no_argument, NULL, CONVERT_QUIET },
	{ "progress-fd", required_argument, NULL, CONVERT_PROGRESS_FD },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* The limits of weir_open(3). */
#define STAGING_MIN (4u << 20)
#define STAGING_MAX (UINT64_C(64) << 30)

static int take_dtype(const struct args *args, struct convert_args *a)
{
	static const char *const names[] = { "f32",  "f16",  "bf16", "q8_0",
					     "q4_0", "q4_k", "q6_k", NULL };
	static const enum weir_dtype dtypes[] = {
		WEIR_DTYPE_F32,  WEIR_DTYPE_F16,  WEIR_DTYPE_BF16,
		WEIR_DTYPE_Q8_0, WEIR_DTYPE_Q4_0, WEIR_DTYPE_Q4_K,
		WEIR_DTYPE_Q6_K,
	};
	unsigned i = 0;
	int r = args_choice(args, "--dtype", names, &i);

	a->dtype = dtypes[i];
	return r;
}

/* Compile the pattern, and check the groups that the replacement names. */
static int compile(const struct args *args, struct convert_rename *rename)
{
	char why[200];
	int r = regcomp(&rename->regex, rename->pattern, REG_EXTENDED);

	if (r) {
		regerror(r, &rename->regex, why, sizeof(why));
		return fail_usage(args->command,
				  "--rename: the pattern '%s': %s",
				  rename->pattern, why);
	}
	for (const char *p = rename->to; *p; p++) {
		if (*p != '\\')
			continue;
		p++;
		if (*p == '\\' || (*p >= '0' && *p <= '9' &&
				   (size_t)(*p - '0') <= rename->regex.re_nsub))
			continue;
		regfree(&rename->regex);
		return fail_usage(
			args->command,
			"--rename: the replacement '%s' has a backslash before neither a backslash nor a group of the pattern",
			rename->to);
	}
	return 0;
}

static int take_rename(const struct args *args, struct convert_args *a)
{
	struct convert_rename *rename = &a->rename[a->n_renames];
	char *equals = strchr(optarg, '=');
	int r;

	if (!equals || equals == optarg)
		return fail_usage(args->command,
				  "--rename '%s' is not PATTERN=REPLACEMENT",
				  optarg);
	*equals = '\0';
	*rename =
		(struct convert_rename){ .pattern = optarg, .to = equals + 1 };
	r = compile(args, rename);
	a->n_renames += r == 0;
	return r;
}

static int take_slice(const struct args *args, struct convert_args *a)
{
	struct convert_slice *slice = &a->slice[a->n_slices++];
	int r = slice_take(args, &slice->slice);

	slice->glob = optarg;
	return r;
}

/* A type of --set, and the range of its integers. */
static const struct {
	const char *name;
	enum weir_value_type type;
	uint64_t max; /* of unsigned integers; of signed ones -max - 1 is least
		       */
} types[] = {
	{ "string", WEIR_VALUE_STRING, 0 },
	{ "bool", WEIR_VALUE_BOOL, 0 },
	{ "u8", WEIR_VALUE_U8, UINT8_MAX },
	{ "i8", WEIR_VALUE_I8, INT8_MAX },
	{ "u16", WEIR_VALUE_U16, UINT16_MAX },
	{ "i16", WEIR_VALUE_I16, INT16_MAX },
	{ "u32", WEIR_VALUE_U32, UINT32_MAX },
	{ "i32", WEIR_VALUE_I32, INT32_MAX },
	{ "u64", WEIR_VALUE_U64, UINT64_MAX },
	{ "i64", WEIR_VALUE_I64, INT64_MAX },
	{ "f32", WEIR_VALUE_F32, 0 },
	{ "f64", WEIR_VALUE_F64, 0 },
};

static bool parse_bool(const char *text, struct weir_value *v)
{
	v->u = !strcmp(text, "true");
	v->i = (int64_t)v->u;
	return v->u || !strcmp(text, "false");
}

static bool parse_real(const char *text, struct weir_value *v)
{
	char *end;

	v->f = strtod(text, &end);
	if (v->type == WEIR_VALUE_F32)
		v->f = (double)(float)v->f;
	return end != text && !*end && *text != ' ';
}

static bool parse_integer(const char *text, uint64_t max, struct weir_value *v)
{
	const bool is_signed = (v->type - WEIR_VALUE_U8) % 2;
	const char *digits = text + (is_signed && *text == '-');
	char *end;

	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	v->u = strtoull(digits, &end, 10);
	if (errno || *end || v->u > max + (digits != text))
		return false;
	if (digits != text)
		v->u = -v->u;
	v->i = (int64_t)v->u;
	return true;
}

static bool parse_value(size_t type, const char *text, struct weir_value *v)
{
	v->type = types[type].type;
	switch (v->type) {
	case WEIR_VALUE_STRING:
		v->str = text;
		v->len = strlen(text);
		return true;
	case WEIR_VALUE_BOOL:
		return parse_bool(text, v);
	case WEIR_VALUE_F32:
	case WEIR_VALUE_F64:
		return parse_real(text, v);
	default:
		return parse_integer(text, types[type].max, v);
	}
}

/* End the item at @text: the next begins after the result; NULL: the last. */
static char *end_item(char *text, bool is_text, bool *ret_wrong)
{
	char *to = text, c;

	while ((c = *text++) && c != ',') {
		if (c == '\\' && is_text) {
			c = *text++;
			if (c != ',' && c != '\\') {
				*ret_wrong = true;
				return NULL;
			}
		}
		*to++ = c;
	}
	*to = '\0';
	return c ? text : NULL;
}

/* Store an integer or a real number as item @i. */
static void store_number(void *items, size_t i, const struct weir_value *v)
{
	switch (v->type) {
	case WEIR_VALUE_BOOL:
	case WEIR_VALUE_U8:
	case WEIR_VALUE_I8:
		((uint8_t *)items)[i] = (uint8_t)v->u;
		break;
	case WEIR_VALUE_U16:
	case WEIR_VALUE_I16:
		((uint16_t *)items)[i] = (uint16_t)v->u;
		break;
	case WEIR_VALUE_U32:
	case WEIR_VALUE_I32:
		((uint32_t *)items)[i] = (uint32_t)v->u;
		break;
	case WEIR_VALUE_F32:
		((float *)items)[i] = (float)v->f;
		break;
	case WEIR_VALUE_F64:
		((double *)items)[i] = v->f;
		break;
	default:
		((uint64_t *)items)[i] = v->u;
	}
}

/* Parse the items of an array. @text is theirs, and is changed. */
static int take_items(const struct args *args, size_t type, char *text,
		      struct weir_value *array, void **ret_items)
{
	const bool is_text = types[type].type == WEIR_VALUE_STRING;
	struct weir_value *items = NULL, v;
	bool wrong = false;

	if (*text)
		items = calloc(strlen(text) + 1, sizeof(*items));
	if (*text && !items)
		return fail_memory();
	array->items = *ret_items = items;
	for (char *next; items && text; text = next) {
		next = end_item(text, is_text, &wrong);
		if (wrong)
			return fail_usage(
				args->command,
				"--set %s: item %zu, '%s', has a backslash before neither a comma nor a backslash",
				array->key, array->len + 1, text);
		v = (struct weir_value){ .size = sizeof(v) };
		if (!parse_value(type, text, &v))
			return fail_usage(
				args->command,
				"--set %s: item %zu, '%s', is no value of type %s",
				array->key, array->len + 1, text,
				types[type].name);
		if (is_text)
			items[array->len++] = v;
		else
			store_number(items, array->len++, &v);
	}
	return 0;
}

/* Parse "TYPE:VALUE"; the colon is at @colon. */
static int take_typed(const struct args *args, char *name, char *colon,
		      struct weir_value *v, void **ret_items)
{
	const bool array = colon - name > 2 && !memcmp(colon - 2, "[]", 2);

	*colon = '\0';
	if (array)
		colon[-2] = '\0';
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (strcmp(name, types[i].name) != 0)
			continue;
		v->item_type = array ? types[i].type : 0;
		if (array) {
			v->type = WEIR_VALUE_ARRAY;
			return take_items(args, i, colon + 1, v, ret_items);
		}
		if (parse_value(i, colon + 1, v))
			return 0;
		return fail_usage(args->command,
				  "--set %s: '%s' is no value of type %s",
				  v->key, colon + 1, name);
	}
	return fail_usage(
		args->command,
		"--set %s: '%s' is none of the types string, bool, u8 to i64, f32 and f64",
		v->key, name);
}

static int take_set(const struct args *args, struct convert_args *a)
{
	void **items = &a->set_items[a->n_sets];
	struct weir_value *v = &a->set[a->n_sets++];
	char *equals = strchr(optarg, '='), *colon;

	*v = (struct weir_value){ .size = sizeof(*v), .key = optarg };
	colon = equals ? strchr(equals, ':') : NULL;
	if (!colon || equals == optarg)
		return fail_usage(args->command,
				  "--set '%s' is not KEY=TYPE:VALUE", optarg);
	*equals = '\0';
	v->key_len = strlen(v->key);
	return take_typed(args, equals + 1, colon, v, items);
}

static int take_cache(const struct args *args, struct convert_args *a)
{
	static const char *const names[] = { "keep", "drop", NULL };
	unsigned i = 0;
	int r = args_choice(args, "--cache", names, &i);

	a->save_flags = i ? WEIR_SAVE_DROP : 0;
	return r;
}

static int take_flag(int c, struct convert_args *a)
{
	switch (c) {
	case CONVERT_FORCE:
		a->force = true;
		break;
	case CONVERT_ESTIMATE:
		a->estimate = true;
		break;
	case CONVERT_RAW:
		a->raw = true;
		break;
	case CONVERT_LENIENT:
		a->lenient = true;
		break;
	case CONVERT_JSON:
		a->json = true;
		break;
	default:
		a->quiet = true;
	}
	return 0;
}

static int take_option(const struct args *args, int c, void *to)
{
	struct convert_args *a = to;

	switch (c) {
	case CONVERT_DTYPE:
		return take_dtype(args, a);
	case CONVERT_SHARD:
		return args_size(args, "--shard", 1, INT64_MAX, &a->shard);
	case CONVERT_DROP:
		a->drop[a->n_drops++].glob = optarg;
		return 0;
	case CONVERT_RENAME:
		return take_rename(args, a);
	case CONVERT_SLICE:
		return take_slice(args, a);
	case CONVERT_RANK:
		return rank_take(args, &a->rank, &a->ranks);
	case CONVERT_DROP_META:
		a->drop_meta[a->n_drop_metas++].glob = optarg;
		return 0;
	case CONVERT_SET:
		return take_set(args, a);
	case CONVERT_STAGING:
		return args_size(args, "--staging", STAGING_MIN, STAGING_MAX,
				 &a->root.staging);
	case CONVERT_CACHE:
		return take_cache(args, a);
	case CONVERT_PROGRESS_FD:
		return progress_take_fd(args);
	}
	return take_flag(c, a);
}

/* The first slice by rank; NULL: none. */
static const struct convert_slice *slice_by_rank(const struct convert_args *a)
{
	for (size_t i = 0; i < a->n_slices; i++)
		if (a->slice[i].slice.n < 0)
			return &a->slice[i];
	return NULL;
}

static int check(const struct args *args, const struct convert_args *a)
{
	const struct convert_slice *ranked = slice_by_rank(a);

	if (ranked && !a->ranks)
		return fail_usage(args->command,
				  "--slice %s:%u needs --rank or a range",
				  ranked->glob, ranked->slice.dim);
	if (a->ranks && !ranked)
		return fail_usage(args->command,
				  "--rank is used only by --slice GLOB:DIM");
	return 0;
}

/* There cannot be more options than arguments. */
static int allocate(size_t n, struct convert_args *a)
{
	a->rename = calloc(n, sizeof(*a->rename));
	a->drop = calloc(n, sizeof(*a->drop));
	a->drop_meta = calloc(n, sizeof(*a->drop_meta));
	a->slice = calloc(n, sizeof(*a->slice));
	a->set = calloc(n, sizeof(*a->set));
	a->set_items = calloc(n, sizeof(*a->set_items));
	return a->rename && a->drop && a->drop_meta && a->slice && a->set &&
			       a->set_items
		       ? 0
		       : fail_memory();
}

int convert_args_parse(int argc, char **argv, struct convert_args *ret_args)
{
	static const char *const operands[] = { "IN", "OUT" };
	const struct args args = { "convert", help, options,        argc,
				   argv,      NULL, &ret_args->root };
	const struct weir_opts root = WEIR_OPTS_INIT;
	struct convert_args *a = ret_args;
	int r;

	*a = (struct convert_args){ .root = root };
	r = allocate((size_t)argc, a);
	if (r == 0)
		r = args_options(&args, take_option, a);
	if (r == 0)
		r = check(&args, a);
	if (r == 0)
		r = args_operands(&args, 2, operands);
	if (r)
		return r;
	a->in = argv[optind];
	a->out = argv[optind + 1];
	if (!a->force)
		a->save_flags |= WEIR_SAVE_NEW;
	return 0;
}

void convert_args_free(struct convert_args *args)
{
	for (size_t i = 0; i < args->n_renames; i++)
		regfree(&args->rename[i].regex);
	free(args->rename);
	free(args->drop);
	free(args->drop_meta);
	free(args->slice);
	for (size_t i = 0; i < args->n_sets; i++)
		free(args->set_items[i]);
	free(args->set_items);
	free(args->set);
}
