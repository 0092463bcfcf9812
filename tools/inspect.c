/* SPDX-License-Identifier: MIT */
/* weir inspect: the tensors of a model, its metadata and totals. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <weir.h>
#include "args.h"
#include "command.h"
#include "output.h"
#include "text.h"

/* Limits of the text output; JSON has everything. */
enum {
	VALUE_BYTES = 400,
	ITEM_BYTES = 40,
	ITEMS = 8
};

static const char *type_name(uint32_t type)
{
	static const char *const names[] = {
		[WEIR_VALUE_STRING] = "str", [WEIR_VALUE_BOOL] = "bool",
		[WEIR_VALUE_U8] = "u8",      [WEIR_VALUE_I8] = "i8",
		[WEIR_VALUE_U16] = "u16",    [WEIR_VALUE_I16] = "i16",
		[WEIR_VALUE_U32] = "u32",    [WEIR_VALUE_I32] = "i32",
		[WEIR_VALUE_U64] = "u64",    [WEIR_VALUE_I64] = "i64",
		[WEIR_VALUE_F32] = "f32",    [WEIR_VALUE_F64] = "f64",
		[WEIR_VALUE_ARRAY] = "array"
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

static bool is_float(uint32_t type)
{
	return type == WEIR_VALUE_F32 || type == WEIR_VALUE_F64;
}

/* With as many digits as the value needs. */
static void put_float(const struct weir_value *v, const char *quote)
{
	int digits = v->type == WEIR_VALUE_F32 ? 6 : 15;
	int most = v->type == WEIR_VALUE_F32 ? 9 : 17;
	char text[40];

	if (!isfinite(v->f)) {
		printf("%s%s%s", quote,
		       isnan(v->f) ? "NaN"
		       : v->f < 0  ? "-Infinity"
				   : "Infinity",
		       quote);
		return;
	}
	do {
		double back;

		snprintf(text, sizeof(text), "%.*g", digits, v->f);
		back = v->type == WEIR_VALUE_F32 ? (double)strtof(text, NULL)
						 : strtod(text, NULL);
		if (back == v->f)
			break;
	} while (++digits <= most);
	fputs(text, stdout);
}

/* @quote: around names of numbers that JSON lacks. */
static void put_number(const struct weir_value *v, const char *quote)
{
	if (is_float(v->type))
		put_float(v, quote);
	else if (v->type == WEIR_VALUE_BOOL)
		fputs(v->u ? "true" : "false", stdout);
	else if (v->type == WEIR_VALUE_U64)
		printf("%" PRIu64, v->u);
	else
		printf("%" PRId64, v->i);
}

static int item_at(const struct weir_model *model,
		   const struct weir_value *array, size_t i,
		   struct weir_value *ret_item)
{
	ret_item->size = sizeof(*ret_item);
	return weir_model_meta_item(model, array, i, ret_item);
}

static void put_text(const struct weir_model *model, const struct weir_value *v,
		     size_t max)
{
	struct weir_value item;

	if (v->type == WEIR_VALUE_STRING) {
		text_put(stdout, v->str, v->len, max);
	} else if (v->type == WEIR_VALUE_ARRAY) {
		putchar('[');
		for (size_t i = 0; i < v->len && i < ITEMS; i++) {
			fputs(i ? ", " : "", stdout);
			if (item_at(model, v, i, &item) >= 0)
				put_text(model, &item, ITEM_BYTES);
		}
		fputs(v->len > ITEMS ? ", ...]" : "]", stdout);
	} else {
		put_number(v, "");
	}
}

/* A line for each key. Long strings and arrays are cut. */
static void metadata_show(const struct weir_model *model)
{
	struct weir_value v = { .size = sizeof(v) };

	for (size_t i = 0; weir_model_meta_at(model, i, &v) >= 0; i++) {
		fputs(i ? "  " : "metadata:\n  ", stdout);
		text_put(stdout, v.key, v.key_len, VALUE_BYTES);
		fputs(" = ", stdout);
		put_text(model, &v, VALUE_BYTES);
		if (v.type == WEIR_VALUE_STRING && v.len > VALUE_BYTES)
			printf(" (%zu bytes)", v.len);
		if (v.type == WEIR_VALUE_ARRAY)
			printf(" (%zu %s)", v.len, type_name(v.item_type));
		putchar('\n');
	}
}

static void put_value_json(const struct weir_model *model,
			   const struct weir_value *v)
{
	struct weir_value item;

	if (v->type == WEIR_VALUE_STRING) {
		out_json(text_json(v->str, v->len));
	} else if (v->type == WEIR_VALUE_ARRAY) {
		putchar('[');
		for (size_t i = 0; i < v->len; i++) {
			fputs(i ? ", " : "", stdout);
			if (item_at(model, v, i, &item) >= 0)
				put_value_json(model, &item);
		}
		putchar(']');
	} else {
		put_number(v, "\"");
	}
}

static void put_type(const struct weir_model *model, const struct weir_value *v)
{
	(void)model;
	if (v->type == WEIR_VALUE_ARRAY)
		printf("\"[%s]\"", type_name(v->item_type));
	else
		printf("\"%s\"", type_name(v->type));
}

static void put_members(const struct weir_model *model,
			void (*put)(const struct weir_model *model,
				    const struct weir_value *v))
{
	struct weir_value v = { .size = sizeof(v) };

	for (size_t i = 0; weir_model_meta_at(model, i, &v) >= 0; i++) {
		fputs(i ? ",\n  " : "\n  ", stdout);
		out_json(text_json(v.key, v.key_len));
		fputs(": ", stdout);
		put(model, &v);
	}
}

/*
 * Two members of a JSON object: "metadata" with all values, and
 * "metadata_types" with "u32", "[str]" and the like. Numbers keep all digits;
 * those that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
 */
static void metadata_put_json(const struct weir_model *model)
{
	fputs("\"metadata\": {", stdout);
	put_members(model, put_value_json);
	fputs("\n},\n\"metadata_types\": {", stdout);
	put_members(model, put_type);
	fputs("\n}", stdout);
}

static const char help[] =
	"usage: weir inspect [OPTION]... MODEL\n"
	"List the tensors of a model, its metadata and totals. MODEL is a file,\n"
	"an index of shards, a directory, or the URL of one. Only headers are\n"
	"read.\n"
	"\n"
	"  --json      print a JSON object on stdout; it has whole values\n"
	"  --metadata  print the metadata only\n"
	"  --lenient   accept all that the format's reference reader accepts\n";

enum {
	INSPECT_JSON = ARGS_OPTION,
	INSPECT_METADATA,
	INSPECT_LENIENT
};

static const struct option options[] = {
	{ "json", no_argument, NULL, INSPECT_JSON },
	{ "metadata", no_argument, NULL, INSPECT_METADATA },
	{ "lenient", no_argument, NULL, INSPECT_LENIENT },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Limits of the text output; JSON has everything. */
enum {
	NAME_COLUMNS = 64,
	WARNING_BYTES = 160,
	WARNINGS = 4
};

struct inspect {
	const char *path;
	bool json, metadata, lenient;
	struct weir_model *model;
	struct weir_model_info info;
	char warnings[WARNINGS][WARNING_BYTES];
	unsigned n_warnings;
};

static int take_option(const struct args *args, int c, void *to)
{
	struct inspect *in = to;

	(void)args;
	if (c == INSPECT_JSON)
		in->json = true;
	else if (c == INSPECT_METADATA)
		in->metadata = true;
	else
		in->lenient = true;
	return 0;
}

static int parse_args(const struct args *args, struct inspect *in)
{
	static const char *const operands[] = { "MODEL" };
	int r = args_options(args, take_option, in);

	if (r)
		return r;
	r = args_operands(args, 1, operands);
	in->path = args->argv[optind];
	return r;
}

static struct weir_file_info file_info(const struct inspect *in, unsigned shard)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file = weir_model_file(in->model, shard);

	if (!file || weir_file_info(file, &info) < 0)
		info.path = "?";
	return info;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *dtype_name(uint32_t dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	return weir_dtype_info((enum weir_dtype)dtype, &info) < 0 ? "?"
								  : info.name;
}

static int entry_at(const struct inspect *in, size_t i, struct weir_entry *e)
{
	e->size = sizeof(*e);
	return weir_model_tensor(in->model, i, e);
}

/* The last ones are dropped if there are too many. */
PRINTF_LIKE(2)
static void add_warning(struct inspect *in, const char *fmt, ...)
{
	va_list ap;

	if (in->n_warnings == WARNINGS)
		return;
	va_start(ap, fmt);
	vsnprintf(in->warnings[in->n_warnings++], WARNING_BYTES, fmt, ap);
	va_end(ap);
}

/* @last is the last tensor of its file. Padding may follow it. */
static void find_bytes_after(struct inspect *in, const struct weir_entry *last,
			     uint64_t align)
{
	struct weir_file_info file = file_info(in, last->shard);
	uint64_t end = last->offset + last->bytes;
	char bytes[COUNT_TEXT];

	end = (end + align - 1) / align * align;
	if (file.bytes > end)
		add_warning(in, "%s follow%s the last tensor of %s",
			    count_text(file.bytes - end, "byte", bytes),
			    file.bytes - end == 1 ? "s" : "",
			    base_name(file.path));
}

/* Defects of a GGUF file that most readers accept. */
static void find_gguf_warnings(struct inspect *in)
{
	struct weir_value v = { .size = sizeof(v) };
	struct weir_entry e, last = { .shard = UINT32_MAX };
	uint64_t align = 32;

	if (weir_model_meta(in->model, "general.alignment", &v) >= 0)
		align = v.u;
	if (align % 8)
		add_warning(in,
			    "the alignment is %llu; the format requires a "
			    "multiple of 8",
			    (unsigned long long)align);
	for (size_t i = 0; entry_at(in, i, &e) >= 0; i++) {
		if (i && e.shard != last.shard)
			find_bytes_after(in, &last, align);
		last = e;
	}
	if (last.shard != UINT32_MAX)
		find_bytes_after(in, &last, align);
}

/* Defects of the model that do not prevent loading it. */
static void find_warnings(struct inspect *in)
{
	const struct weir_model_info *info = &in->info;
	char count[COUNT_TEXT], shards[COUNT_TEXT];

	if (info->total_size && info->total_size != info->bytes)
		add_warning(in,
			    "the index has a total_size of %llu, the tensors "
			    "have %s",
			    (unsigned long long)info->total_size,
			    count_text(info->bytes, "byte", count));
	if (info->unlisted)
		add_warning(
			in,
			"%s of %s %s not in the index and therefore not in the "
			"model",
			count_text(info->unlisted, "tensor", count),
			count_text(info->shards, "shard", shards),
			info->unlisted == 1 ? "is" : "are");
	if (!strcmp(info->format, "GGUF"))
		find_gguf_warnings(in);
}

static json_t *shape_json(const struct weir_entry *e)
{
	json_t *shape = json_array();

	for (uint32_t i = 0; i < e->ndim; i++)
		json_array_append_new(shape, json_integer(e->shape[i]));
	return shape;
}

static json_t *tensor_json(const struct inspect *in, const struct weir_entry *e)
{
	const char *path = base_name(file_info(in, e->shard).path);

	return json_pack("{s:o, s:s, s:o, s:o, s:I, s:I}", "name",
			 text_json(e->name, e->name_len), "dtype",
			 dtype_name(e->dtype), "shape", shape_json(e), "file",
			 text_json(path, strlen(path)), "offset",
			 (json_int_t)e->offset, "bytes", (json_int_t)e->bytes);
}

/* One at a time: a tree of all would take many times the size of the header. */
static void put_tensors_json(const struct inspect *in)
{
	struct weir_entry e;

	fputs("\"tensors\": [", stdout);
	for (size_t i = 0; i < weir_model_count(in->model); i++) {
		if (entry_at(in, i, &e) < 0)
			break;
		fputs(i ? ",\n  " : "\n  ", stdout);
		out_json(tensor_json(in, &e));
	}
	fputs("\n]", stdout);
}

static json_t *files_json(const struct inspect *in)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < in->info.shards; i++) {
		struct weir_file_info f = file_info(in, i);

		json_array_append_new(
			list, json_pack("{s:o, s:I}", "path",
					text_json(f.path, strlen(f.path)),
					"bytes", (json_int_t)f.bytes));
	}
	return list;
}

static json_t *warnings_json(const struct inspect *in)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < in->n_warnings; i++)
		json_array_append_new(list, json_string(in->warnings[i]));
	return list;
}

