/* SPDX-License-Identifier: MIT */
/* The first bytes of a file: the length of a safetensors header, or another format. */
#include <string.h>

#include "core/error.h"
#include "model/safetensors.h"
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

static void lengths_are_bounded(void)
{
	size_t len = 7;

	is_err(head("", 0, 0, &len), -EBADMSG,
	       "f.st: a file of 0 bytes; a safetensors file has at least 10",
	       "an empty file is refused");
	is_err(head("\2\0\0\0\0\0\0", 7, 7, &len), -EBADMSG,
	       "a file of 7 bytes", "a file of 7 bytes is refused");
	is_err(head(TEXT("\0\0\0\0\0\0\0\0"), 8, &len), -EBADMSG,
	       "a header of 0 bytes; the format allows 2 to 100000000",
	       "a header of no bytes is refused");
	is_err(head(TEXT("\1\0\0\0\0\0\0\0{"), 9, &len), -EBADMSG,
	       "a header of 1 bytes", "a header of one byte is refused");
	is_int(head(TEXT("\2\0\0\0\0\0\0\0{}"), 10, &len), 0,
	       "a header of two bytes is accepted");
	is_int(len, 2, "a header of two bytes has length 2");
	is_err(head(TEXT("\3\0\0\0\0\0\0\0{}"), 10, &len), -EBADMSG,
	       "f.st: a header of 3 bytes in a file that has 2 after its length",
	       "a header one byte longer than the file is refused");
	is_int(head(TEXT("\0\xe1\xf5\5\0\0\0\0{"), 100000008, &len), 0,
	       "a header of 100 000 000 bytes is accepted");
	is_int(len, 100000000, "a header of 100 000 000 bytes has that length");
	is_err(head(TEXT("\1\xe1\xf5\5\0\0\0\0{"), 200000000, &len), -EBADMSG,
	       "a header of 100000001 bytes; the format allows 2 to 100000000",
	       "a header of 100 000 001 bytes is refused");
	is_err(head(TEXT("\xff\xff\xff\xff\xff\xff\xff\xff{"), 100, &len),
	       -EBADMSG, "a header of 18446744073709551615 bytes",
	       "a header of 2^64-1 bytes is refused");
	is_err(head(TEXT("\xf8\xff\xff\xff\xff\xff\xff\xff{"), 100, &len),
	       -EBADMSG, "a header of 18446744073709551608 bytes",
	       "a length that wraps when 8 is added is refused");
}

static void other_files_are_recognised(void)
{
	static const char *const pages[] = {
		"<!DOCTYPE html>\n<html>", "\n<html lang=\"en\">",
		"\xef\xbb\xbf<?xml version=\"1.0\"?>"
	};
	char tar[512] = "model.safetensors";
	size_t len;

	memcpy(tar + 257, "ustar", 6);
	is_err(head(TEXT("GGUF\3\0\0\0\1\0\0\0"), 5000, &len), -EOPNOTSUPP,
	       "f.st: this is a GGUF file, which is not supported yet",
	       "a GGUF file is recognised by its first bytes");
	is_err(head("GGUF", 4, 4, &len), -EOPNOTSUPP, "GGUF",
	       "4 bytes are enough to recognise a GGUF file");
	is_err(head(TEXT("PK\3\4\0\0\x08\x08\0\0"), 5000, &len), -EOPNOTSUPP,
	       "this is a zip archive (a PyTorch checkpoint",
	       "a PyTorch checkpoint is recognised");
	is_err(head(TEXT("PK\3\4\0\0\0\0\x08\x08"), 99000000, &len),
	       -EOPNOTSUPP, "zip archive",
	       "a zip archive is recognised although its bytes are a valid length");
	is_err(head(TEXT("\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j"), 5000, &len),
	       -EOPNOTSUPP, "this is a pickle", "a pickle is recognised");
	is_err(head(TEXT("\x80\4\x95\5\0\0\0\0\0\0\0]"), 22, &len), -EOPNOTSUPP,
	       "this is a pickle", "a short pickle is recognised");
	is_int(head(TEXT("\x80\2\0\0\0\0\0\0{"), 5000, &len), 0,
	       "a header of 640 bytes is not taken for a pickle");
	is_int(len, 640, "a header of 640 bytes keeps its length");
	is_err(head(TEXT("\x80\2\0\0\0\0\0\0{"), 600, &len), -EBADMSG,
	       "a header of 640 bytes in a file that has 592",
	       "a header of 640 bytes in a short file is not taken for a pickle");
	is_err(head(TEXT("\x89HDF\r\n\x1a\n"), 5000, &len), -EOPNOTSUPP, "HDF5",
	       "an HDF5 file is recognised");
	is_err(head(TEXT("\x93NUMPY\1\0v\0"), 5000, &len), -EOPNOTSUPP, "NumPy",
	       "a NumPy array is recognised");
	is_err(head(TEXT("version https://git-lfs.github.com/spec/v1\n"), 130,
		    &len),
	       -EOPNOTSUPP, "a Git LFS pointer",
	       "a Git LFS pointer is recognised");
	is_err(head(TEXT("{\"a\": 1}\n"), 9, &len), -EOPNOTSUPP, "JSON text",
	       "JSON without a length is recognised");
	is_err(head(TEXT("\x1f\x8b\x08\0\0\0\0\0\0\3"), 5000, &len),
	       -EOPNOTSUPP, "compressed by gzip", "a gzip file is recognised");
	is_err(head(TEXT("\3757zXZ\0\0\4\xe6\xd6"), 5000, &len), -EOPNOTSUPP,
	       "compressed by xz", "an xz file is recognised");
	is_err(head(TEXT("\x28\xb5\x2f\xfd\x24\0\1\0\0"), 5000, &len),
	       -EOPNOTSUPP, "compressed by zstd", "a zstd file is recognised");
	is_err(head(TEXT("\177ELF\2\1\1\0\0\0"), 5000, &len), -EOPNOTSUPP,
	       "ELF", "an ELF program is recognised");
	is_err(head(tar, sizeof(tar), 10240, &len), -EOPNOTSUPP,
	       "a tar archive", "a tar archive is recognised");
	for (size_t i = 0; i < LEN(pages); i++)
		is_err(head(pages[i], strlen(pages[i]), 5000, &len),
		       -EOPNOTSUPP, "f.st: this is an HTML or XML page",
		       "a page is recognised by its markup, %.9s",
		       pages[i] + i);
	is_err(head(TEXT("Entry not found\r\n"), 17, &len), -EBADMSG,
	       "f.st: this is text ('Entry not found'), not a model",
	       "text is recognised, and its first line is quoted");
	is_err(head(TEXT("hello"), 5, &len), -EBADMSG, "text ('hello')",
	       "text of 5 bytes is recognised");
	is_err(head(TEXT("hello, \1orld"), 12, &len), -EBADMSG, "a header of",
	       "other bytes are refused as a header of absurd length");
}

int main(void)
{
	plan(12 + 24);
	lengths_are_bounded();
	other_files_are_recognised();
	return done_testing();
}
