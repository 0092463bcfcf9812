/* SPDX-License-Identifier: MIT */
/* The options of weir load; first those whose values begin with a glob. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "args.h"
#include "load.h"
#include "output.h"
#include "slices.h"

/*
 * Split GLOB=NAME at the first "="; NAME may have parameters with others.
 */
static int take_place(const struct args *args, struct load_rule *rule)
{
	char *name = strchr(optarg, '='), *size;

	if (!name || name == optarg || !name[1] || name[1] == '@')
		return fail_usage("load", "--place %s is not GLOB=NAME[@SIZE]",
				  optarg);
	*name++ = '\0';
	rule->memory = name;
	size = strrchr(name, '@');
	if (!size)
		return 0;
	*size++ = '\0';
	optarg = size;
	return args_size(args, "the SIZE of --place", 1, INT64_MAX,
			 &rule->capacity);
}

/* Parse optarg as the value of a rule. Returns 0 or EXIT_USAGE. */
static int load_rule_take(const struct args *args, struct load_args *a,
			  enum load_rules_kind kind)
{
	struct load_rules *rules = &a->rules[kind];
	struct load_rule *rule = &rules->rule[rules->n++];

	rule->glob = optarg;
	if (kind == LOAD_RULE_PLACE)
		return take_place(args, rule);
	return kind == LOAD_RULE_SLICE ? slice_take(args, &rule->slice) : 0;
}

/* True if a slice needs --rank. */
static const struct load_rule *slice_by_rank(const struct load_rules *slices)
{
	for (size_t i = 0; i < slices->n; i++)
		if (slices->rule[i].slice.n < 0)
			return &slices->rule[i];
	return NULL;
}

/*
 * Check, after all options, that the rules fit each other. Returns 0 or
 * EXIT_USAGE.
 */
static int load_rules_check(const struct load_args *a)
{
	const struct load_rule *ranked =
		slice_by_rank(&a->rules[LOAD_RULE_SLICE]);

	if (ranked && !a->ranks)
		return fail_usage("load",
				  "--slice %s:%u needs --rank or a range",
				  ranked->glob, ranked->slice.dim);
	if (a->ranks && !ranked)
		return fail_usage("load",
				  "--rank is used only by --slice GLOB:DIM");
	if (load_has_capacity(a) &&
	    (a->rules[LOAD_RULE_ONLY].n || a->rules[LOAD_RULE_SLICE].n ||
	     a->rules[LOAD_RULE_FIRST].n))
		return fail_usage(
			"load",
			"--place with a SIZE does not work with --only, --slice or --first");
	return 0;
}

bool load_has_capacity(const struct load_args *a)
{
	const struct load_rules *places = &a->rules[LOAD_RULE_PLACE];

	for (size_t i = 0; i < places->n; i++)
		if (places->rule[i].capacity)
			return true;
	return false;
}

