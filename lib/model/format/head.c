/* SPDX-License-Identifier: MIT */
/*
 * safetensors as a format: how its files are recognised, and how the text of a
 * header gets from the file to the parser.
 */

#include "core/error.h"
#include "core/sys.h"
#include "model/format/safetensors.h"

typedef unsigned long long ull; /* for printf */

static uint64_t le64(const unsigned char *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

/* Is the length allowed, and the next byte a '{' or white space (lenient)? */
static bool st_probe(const struct weir__head *head)
{
	const unsigned char *p = head->bytes;

	return head->n >= 8 && le64(p) >= WEIR__ST_MIN &&
	       le64(p) <= WEIR__ST_MAX &&
	       (head->n == 8 || p[8] == '{' || weir__json_is_space(p[8]));
}

int weir__st_len(const struct weir__head *head, size_t *ret_len)
{
	uint64_t len;

	if (!head->file_bytes)
		return weir__fail(
			-EBADMSG,
			"%s: a file of 0 bytes is neither safetensors nor GGUF",
			head->file);
	if (head->n < 8)
		return weir__fail(
			-EBADMSG,
			"%s: a file of %llu bytes; a safetensors file has at least %u",
			head->file, (ull)head->file_bytes, 8 + WEIR__ST_MIN);
	len = le64(head->bytes);
	if (len >> 48) /* its bytes are what the file begins with */
		return weir__fail(
			-EBADMSG,
			"%s: neither safetensors nor GGUF: its first 8 bytes are not the length of a header, which is %u to %u",
			head->file, WEIR__ST_MIN, WEIR__ST_MAX);
	if (len < WEIR__ST_MIN || len > WEIR__ST_MAX)
		return weir__fail(
			-EBADMSG,
			"%s: a header of %llu bytes; the format allows %u to %u",
			head->file, (ull)len, WEIR__ST_MIN, WEIR__ST_MAX);
	if (len > head->file_bytes - 8)
		return weir__fail(
			-EBADMSG,
			"%s: a header of %llu bytes in a file that has %llu after its length",
			head->file, (ull)len, (ull)(head->file_bytes - 8));
	*ret_len = (size_t)len;
	return 0;
}

/* *ret_front: the file up to the end of the text, to be freed. */
static int read_text(struct weir_file *file, struct weir__st *st,
		     char **ret_front)
{
	char *front = weir__malloc_pages(8 + st->len + 1);
	int r;

	if (!front)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a header of %zu bytes",
				  st->file, st->len);
	weir__sys_prefer_huge(front, st->len);
	r = weir__model_read_front(file, front, 8 + st->len);
	st->text = front + 8;
	st->text[st->len] = '\0';
	*ret_front = front;
	return r;
}

static int st_read(struct weir_model *m, uint32_t shard,
		   const struct weir__head *head, bool lenient)
{
	struct weir__st st = {
		.file = head->file,
		.shard = shard,
		.lenient = lenient,
	};
	char *front = NULL;
	int r = weir__st_len(head, &st.len);

	if (r < 0)
		return r;
	st.data_bytes = head->file_bytes - 8 - st.len;
	r = weir__model_hold(m, 8 + st.len + 1);
	if (r < 0)
		return weir__fail_for(r, "%s", st.file);
	r = read_text(m->file[shard], &st, &front);
	if (r >= 0)
		r = weir__st_parse(m, &st);
	weir__free(front);
	weir__model_let_go(m, 8 + st.len + 1);
	return r;
}

const struct weir__format weir__safetensors = {
	.name = "safetensors",
	.suffix = ".safetensors",
	.index_suffix = ".safetensors.index.json",
	.probe = st_probe,
	.read = st_read,
};