static void put_member(const char *key, json_t *value)
{
	printf("\"%s\": ", key);
	out_json(value);
	fputs(",\n", stdout);
}

static void put_json(const struct inspect *in)
{
	const struct weir_model_info *info = &in->info;

	fputs("{\n", stdout);
	put_member("path", text_json(info->path, strlen(info->path)));
	put_member("format", json_string(info->format));
	put_member("count", json_integer((json_int_t)info->count));
	put_member("bytes", json_integer((json_int_t)info->bytes));
	put_member("shards", json_integer(info->shards));
	put_member("unlisted", json_integer((json_int_t)info->unlisted));
	put_member("total_size",
		   info->total_size ? json_integer((json_int_t)info->total_size)
				    : json_null());
	put_member("files", files_json(in));
	put_member("warnings", warnings_json(in));
	metadata_put_json(in->model);
	fputs(",\n", stdout);
	put_tensors_json(in);
	fputs("\n}\n", stdout);
}

static void put_metadata_json(const struct inspect *in)
{
	fputs("{\n", stdout);
	metadata_put_json(in->model);
	fputs("\n}\n", stdout);
}

/* "[4096, 128]" */
static const char *shape_text(const struct weir_entry *e,
			      char buf[WEIR_MAX_DIMS * 24])
{
	size_t n = 0, room = (size_t)WEIR_MAX_DIMS * 24;

	n += (size_t)snprintf(buf, room, "[");
	for (uint32_t i = 0; i < e->ndim; i++)
		n += (size_t)snprintf(buf + n, room - n, "%s%lld",
				      i ? ", " : "", (long long)e->shape[i]);
	snprintf(buf + n, room - n, "]");
	return buf;
}

