/* SPDX-License-Identifier: MIT */
/*
 * A model of a format that the library does not know (toy.h), from its first
 * bytes to its bytes in memory: a new format needs one file and one row of the
 * list.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "core/util.h"
#include "files.h"
#include "models.h"
#include "model/format/safetensors.h"
#include "sample.h"
#include "tap.h"
#include "toy.h"

#define LEN(a) (sizeof(a) / sizeof(a[0]))
#define ST "{" ENTRY("a", "U8", "[2]", "[0,2]") "}"

/* Linked instead of lib/model/format/formats.c. */
const struct weir__format *const weir__formats[] = {
	&weir__safetensors,
	&toy,
	NULL,
};

static struct weir *root;

static const struct toy_pair pairs[] = {
	{ "string", WEIR_VALUE_STRING, { .str = "text" } },
	{ "bool", WEIR_VALUE_BOOL, { .u = 1 } },
	{ "u64", WEIR_VALUE_U64, { .u = UINT64_MAX } },
	{ "i32", WEIR_VALUE_I32, { .i = -7 } },
	{ "f64", WEIR_VALUE_F64, { .f = 0.5 } },
	{ "array", WEIR_VALUE_ARRAY, { .i16 = { -1, 2, -32768, 32767 } } },
};

static const struct toy_tensor tensors[] = {
	{ "bytes", WEIR_DTYPE_U8, 40, 0, 40 },
	{ "blocks", WEIR_DTYPE_Q4_0, 64, 64, 100 },
	{ "empty", WEIR_DTYPE_F32, 0, 128, 128 },
	{ "floats", WEIR_DTYPE_F32, 1000, 128, 4128 },
};

/*
 * Write a toy file with @n_data bytes of data (sample.h, salt 1). Returns the
 * offset of the data.
 */
static size_t write_toy(const char *name, const struct toy_pair *p,
			uint32_t n_pairs, const struct toy_tensor *t,
			uint32_t n_tensors, size_t n_data)
{
	struct toy_head head = { { 'T', 'O', 'Y', '1' }, n_pairs, n_tensors };
	size_t at = sizeof(head), data, n = n_pairs * sizeof(*p);
	unsigned char *bytes = calloc(1, 10000);

	memcpy(bytes, &head, sizeof(head));
	if (n)
		memcpy(bytes + at, p, n);
	at += n;
	memcpy(bytes + at, t, n_tensors * sizeof(*t));
	at += n_tensors * sizeof(*t);
	data = weir__up(at, 64);
	for (size_t i = data; i < data + n_data; i++)
		bytes[i] = sample_byte(i, 1);
	files_bytes(name, bytes, data + n_data);
	free(bytes);
	return data;
}

static void first_bytes_choose_the_reader(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_model *m;

	write_toy("a.safetensors", NULL, 0, tensors, LEN(tensors), 4128);
	m = models_open(root, "a.safetensors");
	weir_model_info(m, &info);
	is_str(info.format, "toy",
	       "a toy file is read as a toy file, whatever its name is");
	is_int(info.count, LEN(tensors), "a model has the tensors of its file");
	weir_model_close(m);
	files_st("b.toy", ST, 2);
	m = models_open(root, "b.toy");
	weir_model_info(m, &info);
	is_str(info.format, "safetensors",
	       "a safetensors file is read as safetensors, whatever its name is");
	weir_model_close(m);
	files_text("c.toy", "\1\2\3\4\5\6\7\10\11\12");
	is_err(models_try(root, "c.toy", 0), -EBADMSG,
	       "c.toy: neither safetensors nor GGUF",
	       "a file of no known format is refused by the first reader");
}

static void suffixes_choose_the_file_of_a_directory(void)
{
	files_dir("d");
	write_toy("d/x.toy", NULL, 0, tensors, LEN(tensors), 4128);
	is_int(models_try(root, "d", 0), 0,
	       "the one toy file of a directory is its model");
	write_toy("d/y.toy", NULL, 0, tensors, LEN(tensors), 4128);
	is_err(models_try(root, "d", 0), -EINVAL,
	       "d: no *.safetensors.index.json, no *.safetensors, 2 *.toy: several of a kind; name the file to open, one of x.toy, y.toy",
	       "of two toy files neither is taken, and the sentence counts them");
	files_st("d/z.safetensors", "{", 0);
	is_err(models_try(root, "d", 0), -EBADMSG, "z.safetensors",
	       "a format that is listed first is preferred");
}

static void shards_have_one_format(void)
{
	write_toy("s.toy", NULL, 0, tensors, LEN(tensors), 4128);
	files_text("s.index.json", "{\"weight_map\":{\"bytes\":\"s.toy\"}}");
	is_err(models_try(root, "s.index.json", 0), -EOPNOTSUPP,
	       "s.toy: this is a toy file, but the model's format is safetensors",
	       "a toy file is refused as a shard of a safetensors index");
}

