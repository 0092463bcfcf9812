/* SPDX-License-Identifier: MIT */
#include "metadata.h"
#include <inttypes.h>
#include <math.h>
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

void metadata_show(const struct weir_model *model)
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

static void put_json(const struct weir_model *model, const struct weir_value *v)
{
	struct weir_value item;

	if (v->type == WEIR_VALUE_STRING) {
		out_json(text_json(v->str, v->len));
	} else if (v->type == WEIR_VALUE_ARRAY) {
		putchar('[');
		for (size_t i = 0; i < v->len; i++) {
			fputs(i ? ", " : "", stdout);
			if (item_at(model, v, i, &item) >= 0)
				put_json(model, &item);
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

void metadata_put_json(const struct weir_model *model)
{
	fputs("\"metadata\": {", stdout);
	put_members(model, put_json);
	fputs("\n},\n\"metadata_types\": {", stdout);
	put_members(model, put_type);
	fputs("\n}", stdout);
}
