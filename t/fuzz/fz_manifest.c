/* SPDX-License-Identifier: MIT */
/*
 * A manifest. One that is refused only because its digest of the whole is wrong
 * is read again with the right one. What is accepted is written, and read
 * again: it is the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "fuzz.h"
#include "model/format/manifest.h"
#include "mutate.h"

const char fz_corpus[] = "manifest";
const char fz_small[] = "two";

/* Change a digit of a digest or a shape, or a letter; or anything. */
void fz_mutate(struct edit *e)
{
	static const char digits[] = "0123456789abcdef";
	size_t at = e->n ? edit_below(e, e->n) : 0;

	while (at < e->n && (!e->bytes[at] || !strchr(digits, e->bytes[at])))
		at++;
	if (at < e->n && edit_one_in(e, 3))
		e->bytes[at] = (uint8_t)digits[edit_below(e, 16)];
	else
		mutate_json(e, (struct span){ 0, e->n });
}

static int parse(const void *bytes, size_t n, struct weir_manifest **ret)
{
	char *text = malloc(n + 1);

	memcpy(text, bytes, n);
	text[n] = '\0';
	return weir__manifest_parse(NULL, "fuzz.json", text, n, ret);
}

static void check_entries(const struct weir_manifest *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct weir__manifest_entry *e = &m->entry[i];
		size_t len = i ? m->entry[i - 1].name.len : 0;
		int r = i ? memcmp(m->entry[i - 1].name.s, e->name.s,
				   len < e->name.len ? len : e->name.len)
			  : -1;

		must(r < 0 || (r == 0 && len < e->name.len));
		must(e->ndim <= WEIR_MAX_DIMS);
		must(e->dims + e->ndim <= m->n_dims);
		for (unsigned k = 0; k < e->ndim; k++)
			must(m->dims[e->dims + k] >= 0);
	}
}

static void same(const struct weir_manifest *a, const struct weir_manifest *b)
{
	must(a->n == b->n && a->kind == b->kind);
	must(!memcmp(a->digest, b->digest, sizeof(a->digest)));
	for (size_t i = 0; i < a->n; i++) {
		const struct weir__manifest_entry *x = &a->entry[i];
		const struct weir__manifest_entry *y = &b->entry[i];

		must(x->name.len == y->name.len &&
		     !memcmp(x->name.s, y->name.s, x->name.len));
		must(x->dtype == y->dtype && x->ndim == y->ndim);
		must(!memcmp(a->dims + x->dims, b->dims + y->dims,
			     x->ndim * sizeof(*a->dims)));
		must(!memcmp(x->digest, y->digest, sizeof(x->digest)));
	}
}

static void write_and_read(const struct weir_manifest *m)
{
	int fd = memfd_create("manifest", MFD_CLOEXEC);
	struct weir_manifest *again;
	off_t bytes;
	char *text;

	must(fd >= 0);
	must(weir__manifest_write(m, fd) == 0);
	bytes = lseek(fd, 0, SEEK_END);
	text = malloc((size_t)bytes);
	must(pread(fd, text, (size_t)bytes, 0) == bytes);
	close(fd);
	must(parse(text, (size_t)bytes, &again) == 0);
	free(text);
	same(m, again);
	weir__manifest_put(again);
}

/* The digest after @words in this thread's sentence. */
static const char *digest_after(const char *words)
{
	const char *at = strstr(weir_error(), words);

	return at ? at + strlen(words) : NULL;
}

/*
 * Put the right digest of the whole in place of the one that the text has.
 * False: that is not what is wrong, or an escape is in the digest.
 */
static int repair(uint8_t *bytes, size_t n)
{
	const char *has = digest_after("the digest of the whole is ");
	const char *is = digest_after("tensors is ");
	size_t digits;
	uint8_t *at;

	if (!has || !is)
		return 0;
	digits = strspn(has, "0123456789abcdef");
	at = memmem(bytes, n, has, digits);
	if (at)
		memcpy(at, is, digits);
	return at != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct weir_manifest *m;
	uint8_t *copy = malloc(n + 1);
	int r = parse(bytes, n, &m);

	memcpy(copy, bytes, n);
	if (r < 0) {
		fz_check_refusal(r);
		if (repair(copy, n))
			r = parse(copy, n, &m);
	}
	free(copy);
	if (r < 0)
		return 0;
	fz_accepted++;
	check_entries(m);
	write_and_read(m);
	weir__manifest_put(m);
	return 0;
}