static void values_have_types(void)
{
	static const int64_t want[] = { -1, 2, -32768, 32767 };
	struct weir_value v = { .size = sizeof(v) };
	struct weir_model *m;
	struct weir__pair *p;
	bool good = true;

	write_toy("meta.toy", pairs, LEN(pairs), tensors, LEN(tensors), 4128);
	m = models_open(root, "meta.toy");
	p = m->meta;
	is_int(m->n_meta, LEN(pairs), "a model has all pairs of its file");
	is_int(weir_model_meta(m, "string", &v), 0,
	       "weir_model_meta finds a string by its key");
	is_str(v.str, "text", "weir_model_meta returns a string");
	is_int(weir_model_meta(m, "u64", &v), 0,
	       "weir_model_meta finds a number by its key");
	ok(!v.str && v.len == 0, "weir_model_meta has no string for a number");
	ok(p[1].value.type == WEIR_VALUE_BOOL && p[1].value.u == 1,
	   "a bool keeps its type and value");
	ok(p[2].value.type == WEIR_VALUE_U64 && p[2].value.u == UINT64_MAX,
	   "an unsigned integer keeps its type and value");
	ok(p[3].value.type == WEIR_VALUE_I32 && p[3].value.i == -7,
	   "a signed integer keeps its type and value");
	ok(p[4].value.type == WEIR_VALUE_F64 && p[4].value.f == 0.5,
	   "a floating-point number keeps its type and value");
	ok(p[5].value.type == WEIR_VALUE_ARRAY && p[5].value.n == 4 &&
		   p[5].value.of == WEIR_VALUE_I16,
	   "an array keeps the number and the type of its items");
	for (uint32_t i = 0; i < 4; i++)
		good = good && weir__value_item(m, &p[5].value, i).i == want[i];
	ok(good, "the items of an array keep their values");
	weir_model_close(m);
}

/* Add 8 bytes, which may be overwritten, and a number to the text. */
static uint64_t add_number(struct weir_model *m, const void *number, size_t n)
{
	char bytes[16] = { 0 };
	uint64_t at;

	memcpy(bytes + 8, number, n);
	if (weir__text_add(m, &(struct weir__str){ bytes, 8 + n }, &at) < 0)
		bail("no memory");
	return at + 8;
}

static struct weir__value items(struct weir_model *m, enum weir_value_type of,
				const struct weir__value *item, uint32_t n)
{
	struct weir__value array = { .type = WEIR_VALUE_ARRAY,
				     .of = (uint8_t)of,
				     .at = m->n_items,
				     .n = n };

	for (uint32_t i = 0; i < n; i++)
		if (weir__item_add(m, &item[i]) < 0)
			bail("no memory");
	return array;
}

/* Arrays of one item of each type. */
static void arrays_may_have_every_type(void)
{
	static const struct {
		enum weir_value_type type;
		union {
			bool b;
			uint8_t u8;
			int8_t i8;
			uint16_t u16;
			int16_t i16;
			uint32_t u32;
			int32_t i32;
			uint64_t u64;
			int64_t i64;
			float f32;
			double f64;
		} item;
		struct weir__value want;
	} all[] = {
		{ WEIR_VALUE_BOOL, { .b = true }, { .u = 1 } },
		{ WEIR_VALUE_U8, { .u8 = 254 }, { .u = 254 } },
		{ WEIR_VALUE_I8, { .i8 = -2 }, { .i = -2 } },
		{ WEIR_VALUE_U16, { .u16 = 65534 }, { .u = 65534 } },
		{ WEIR_VALUE_I16, { .i16 = -2 }, { .i = -2 } },
		{ WEIR_VALUE_U32, { .u32 = 1u << 31 }, { .u = 1u << 31 } },
		{ WEIR_VALUE_I32, { .i32 = -2 }, { .i = -2 } },
		{ WEIR_VALUE_U64, { .u64 = 1ull << 63 }, { .u = 1ull << 63 } },
		{ WEIR_VALUE_I64, { .i64 = INT64_MIN }, { .i = INT64_MIN } },
		{ WEIR_VALUE_F32, { .f32 = -1.5f }, { .f = -1.5 } },
		{ WEIR_VALUE_F64, { .f64 = -1.5 }, { .f = -1.5 } },
	};
	struct weir__value strings[2], array, outer, item;
	struct weir_model *m;
	uint64_t at;

	if (weir__model_new(NULL, &m) < 0)
		bail("no memory");
	for (size_t i = 0; i < LEN(all); i++) {
		at = add_number(m, &all[i].item,
				weir__value_bytes(all[i].type));
		array = weir__value_numbers(m, all[i].type, at, 1);
		ok(array.at % weir__value_bytes(all[i].type) == 0,
		   "the items of an array of type %d are aligned",
		   (int)all[i].type);
		item = weir__value_item(m, &array, 0);
		ok(item.type == all[i].type && item.u == all[i].want.u,
		   "an array of type %d returns its item", (int)all[i].type);
	}
	weir__value_string(m, &(struct weir__str){ "a", 1 }, &strings[0]);
	weir__value_string(m, &(struct weir__str){ "bcd", 3 }, &strings[1]);
	array = items(m, WEIR_VALUE_STRING, strings, 2);
	item = weir__value_item(m, &array, 1);
	is_mem(m->text + item.at, "bcd", 4,
	       "an array of strings returns its items");
	outer = items(m, WEIR_VALUE_ARRAY, &array, 1);
	item = weir__value_item(m, &outer, 0);
	item = weir__value_item(m, &item, 0);
	is_mem(m->text + item.at, "a", 2,
	       "an array of arrays returns its items");
	weir__model_put(m);
}

