/* SPDX-License-Identifier: MIT */
/*
 * The first bytes of a file: the length of a safetensors header, or another
 * format.
 */
#include <string.h>

#include "core/error.h"
#include "model/format/gguf.h"
#include "model/format/safetensors.h"
#include "tap.h"

#define LEN(a) (sizeof(a) / sizeof(a[0]))
#define TEXT(s) s, sizeof(s) - 1

/* The length of the header of a file of @size bytes that begins with @bytes. */
static int head(const char *bytes, size_t n, uint64_t size, size_t *ret_len)
{
	struct weir__head h = { .file = "f.st",
				.bytes = (const unsigned char *)bytes,
				.n = n,
				.file_bytes = size };
	const struct weir__format *format;
	int r = weir__format_of(&h, &format);

	return r < 0 ? r : weir__st_len(&h, ret_len);
}

/* A file of @size bytes that begins with @bytes, and the error for it. */
struct refused {
	const char *bytes;
	size_t n;
	uint64_t size;
	int err;
	const char *part; /* part of the sentence */
	const char *title;
};

static void all_refused(const struct refused *f, size_t n)
{
	size_t len;

	for (size_t i = 0; i < n; i++)
		is_err(head(f[i].bytes, f[i].n, f[i].size, &len), f[i].err,
		       f[i].part, "%s", f[i].title);
}

static void accepted(const char *bytes, size_t n, uint64_t size, size_t want)
{
	size_t len = 7;

	is_int(head(bytes, n, size, &len), 0,
	       "a header of %zu bytes is accepted", want);
	is_int((int64_t)len, (int64_t)want,
	       "the header of %zu bytes has this length", want);
}

static void lengths_are_bounded(void)
{
	static const struct refused wrong[] = {
		{ "", 0, 0, -EBADMSG,
		  "f.st: a file of 0 bytes is neither safetensors nor GGUF",
		  "an empty file is refused" },
		{ TEXT("\2\0\0\0\0\0\0"), 7, -EBADMSG,
		  "f.st: a file of 7 bytes; a safetensors file has at least 10",
		  "a file of 7 bytes is refused" },
		{ TEXT("\0\0\0\0\0\0\0\0"), 8, -EBADMSG,
		  "a header of 0 bytes; the format allows 2 to 100000000",
		  "a header of 0 bytes is refused" },
		{ TEXT("\1\0\0\0\0\0\0\0{"), 9, -EBADMSG, "a header of 1 bytes",
		  "a header of 1 byte is refused" },
		{ TEXT("\3\0\0\0\0\0\0\0{}"), 10, -EBADMSG,
		  "f.st: a header of 3 bytes in a file that has 2 after its length",
		  "a header one byte longer than the file is refused" },
		{ TEXT("\1\xe1\xf5\5\0\0\0\0{"), 200000000, -EBADMSG,
		  "a header of 100000001 bytes; the format allows 2 to 100000000",
		  "a header of 100 000 001 bytes is refused" },
		{ TEXT("\xff\xff\xff\xff\xff\xff\xff\xff{"), 100, -EBADMSG,
		  "f.st: neither safetensors nor GGUF: its first 8 bytes are not the length of a header",
		  "a header of 2^64-1 bytes is refused" },
		{ TEXT("\xf8\xff\xff\xff\xff\xff\xff\xff{"), 100, -EBADMSG,
		  "its first 8 bytes are not the length",
		  "a length that wraps when 8 is added is refused" },
	};

	all_refused(wrong, LEN(wrong));
	accepted(TEXT("\2\0\0\0\0\0\0\0{}"), 10, 2);
	accepted(TEXT("\0\xe1\xf5\5\0\0\0\0{"), 100000008, 100000000);
}

static void gguf_is_recognised(void)
{
	static const unsigned char bytes[] = "GGUF\3\0\0\0\1\0\0\0";
	struct weir__head h = { .file = "f.st", .bytes = bytes };
	const struct weir__format *format;

	for (h.n = 4; h.n <= 12; h.n += 8) {
		h.file_bytes = h.n;
		is_int(weir__format_of(&h, &format), 0,
		       "%zu bytes of a GGUF file are of a known format", h.n);
		ok(format == &weir__gguf,
		   "%zu bytes of a GGUF file are recognised", h.n);
	}
}