static const char help[] =
	"usage: weir load [OPTION]... MODEL\n"
	"Load a model (a file, an index of shards, a directory, or the URL of one)\n"
	"into memory, and report on stderr how fast and by which ways. The time is\n"
	"measured from before the model is opened until its last tensor is usable.\n"
	"Defaults are in brackets.\n"
	"\n"
	"  --device NAME    load into the memory of this device [CPU];\n"
	"                   NAME:KEY=VALUE,... sets parameters\n"
	"  --place G=NAME[@SIZE]\n"
	"                   load tensors whose whole name matches the glob G into the\n"
	"                   memory NAME: a device, or a kind that weir devices lists;\n"
	"                   with SIZE: only as many whole layers as fit into that many\n"
	"                   bytes\n"
	"  --only G         load only tensors that match\n"
	"  --slice G:DIM    load only the part of --rank of tensors that match, in\n"
	"                   dimension DIM; 0 is the outermost\n"
	"  --slice G:DIM:START+N\n"
	"                   load only the N indices of DIM that begin at START\n"
	"  --rank R/N       which part --slice loads: R (from 0) of N equal parts\n"
	"  --first G        read tensors that match before the others\n"
	"  --dtype TYPE     convert floating-point and quantised tensors to f32, f16,\n"
	"                   bf16, q8_0, q4_0, q4_k or q6_k\n"
	"  --align N        align the tensors in memory to N bytes\n"
	"  --estimate       only print on stdout how much memory of each kind the\n"
	"                   load needs, and whether it fits; status 3 if not\n"
	"  --memory KIND    plain, huge, locked, device, pinned, hbm or far [device;\n"
	"                   for the CPU this is huge]\n"
	"  --hugetlb[=1G]   use huge pages that the system has reserved, of 2 MiB or\n"
	"                   1 GiB; if there are too few, other pages are used\n"
	"  --budget SIZE    most bytes of host memory, slots of the I/O engine included\n"
	"  --way WAY        auto, map, buffered or direct [auto]; map uses the\n"
	"                   file's pages, so the file must not change\n"
	"  --cache WHAT     keep or drop what the page cache has of the files when\n"
	"                   the load has ended [keep]\n"
	"  --io METHOD      auto, uring or sync [auto]\n"
	"  --depth N        chunks in flight for each I/O thread\n"
	"  --chunk SIZE     bytes of a chunk, a multiple of 4K [4M]\n"
	"  --reactors N     number of I/O threads with a ring of their own\n"
	"  --lenient        accept all that the format's reference reader accepts\n"
	"  --digest[=KIND]  print a digest of each tensor on stdout: xxh3 (as\n"
	"                   `xxhsum -H2`) or sha256 [xxh3]\n"
	"  --verify FILE    check each tensor as it is read against FILE, a manifest\n"
	"                   of weir digest; not with slices\n"
	"  --repeat N       load N times into the same memory\n"
	"  --fresh          with --repeat: load into new memory each time\n"
	"  --json           print a JSON object on stdout instead of the report\n"
	"  --quiet          print no report\n"
	"  --trace FILE     write a trace for Perfetto\n"
	"  --memory-map FILE\n"
	"                   draw the buffers and their tensors as SVG\n"
	"\n"
	"Options with a glob G may be repeated; the first that matches a tensor\n"
	"is used. Sizes may have the suffixes K, M, G and T.\n";

enum {
	LOAD_DEVICE = ARGS_OPTION,
	LOAD_MEMORY,
	LOAD_HUGETLB,
	LOAD_BUDGET,
	LOAD_WAY,
	LOAD_CACHE,
	LOAD_IO,
	LOAD_DEPTH,
	LOAD_CHUNK,
	LOAD_REACTORS,
	LOAD_ONLY,
	LOAD_PLACE,
	LOAD_SLICE,
	LOAD_RANK,
	LOAD_FIRST,
	LOAD_DTYPE,
	LOAD_ALIGN,
	LOAD_ESTIMATE,
	LOAD_LENIENT,
	LOAD_DIGEST,
	LOAD_VERIFY,
	LOAD_REPEAT,
	LOAD_FRESH,
	LOAD_JSON,
	LOAD_QUIET,
	LOAD_TRACE,
	LOAD_MEMORY_MAP,
};