static size_t name_columns(const struct inspect *in)
{
	size_t widest = strlen("name"), n;
	struct weir_entry e;

	for (size_t i = 0; i < weir_model_count(in->model); i++) {
		if (entry_at(in, i, &e) < 0)
			break;
		n = text_width(e.name, e.name_len, 0);
		if (n > widest)
			widest = n;
	}
	return widest < NAME_COLUMNS ? widest : NAME_COLUMNS;
}

static void show_tensor(const struct inspect *in, const struct weir_entry *e,
			size_t columns)
{
	const char *path = base_name(file_info(in, e->shard).path);
	char shape[WEIR_MAX_DIMS * 24];
	size_t n = text_put(stdout, e->name, e->name_len, 0);

	printf("%*s  %-11s  %-22s  ", n < columns ? (int)(columns - n) : 0, "",
	       dtype_name(e->dtype), shape_text(e, shape));
	text_put(stdout, path, strlen(path), 0);
	printf("  %14llu  %14llu\n", (unsigned long long)e->offset,
	       (unsigned long long)e->bytes);
}

static void show_tensors(const struct inspect *in)
{
	size_t columns = name_columns(in);
	struct weir_entry e;

	if (weir_model_count(in->model))
		printf("%-*s  %-11s  %-22s  file, offset, bytes\n",
		       (int)columns, "name", "dtype", "shape");
	for (size_t i = 0; i < weir_model_count(in->model); i++)
		if (entry_at(in, i, &e) >= 0)
			show_tensor(in, &e, columns);
}

