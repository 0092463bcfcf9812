/* SPDX-License-Identifier: MIT */
/*
 * random-model SEED FORMAT PATH SHARD_BYTES NEWEST: save a model of random
 * names, dtypes, shapes, bytes and metadata. NEWEST: the largest number of a
 * dtype of GGML. The description of the model goes to the standard output, for
 * reference.py: names and strings are in hexadecimal digits,
 *
 *	t NAME DTYPE BYTES DIMENSION ...	with the bytes in PATH.raw
 *	m KEY TYPE VALUE ...
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

static uint64_t state;
static int newest;

static unsigned draw(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % n;
}

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "random-model: %s\n", weir_error());
	exit(1);
}

static const char *text(char *to, unsigned unique)
{
	static const char *const part[] = {
		"a",  "Z9",       "_",  ".weight", "\"",
		"\\", "/",        "\n", "\x01",    "\t",
		"\r", "\xc3\xa9", " ",  "{}",      "\xe6\xbc\xa2",
		":",  "\x7f",     "'",  ",",       "\xf0\x9f\x8c\x8a",
	};
	unsigned n = draw(9);

	*to = '\0';
	for (unsigned i = 0; i < n; i++)
		strcat(to, part[draw(sizeof(part) / sizeof(part[0]))]);
	sprintf(to + strlen(to), "%u", unique);
	return to;
}

static void put_hex(const char *s)
{
	for (; *s; s++)
		printf("%02x", (unsigned char)*s);
}

/*
 * A random dtype that the format has. The package gguf counts 40 bytes for a
 * block of Q8_1, which has 36.
 */
static struct weir_dtype_info dtype_of(bool gguf, unsigned *ret)
{
	struct weir_dtype_info info;
	int r;

	do {
		*ret = draw(128);
		info = (struct weir_dtype_info){ .size = sizeof(info) };
		r = weir_dtype_info((enum weir_dtype) * ret, &info);
	} while (r < 0 || *ret == WEIR_DTYPE_Q8_1 ||
		 (gguf ? info.ggml < 0 || info.ggml > newest
		       : !info.safetensors));
	return info;
}

static void add_tensor(struct weir_save *s, struct weir_buft *plain, bool gguf,
		       unsigned number, FILE *raw)
{
	unsigned dtype, ndim = draw(gguf ? 5 : 6);
	struct weir_dtype_info info = dtype_of(gguf, &dtype);
	int64_t shape[8] = { 0 };
	struct weir_tensor t;
	struct weir_buf *buf;
	size_t bytes;
	char name[80];

	ndim += info.block > 1 && !ndim;
	for (unsigned i = 0; i < ndim; i++)
		shape[i] = draw(9);
	if (ndim && info.block > 1)
		shape[ndim - 1] *= info.block;
	check(weir_tensor_init(&t, (enum weir_dtype)dtype, ndim, shape));
	check(weir_tensor_bytes(&t, &bytes));
	check(weir_buf_alloc(plain, bytes + 1, NULL, &buf));
	for (size_t i = 0; i < bytes; i++)
		((unsigned char *)weir_buf_data(buf))[i] =
			(unsigned char)draw(256);
	check(weir_tensor_place(&t, buf, 0));
	check(weir_save_add(s, text(name, number), &t, 0));
	fwrite(weir_buf_data(buf), 1, bytes, raw);
	printf("t ");
	put_hex(name);
	printf(" %s %zu", info.name, bytes);
	for (unsigned i = 0; i < ndim; i++)
		printf(" %lld", (long long)shape[i]);
	putchar('\n');
	weir_buf_free(buf);
}

static void add_string(struct weir_save *s, unsigned number)
{
	char key[80], value[80];
	struct weir_value v = { .size = sizeof(v), .type = WEIR_VALUE_STRING };

	v.key = text(key, number);
	v.str = text(value, number);
	v.len = strlen(value);
	check(weir_save_meta(s, &v));
	printf("m ");
	put_hex(key);
	printf(" string ");
	put_hex(value);
	putchar('\n');
}

