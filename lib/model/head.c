/* SPDX-License-Identifier: MIT */
/*
 * The first bytes of a file: the length of a safetensors header, or what else
 * the file is. Content decides, never the name.
 */
#include <ctype.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/safetensors.h"

typedef unsigned long long ull; /* for printf */

#define HEAD 512u      /* bytes that are looked at: those of a tar's header */
#define TEXT_SHOWN 40u /* bytes of what is text and nothing else */

static const struct {
	size_t at;
	const char *magic;
	size_t len;
	const char *what;
} others[] = {
	{ 0, "GGUF", 4, "a GGUF file, which is not supported yet" },
	{ 0, "PK\3\4", 4,
	  "a zip archive (a PyTorch checkpoint or an .npz), which is not supported" },
	{ 0, "\x80\2", 2, "a pickle, which is not supported" },
	{ 0, "\x80\3", 2, "a pickle, which is not supported" },
	{ 0, "\x80\4", 2, "a pickle, which is not supported" },
	{ 0, "\x80\5", 2, "a pickle, which is not supported" },
	{ 0, "\x89HDF\r\n\x1a\n", 8, "an HDF5 file, which is not supported" },
	{ 0, "\x93NUMPY", 6, "a NumPy array, which is not supported" },
	{ 0, "\177ELF", 4, "a program or library (ELF), not a model" },
	{ 0, "\x1f\x8b", 2, "compressed by gzip: decompress it first" },
	{ 0, "\3757zXZ", 5, "compressed by xz: decompress it first" },
	{ 0, "\x28\xb5\x2f\xfd", 4, "compressed by zstd: decompress it first" },
	{ 257, "ustar", 5, "a tar archive: unpack it first" },
	{ 0, "version https://git-lfs", 23,
	  "a Git LFS pointer: the file itself has not been downloaded" },
	{ 0, "{", 1, "JSON text: only an index (*.index.json) is a model" },
};

static bool is_space(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* What a server sends in the place of a file that it does not give. */
static bool is_markup(const unsigned char *head, size_t n)
{
	size_t i = n >= 3 && !memcmp(head, "\xef\xbb\xbf", 3) ? 3 : 0;

	while (i < n && is_space(head[i]))
		i++;
	return i + 1 < n && head[i] == '<' &&
	       (head[i + 1] == '!' || head[i + 1] == '?' ||
		isalpha(head[i + 1]));
}

static const char *other_format(const unsigned char *head, size_t n)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (n >= others[i].at + others[i].len &&
		    !memcmp(head + others[i].at, others[i].magic,
			    others[i].len))
			return others[i].what;
	return is_markup(head, n)
		       ? "an HTML or XML page: was a page downloaded instead of the file?"
		       : NULL;
}

/* Letters to the end, or as far as is looked: no length begins so. */
static bool is_text(const unsigned char *head, size_t n)
{
	for (size_t i = 0; i < n && i < TEXT_SHOWN; i++)
		if (head[i] >= 0x7f || (head[i] < ' ' && !is_space(head[i])))
			return false;
	return n > 0;
}

/* The first line of it, for a sentence. */
static const char *first_line(const unsigned char *head, size_t n)
{
	size_t len = 0;

	while (len < n && len < TEXT_SHOWN && head[len] != '\r' &&
	       head[len] != '\n')
		len++;
	return weir__quote((const char *)head, len);
}

static uint64_t le64(const unsigned char *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

static int check_len(const char *file, uint64_t len, uint64_t bytes)
{
	if (len < WEIR__ST_MIN || len > WEIR__ST_MAX)
		return weir__fail(
			-EBADMSG,
			"%s: a header of %llu bytes; the format has %u to %u",
			file, (ull)len, WEIR__ST_MIN, WEIR__ST_MAX);
	if (len > bytes - 8)
		return weir__fail(
			-EBADMSG,
			"%s: a header of %llu bytes in a file that has %llu after its length",
			file, (ull)len, (ull)(bytes - 8));
	return 0;
}

/* Whether the text of a header may begin with @c, leniently read. */
static bool begins_text(unsigned char c)
{
	return c == '{' || is_space(c);
}

int weir__st_head(const char *file, const unsigned char *head, size_t n,
		  uint64_t bytes, uint64_t *ret_len)
{
	/*
	 * A length may have the bytes of a magic number: then what follows
	 * it decides.
	 */
	bool ours = n >= 8 && le64(head) >= WEIR__ST_MIN &&
		    le64(head) <= WEIR__ST_MAX &&
		    (n == 8 || begins_text(head[8]));
	const char *other = ours ? NULL : other_format(head, n);

	if (other)
		return weir__fail(-EOPNOTSUPP, "%s: this is %s", file, other);
	if (!ours && is_text(head, n))
		return weir__fail(
			-EBADMSG,
			"%s: this is text ('%s'), not a safetensors file", file,
			first_line(head, n));
	if (n < 8)
		return weir__fail(
			-EBADMSG,
			"%s: a file of %llu bytes; a safetensors file has at least %u",
			file, (ull)bytes, 8 + WEIR__ST_MIN);
	*ret_len = le64(head);
	return check_len(file, *ret_len, bytes);
}

/* *ret_front: the file up to the end of the text, to be freed. */
static int read_text(struct weir_file *file, struct weir__st *st,
		     char **ret_front)
{
	unsigned char head[HEAD];
	uint64_t bytes = file->id.bytes, len;
	size_t n = bytes < HEAD ? (size_t)bytes : HEAD;
	char *front;
	int r = weir__model_read(file, head, n, 0);

	if (r >= 0)
		r = weir__st_head(st->file, head, n, bytes, &len);
	if (r < 0)
		return r;
	st->len = (size_t)len;
	st->data_bytes = bytes - 8 - len;
	front = weir__malloc_pages(8 + st->len + 1);
	if (!front)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a header of %zu bytes",
				  st->file, st->len);
	*ret_front = front;
	weir__sys_prefer_huge(front, st->len);
	r = weir__model_read_front(file, front, 8 + st->len);
	st->text = front + 8;
	st->text[st->len] = '\0';
	return r;
}

int weir__st_read(struct weir_model *m, uint32_t shard, bool lenient)
{
	struct weir_file *file = m->file[shard];
	struct weir__st st = {
		.file = file->base,
		.shard = shard,
		.lenient = lenient,
	};
	char *front = NULL;
	int r = read_text(file, &st, &front);

	if (r >= 0)
		r = weir__st_parse(m, &st);
	weir__free(front);
	return r;
}