static void other_formats_are_recognised(void)
{
	static const struct refused other[] = {
		{ TEXT("PK\3\4\0\0\x08\x08\0\0"), 5000, -EOPNOTSUPP,
		  "this is a zip archive (a PyTorch checkpoint",
		  "a PyTorch checkpoint is recognised" },
		{ TEXT("PK\3\4\0\0\0\0\x08\x08"), 99000000, -EOPNOTSUPP,
		  "zip archive",
		  "a zip archive is recognised although its bytes are a valid length" },
		{ TEXT("\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j"), 5000, -EOPNOTSUPP,
		  "this is a pickle", "a pickle is recognised" },
		{ TEXT("\x80\4\x95\5\0\0\0\0\0\0\0]"), 22, -EOPNOTSUPP,
		  "this is a pickle", "a short pickle is recognised" },
		{ TEXT("\x89HDF\r\n\x1a\n"), 5000, -EOPNOTSUPP, "HDF5",
		  "an HDF5 file is recognised" },
		{ TEXT("\x93NUMPY\1\0v\0"), 5000, -EOPNOTSUPP, "NumPy",
		  "a NumPy array is recognised" },
		{ TEXT("version https://git-lfs.github.com/spec/v1\n"), 130,
		  -EOPNOTSUPP, "a Git LFS pointer",
		  "a Git LFS pointer is recognised" },
		{ TEXT("{\"a\": 1}\n"), 9, -EOPNOTSUPP, "JSON text",
		  "JSON without a length is recognised" },
		{ TEXT("\x1f\x8b\x08\0\0\0\0\0\0\3"), 5000, -EOPNOTSUPP,
		  "compressed by gzip", "a gzip file is recognised" },
		{ TEXT("\3757zXZ\0\0\4\xe6\xd6"), 5000, -EOPNOTSUPP,
		  "compressed by xz", "an xz file is recognised" },
		{ TEXT("\x28\xb5\x2f\xfd\x24\0\1\0\0"), 5000, -EOPNOTSUPP,
		  "compressed by zstd", "a zstd file is recognised" },
		{ TEXT("\177ELF\2\1\1\0\0\0"), 5000, -EOPNOTSUPP, "ELF",
		  "an ELF program is recognised" },
	};

	all_refused(other, LEN(other));
}

static void tar_archives_are_recognised(void)
{
	char tar[512] = "model.safetensors";
	size_t len;

	memcpy(tar + 257, "ustar", 6);
	is_err(head(tar, sizeof(tar), 10240, &len), -EOPNOTSUPP,
	       "a tar archive", "a tar archive is recognised");
}

/* The length 640 has the first two bytes of a pickle. */
static void headers_are_no_pickles(void)
{
	static const struct refused cut = {
		TEXT("\x80\2\0\0\0\0\0\0{"), 600, -EBADMSG,
		"a header of 640 bytes in a file that has 592",
		"a header of 640 bytes in a short file is not taken for a pickle"
	};

	accepted(cut.bytes, cut.n, 5000, 640);
	all_refused(&cut, 1);
}

static void markup_is_recognised(void)
{
	static const char *const pages[] = {
		"<!DOCTYPE html>\n<html>", "\n<html lang=\"en\">",
		"\xef\xbb\xbf<?xml version=\"1.0\"?>"
	};
	size_t len;

	for (size_t i = 0; i < LEN(pages); i++)
		is_err(head(pages[i], strlen(pages[i]), 5000, &len),
		       -EOPNOTSUPP, "f.st: this is an HTML or XML page",
		       "a page is recognised by its markup, %.9s",
		       pages[i] + i);
}

static void text_is_recognised(void)
{
	static const struct refused text[] = {
		{ TEXT("Entry not found\r\n"), 17, -EBADMSG,
		  "f.st: this is text, not a model",
		  "text is recognised, and not quoted" },
		{ TEXT("#!/bin/sh\n"), 10, -EBADMSG,
		  "f.st: this is a script, not a model",
		  "a script is recognised, and not quoted" },
		{ TEXT("hello"), 5, -EBADMSG, "this is text, not a model",
		  "text of 5 bytes is recognised" },
		{ TEXT("hello, \1orld"), 12, -EBADMSG,
		  "neither safetensors nor GGUF",
		  "bytes that are no text are refused, and not shown as a number" },
	};

	all_refused(text, LEN(text));
}

int main(void)
{
	plan(12 + 4 + 12 + 1 + 3 + 3 + 4);
	lengths_are_bounded();
	gguf_is_recognised();
	other_formats_are_recognised();
	tar_archives_are_recognised();
	headers_are_no_pickles();
	markup_is_recognised();
	text_is_recognised();
	return done_testing();
}