static void put_number(uint32_t type, const struct weir_value *v)
{
	if (type == WEIR_VALUE_F32 || type == WEIR_VALUE_F64)
		printf(" %.17g", v->f);
	else if (type == WEIR_VALUE_I8 || type == WEIR_VALUE_I16 ||
		 type == WEIR_VALUE_I32 || type == WEIR_VALUE_I64)
		printf(" %lld", (long long)v->i);
	else
		printf(" %llu", (unsigned long long)v->u);
}

static void add_number(struct weir_save *s, unsigned number)
{
	static const enum weir_value_type types[] = {
		WEIR_VALUE_U8,  WEIR_VALUE_I8,  WEIR_VALUE_U16,  WEIR_VALUE_I16,
		WEIR_VALUE_U32, WEIR_VALUE_I32, WEIR_VALUE_F32,  WEIR_VALUE_U64,
		WEIR_VALUE_I64, WEIR_VALUE_F64, WEIR_VALUE_BOOL,
	};
	struct weir_value v = { .size = sizeof(v) };
	char key[80];

	v.type = types[draw(sizeof(types) / sizeof(types[0]))];
	v.key = text(key, number);
	if (v.type == WEIR_VALUE_F32 || v.type == WEIR_VALUE_F64)
		v.f = (double)draw(100000) / 8 - 1000;
	else if (v.type == WEIR_VALUE_BOOL)
		v.u = draw(2);
	else if (v.type == WEIR_VALUE_I8 || v.type == WEIR_VALUE_I16 ||
		 v.type == WEIR_VALUE_I32 || v.type == WEIR_VALUE_I64)
		v.i = (int)draw(255) - 127;
	else
		v.u = draw(256);
	check(weir_save_meta(s, &v));
	printf("m ");
	put_hex(key);
	printf(" number");
	put_number(v.type, &v);
	putchar('\n');
}

static void add_array(struct weir_save *s, unsigned number)
{
	struct weir_value words[4] = { { 0 } };
	char key[80], word[4][80];
	struct weir_value v = { .size = sizeof(v), .type = WEIR_VALUE_ARRAY };
	int32_t numbers[4];

	v.key = text(key, number);
	v.len = draw(4) + 1;
	v.item_type = draw(2) ? WEIR_VALUE_STRING : WEIR_VALUE_I32;
	v.items = v.item_type == WEIR_VALUE_I32 ? (void *)numbers : words;
	printf("m ");
	put_hex(key);
	printf(" %s", v.item_type == WEIR_VALUE_I32 ? "number" : "string");
	for (unsigned i = 0; i < v.len; i++) {
		numbers[i] = (int32_t)draw(1 << 20) - 1000;
		words[i].type = WEIR_VALUE_STRING;
		words[i].str = text(word[i], i);
		words[i].len = strlen(word[i]);
		putchar(' ');
		if (v.item_type == WEIR_VALUE_I32)
			printf("%d", numbers[i]);
		else
			put_hex(word[i]);
	}
	putchar('\n');
	check(weir_save_meta(s, &v));
}

int main(int argc, char **argv)
{
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;
	struct weir_buft *plain;
	struct weir_save *s;
	struct weir_dev *cpu;
	struct weir *root;
	bool gguf;
	char raw_path[4096];
	unsigned n;
	FILE *raw;

	if (argc != 6)
		return 2;
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
	newest = atoi(argv[5]);
	gguf = !strcmp(argv[2], "GGUF");
	o.format = argv[2];
	o.shard_bytes = strtoull(argv[4], NULL, 10);
	snprintf(raw_path, sizeof(raw_path), "%s.raw", argv[3]);
	raw = fopen(raw_path, "w");
	check(weir_open(NULL, &root));
	check(weir_dev_find(root, "CPU", &cpu));
	check(weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain));
	check(weir_save_new(root, argv[3], &o, &s));
	n = draw(60);
	for (unsigned i = 0; i < n; i++)
		add_tensor(s, plain, gguf, i, raw);
	n = draw(12);
	for (unsigned i = 0; i < n; i++) {
		if (!gguf || i % 3 == 0)
			add_string(s, i);
		else if (i % 3 == 1)
			add_number(s, i);
		else
			add_array(s, i);
	}
	check(weir_save_start(s, NULL));
	check(weir_save_wait(s, -1));
	weir_save_free(s);
	weir_close(root);
	return fclose(raw) ? 1 : 0;
}
