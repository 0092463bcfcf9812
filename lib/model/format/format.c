/* SPDX-License-Identifier: MIT */
/*
 * The first bytes of a file decide which reader it gets. Files that are not
 * models are recognised as well, so that the error can say what they are.
 */
#include "model/format/format.h"

#include <ctype.h>
#include <string.h>

#include "core/error.h"

#define TEXT_BYTES 40u /* bytes that decide whether a file is text */

static const struct {
	size_t at;
	const char *magic;
	size_t len;
	const char *what;
} others[] = {
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

/* HTML or XML: an error page that a server sent instead of a file. */
static bool is_markup(const unsigned char *head, size_t n)
{
	size_t i = n >= 3 && !memcmp(head, "\xef\xbb\xbf", 3) ? 3 : 0;

	while (i < n && weir__json_is_space(head[i]))
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

/*
 * True for ASCII text. No sentence quotes it: a program may open any file for
 * somebody who may not read it.
 */
static bool is_text(const unsigned char *head, size_t n)
{
	for (size_t i = 0; i < n && i < TEXT_BYTES; i++)
		if (head[i] >= 0x7f ||
		    (head[i] < ' ' && !weir__json_is_space(head[i])))
			return false;
	return n > 0;
}

int weir__format_of(const struct weir__head *head,
		    const struct weir__format **ret_format)
{
	const struct weir__format *const *f = weir__formats;
	const char *other;

	while (*f && !(*f)->probe(head))
		f++;
	/* A magic number may also be the length of a header. */
	other = *f ? NULL : other_format(head->bytes, head->n);
	if (other)
		return weir__fail(-EOPNOTSUPP, "%s: this is %s", head->file,
				  other);
	if (!*f && is_text(head->bytes, head->n))
		return weir__fail(-EBADMSG, "%s: this is %s, not a model",
				  head->file,
				  head->n >= 2 && !memcmp(head->bytes, "#!", 2)
					  ? "a script"
					  : "text");
	*ret_format = *f ? *f : weir__formats[0];
	return 0;
}

/* All shards of a model have one format. */
static int set_format(struct weir_model *m, const struct weir__head *head,
		      const struct weir__format *format)
{
	if (m->format && m->format != format)
		return weir__fail(
			-EOPNOTSUPP,
			"%s: this is a %s file, but the model's format is %s",
			head->file, format->name, m->format->name);
	m->format = format;
	return 0;
}

int weir__shard_read(struct weir_model *m, uint32_t shard, bool lenient)
{
	struct weir_file *file = m->file[shard];
	const struct weir__format *format;
	unsigned char bytes[WEIR__HEAD_BYTES];
	struct weir__head head = {
		.file = file->base,
		.bytes = bytes,
		.n = file->id.bytes < sizeof(bytes) ? (size_t)file->id.bytes
						    : sizeof(bytes),
		.file_bytes = file->id.bytes,
	};
	int r = weir__model_read(file, bytes, head.n, 0);

	if (r >= 0)
		r = weir__format_of(&head, &format);
	if (r >= 0)
		r = set_format(m, &head, format);
	return r < 0 ? r : format->read(m, shard, &head, lenient);
}