static const struct option options[] = {
	{ "device", required_argument, NULL, LOAD_DEVICE },
	{ "memory", required_argument, NULL, LOAD_MEMORY },
	{ "hugetlb", optional_argument, NULL, LOAD_HUGETLB },
	{ "budget", required_argument, NULL, LOAD_BUDGET },
	{ "way", required_argument, NULL, LOAD_WAY },
	{ "cache", required_argument, NULL, LOAD_CACHE },
	{ "io", required_argument, NULL, LOAD_IO },
	{ "depth", required_argument, NULL, LOAD_DEPTH },
	{ "chunk", required_argument, NULL, LOAD_CHUNK },
	{ "reactors", required_argument, NULL, LOAD_REACTORS },
	{ "only", required_argument, NULL, LOAD_ONLY },
	{ "place", required_argument, NULL, LOAD_PLACE },
	{ "slice", required_argument, NULL, LOAD_SLICE },
	{ "rank", required_argument, NULL, LOAD_RANK },
	{ "first", required_argument, NULL, LOAD_FIRST },
	{ "dtype", required_argument, NULL, LOAD_DTYPE },
	{ "align", required_argument, NULL, LOAD_ALIGN },
	{ "estimate", no_argument, NULL, LOAD_ESTIMATE },
	{ "lenient", no_argument, NULL, LOAD_LENIENT },
	{ "digest", optional_argument, NULL, LOAD_DIGEST },
	{ "verify", required_argument, NULL, LOAD_VERIFY },
	{ "repeat", required_argument, NULL, LOAD_REPEAT },
	{ "fresh", no_argument, NULL, LOAD_FRESH },
	{ "json", no_argument, NULL, LOAD_JSON },
	{ "quiet", no_argument, NULL, LOAD_QUIET },
	{ "trace", required_argument, NULL, LOAD_TRACE },
	{ "memory-map", required_argument, NULL, LOAD_MEMORY_MAP },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

enum {
	ALIGN_MAX = 4096,
	REPEAT_MAX = 1000000,
	/* The limits of weir_open(3). */
	DEPTH_MAX = 1024,
	REACTORS_MAX = 16,
	CHUNK_MIN = 64 << 10,
	CHUNK_MAX = 256 << 20
};

static int take_memory(const struct args *args, struct load_args *a)
{
	static const enum weir_mem kinds[] = { WEIR_MEM_PLAIN,  WEIR_MEM_HUGE,
					       WEIR_MEM_LOCKED, WEIR_MEM_DEVICE,
					       WEIR_MEM_PINNED, WEIR_MEM_HBM,
					       WEIR_MEM_FAR };
	static const char *const names[] = { "plain",  "huge",   "locked",
					     "device", "pinned", "hbm",
					     "far",    NULL };
	unsigned i = 0;
	int r = args_choice(args, "--memory", names, &i);

	a->memory = kinds[i];
	return r;
}

static int take_hugetlb(const struct args *args, struct load_args *a)
{
	static const char *const names[] = { "2M", "1G", NULL };
	unsigned i = 0;
	int r = optarg ? args_choice(args, "--hugetlb", names, &i) : 0;

	a->buf_flags = i ? WEIR_BUF_HUGETLB_1G : WEIR_BUF_HUGETLB;
	return r;
}

static int take_way(const struct args *args, struct load_args *a)
{
	static const char *const names[] = { "auto", "map", "buffered",
					     "direct", NULL };
	unsigned i = 0;
	int r = args_choice(args, "--way", names, &i);

	a->way = (enum weir_way)i;
	return r;
}

static int take_cache(const struct args *args, struct load_args *a)
{
	static const char *const names[] = { "keep", "drop", NULL };
	unsigned i = 0;
	int r = args_choice(args, "--cache", names, &i);

	a->drop = i;
	return r;
}

static int take_io(const struct args *args, struct load_args *a)
{
	static const char *const names[] = { "auto", "uring", "sync", NULL };

	return args_choice(args, "--io", names, &a->root.io);
}

static int take_digest(const struct args *args, struct load_args *a)
{
	static const char *const names[] = { "xxh3", "sha256", NULL };
	unsigned i = 0;
	int r = optarg ? args_choice(args, "--digest", names, &i) : 0;

	a->digest = (int)i;
	return r;
}

static int take_number(const struct args *args, const char *option,
		       uint32_t max, uint32_t *ret_number)
{
	uint64_t number = 0;
	int r = args_number(args, option, 1, max, &number);

	*ret_number = (uint32_t)number;
	return r;
}

static int take_dtype(const struct args *args, struct load_args *a)
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

static int take_align(const struct args *args, struct load_args *a)
{
	int r = args_size(args, "--align", 1, ALIGN_MAX, &a->align);

	if (r == 0 && (a->align & (a->align - 1)))
		r = fail_usage("load", "--align is '%s', not a power of two",
			       optarg);
	return r;
}

static int take_out(const struct args *args, int c, struct load_args *a)
{
	if (c == LOAD_TRACE)
		a->trace = optarg;
	else
		a->map = optarg;
	return args_out(args, c == LOAD_TRACE ? "--trace" : "--memory-map",
			optarg);
}

static int take_flag(int c, struct load_args *a)
{
	switch (c) {
	case LOAD_LENIENT:
		a->lenient = true;
		break;
	case LOAD_FRESH:
		a->fresh = true;
		break;
	case LOAD_JSON:
		a->json = true;
		break;
	case LOAD_QUIET:
		a->quiet = true;
		break;
	case LOAD_DEVICE:
		a->device = optarg;
		break;
	case LOAD_VERIFY:
		a->verify = optarg;
		break;
	case LOAD_ESTIMATE:
		a->estimate = true;
		break;
	}
	return 0;
}

static int take_option(const struct args *args, int c, void *to)
{
	struct load_args *a = to;

	switch (c) {
	case LOAD_MEMORY:
		return take_memory(args, a);
	case LOAD_HUGETLB:
		return take_hugetlb(args, a);
	case LOAD_BUDGET:
		return args_size(args, "--budget", 1, INT64_MAX,
				 &a->root.budget);
	case LOAD_WAY:
		return take_way(args, a);
	case LOAD_CACHE:
		return take_cache(args, a);
	case LOAD_IO:
		return take_io(args, a);
	case LOAD_DEPTH:
		return take_number(args, "--depth", DEPTH_MAX, &a->root.depth);
	case LOAD_CHUNK:
		return args_size(args, "--chunk", CHUNK_MIN, CHUNK_MAX,
				 &a->root.chunk);
	case LOAD_REACTORS:
		return take_number(args, "--reactors", REACTORS_MAX,
				   &a->root.reactors);
	case LOAD_DIGEST:
		return take_digest(args, a);
	case LOAD_ONLY:
		return load_rule_take(args, a, LOAD_RULE_ONLY);
	case LOAD_PLACE:
		return load_rule_take(args, a, LOAD_RULE_PLACE);
	case LOAD_SLICE:
		return load_rule_take(args, a, LOAD_RULE_SLICE);
	case LOAD_FIRST:
		return load_rule_take(args, a, LOAD_RULE_FIRST);
	case LOAD_RANK:
		return rank_take(args, &a->rank, &a->ranks);
	case LOAD_DTYPE:
		return take_dtype(args, a);
	case LOAD_ALIGN:
		return take_align(args, a);
	case LOAD_TRACE:
	case LOAD_MEMORY_MAP:
		return take_out(args, c, a);
	case LOAD_REPEAT:
		return args_number(args, "--repeat", 1, REPEAT_MAX, &a->repeat);
	}
	return take_flag(c, a);
}

/* An option that a mapping cannot have; NULL: none. */
static const char *needs_copy(const struct load_args *a)
{
	return a->dtype != WEIR_DTYPE_NONE ? "--dtype"
	       : a->align                  ? "--align"
	       : a->buf_flags              ? "--hugetlb"
					   : NULL;
}

/* An option that an estimate would ignore; NULL: none. */
static const char *needs_load(const struct load_args *a)
{
	return a->map           ? "--memory-map"
	       : a->trace       ? "--trace"
	       : a->digest >= 0 ? "--digest"
	       : a->verify      ? "--verify"
	       : a->repeat      ? "--repeat"
				: NULL;
}

/* Options that exclude each other, or need another one. */
static int check(const struct load_args *a)
{
	if (a->way == WEIR_WAY_MAP && needs_copy(a))
		return fail_usage("load", "%s needs a copy: not with --way map",
				  needs_copy(a));
	if (a->estimate && needs_load(a))
		return fail_usage("load",
				  "%s needs a load: not with --estimate",
				  needs_load(a));
	if (a->fresh && !a->repeat)
		return fail_usage("load", "--fresh works only with --repeat");
	if (a->buf_flags && a->memory == WEIR_MEM_PLAIN)
		return fail_usage(
			"load",
			"--hugetlb needs huge pages: not with --memory plain");
	if (a->verify && (a->rules[LOAD_RULE_SLICE].n || a->ranks))
		return fail_usage(
			"load",
			"--verify needs whole tensors: not with --slice or --rank");
	if (outfile_same(a->map, a->trace))
		return fail_usage("load",
				  "--memory-map and --trace are one file: '%s'",
				  a->map);
	return load_rules_check(a);
}

static int parse(const struct args *args, struct load_args *a)
{
	static const char *const operands[] = { "MODEL" };
	int r;

	/* There cannot be more of them than arguments. */
	for (int i = 0; i < LOAD_RULES; i++) {
		a->rules[i].rule =
			calloc((size_t)args->argc, sizeof(struct load_rule));
		if (!a->rules[i].rule)
			return fail_memory();
	}
	r = args_options(args, take_option, a);
	if (r)
		return r;
	r = check(a);
	if (!a->repeat)
		a->repeat = 1;
	if (r == 0)
		r = args_operands(args, 1, operands);
	a->path = args->argv[optind];
	return r;
}

int load_args_parse(int argc, char **argv, struct load_args *ret_args)
{
	const struct args args = { "load", help, options,        argc,
				   argv,   NULL, &ret_args->root };
	struct weir_opts root = WEIR_OPTS_INIT;

	*ret_args = (struct load_args){
		.device = "CPU",
		.root = root,
		.memory = WEIR_MEM_DEVICE,
		.digest = -1,
	};
	return parse(&args, ret_args);
}

void load_args_free(struct load_args *args)
{
	for (int i = 0; i < LOAD_RULES; i++)
		free(args->rules[i].rule);
}