/* Two tensors of bytes, the second at [@begin, @end) of 100 bytes. */
static void write_two(uint32_t dtype, uint64_t count, uint64_t begin,
		      uint64_t end)
{
	struct toy_tensor two[] = { { "a", WEIR_DTYPE_U8, 33, 0, 33 },
				    { "b", dtype, count, begin, end } };

	write_toy("two.toy", NULL, 0, two, 2, 100);
}

static void formats_have_their_own_rules_of_places(void)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model *m;
	size_t data;

	data = write_toy("e.toy", NULL, 0, tensors, LEN(tensors), 4128);
	m = models_open(root, "e.toy");
	weir_model_tensor(m, 1, &e);
	is_int(e.offset, data + 64,
	       "offsets count from the beginning of the file, not of the data");
	is_int(e.bytes, 36, "two blocks of 32 elements have 36 bytes");
	weir_model_close(m);
	write_two(WEIR_DTYPE_U8, 4, 64, 68);
	is_int(models_try(root, "two.toy", 0), 0,
	       "padding to the alignment, and a tail, are no gaps");
	write_two(WEIR_DTYPE_U8, 4, 96, 100);
	is_err(models_try(root, "two.toy", 0), -EBADMSG,
	       "two.toy: tensor 'b': begins at byte 96 of the data, the tensors before it end at 33: there is a gap",
	       "a gap is refused where the rules of the format forbid gaps");
	is_int(models_try(root, "two.toy", WEIR_MODEL_LENIENT), 0,
	       "a gap is accepted where the rules of the format allow gaps");
	write_two(WEIR_DTYPE_U8, 4, 72, 76);
	is_err(models_try(root, "two.toy", WEIR_MODEL_LENIENT), -EBADMSG,
	       "begins at byte 72 of the data, which is not a multiple of 32",
	       "a tensor after a gap begins at a multiple of the alignment");
	write_two(WEIR_DTYPE_U8, 4, 32, 36);
	is_err(models_try(root, "two.toy", WEIR_MODEL_LENIENT), -EBADMSG,
	       "begins at byte 32 of the data, the tensor before it ends at 33: they overlap",
	       "an overlap is refused whatever the rules");
	write_two(WEIR_DTYPE_U8, 37, 64, 101);
	is_err(models_try(root, "two.toy", WEIR_MODEL_LENIENT), -EBADMSG,
	       "ends at byte 101 of the data, but the file has only 100",
	       "an end beyond the file is refused whatever the rules");
	write_two(WEIR_DTYPE_Q4_0, 33, 64, 82);
	is_err(models_try(root, "two.toy", 0), -EBADMSG,
	       "tensor 'b': its shape has 33 elements, Q4_0 has blocks of 32",
	       "a shape of no whole blocks is refused");
	write_two(WEIR_DTYPE_Q4_0, 32, 64, 80);
	is_err(models_try(root, "two.toy", 0), -EBADMSG,
	       "tensor 'b': begin and end [64, 80] hold 16 bytes, its shape needs 18",
	       "the sentence about a size has the format's word for a range");
}

static void bytes_arrive(void)
{
	struct weir_weights *w;
	struct weir_buft *plain;

	write_toy("load.toy", pairs, LEN(pairs), tensors, LEN(tensors), 4200);
	if (weir_dev_buft(weir_dev_get(root, 0), WEIR_MEM_PLAIN, &plain) < 0)
		bail("%s", weir_error());
	is_int(weir_load_all(root, files_path("load.toy"), plain, NULL, &w), 0,
	       "a toy model is planned and loaded");
	is_int(weir_weights_count(w), LEN(tensors),
	       "the weights have every tensor of a toy model");
	is_int(sample_wrong(w, 1), 0,
	       "every tensor of a toy model has the bytes of the file");
	weir_weights_free(w);
}

int main(void)
{
	plan(4 + 3 + 1 + 11 + 24 + 10 + 3);
	files_begin();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	first_bytes_choose_the_reader();
	suffixes_choose_the_file_of_a_directory();
	shards_have_one_format();
	values_have_types();
	arrays_may_have_every_type();
	formats_have_their_own_rules_of_places();
	bytes_arrive();
	weir_close(root);
	return done_testing();
}