static void show(const struct inspect *in)
{
	const struct weir_model_info *info = &in->info;
	char size[SIZE_TEXT], tensors[COUNT_TEXT], bytes[COUNT_TEXT],
		files[COUNT_TEXT];

	show_tensors(in);
	metadata_show(in->model);
	text_put(stdout, info->path, strlen(info->path), 0);
	printf(": %s, %s, %s (%s) in %s\n", info->format,
	       count_text(info->count, "tensor", tensors),
	       count_text(info->bytes, "byte", bytes),
	       size_text(info->bytes, size),
	       count_text(info->shards, "file", files));
	for (unsigned i = 0; i < in->n_warnings; i++)
		printf("warning: %s\n", in->warnings[i]);
}

static int inspect(struct inspect *in, struct weir *weir)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;

	if (in->lenient)
		opts.flags = WEIR_MODEL_LENIENT;
	if (weir_model_open(weir, in->path, &opts, &in->model) < 0)
		return fail_weir();
	in->info.size = sizeof(in->info);
	if (weir_model_info(in->model, &in->info) < 0) {
		weir_model_close(in->model);
		return fail_weir();
	}
	find_warnings(in);
	if (in->metadata && in->json)
		put_metadata_json(in);
	else if (in->metadata)
		metadata_show(in->model);
	else if (in->json)
		put_json(in);
	else
		show(in);
	weir_model_close(in->model);
	return 0;
}

int inspect_main(int argc, char **argv)
{
	struct weir_opts root = WEIR_OPTS_INIT;
	const struct args args = { "inspect", help, options, argc,
				   argv,      NULL, &root };
	struct inspect in = { 0 };
	struct weir *weir;
	int r = parse_args(&args, &in);

	if (r)
		return r == ARGS_HELP ? 0 : r;
	if (weir_open(&root, &weir) < 0)
		return fail_weir();
	r = inspect(&in, weir);
	weir_close(weir);
	return r;
}
