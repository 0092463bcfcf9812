/* SPDX-License-Identifier: MIT */
/* A manifest as JSON, one tensor on each line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "mem/dtype.h"
#include "model/format/manifest.h"
#include "model/format/utf8.h"

/* Text on its way to a descriptor. */
struct writing {
	int fd;
	int err; /* errno of the first write that failed */
	size_t n;
	char text[64 << 10];
};

static void flush_text(struct writing *w)
{
	size_t done = 0;

	while (done < w->n && !w->err) {
		int64_t r = weir__sys_write(w->fd, w->text + done, w->n - done);

		if (r < 0)
			w->err = (int)r;
		else
			done += (size_t)r;
	}
	w->n = 0;
}

static void put_bytes(struct writing *w, const char *bytes, size_t n)
{
	while (n) {
		size_t room = sizeof(w->text) - w->n;

		if (room > n)
			room = n;
		memcpy(w->text + w->n, bytes, room);
		w->n += room;
		bytes += room;
		n -= room;
		if (w->n == sizeof(w->text))
			flush_text(w);
	}
}

static void put_text(struct writing *w, const char *text)
{
	put_bytes(w, text, strlen(text));
}

static void put_string(struct writing *w, const struct weir__str *str)
{
	char escaped[8];

	put_text(w, "\"");
	for (size_t i = 0; i < str->len; i++) {
		unsigned char c = (unsigned char)str->s[i];

		if (c < 0x20 || c == 0x7f)
			snprintf(escaped, sizeof(escaped), "\\u%04x", c);
		else if (c == '"' || c == '\\')
			snprintf(escaped, sizeof(escaped), "\\%c", c);
		else
			snprintf(escaped, sizeof(escaped), "%c", c);
		put_text(w, escaped);
	}
	put_text(w, "\"");
}

static void put_entry(struct writing *w, const struct weir_manifest *m,
		      const struct weir__manifest_entry *e)
{
	char hex[WEIR__DIGEST_TEXT], number[24];

	put_text(w, "{\"name\": ");
	put_string(w, &e->name);
	put_text(w, ", \"dtype\": \"");
	put_text(w, weir__dtype(e->dtype)->name);
	put_text(w, "\", \"shape\": [");
	for (unsigned i = 0; i < e->ndim; i++) {
		snprintf(number, sizeof(number), "%s%" PRId64, i ? ", " : "",
			 m->dims[e->dims + i]);
		put_text(w, number);
	}
	put_text(w, "], \"digest\": \"");
	put_text(w,
		 weir__digest_hex(e->digest, weir__digest_bytes(m->kind), hex));
	put_text(w, "\"}");
}

static void put_manifest(struct writing *w, const struct weir_manifest *m)
{
	char hex[WEIR__DIGEST_TEXT];

	put_text(w, "{\n\"weir_manifest\": 1,\n\"algorithm\": \"");
	put_text(w, weir__digest_name(m->kind));
	put_text(w, "\",\n\"digest\": \"");
	put_text(w,
		 weir__digest_hex(m->digest, weir__digest_bytes(m->kind), hex));
	put_text(w, "\",\n\"tensors\": [");
	for (size_t i = 0; i < m->n && !w->err; i++) {
		put_text(w, i ? ",\n" : "\n");
		put_entry(w, m, &m->entry[i]);
	}
	put_text(w, "\n]\n}\n");
	flush_text(w);
}

static bool is_utf8(const struct weir__str *str)
{
	size_t i = 0;

	while (i < str->len) {
		const unsigned char *p = (const unsigned char *)str->s + i;
		unsigned char last[5] = { 0 };
		unsigned n;

		if (*p < 0x80) {
			i++;
			continue;
		}
		memcpy(last, p, str->len - i < 4 ? str->len - i : 4);
		n = weir__utf8_len(last);
		if (!n)
			return false;
		i += n;
	}
	return true;
}

static int check_names(const struct weir_manifest *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (!is_utf8(&m->entry[i].name))
			return weir__fail(
				-EOPNOTSUPP,
				"tensor '%s': a manifest cannot have its name, which is not UTF-8",
				weir__quote(m->entry[i].name.s,
					    m->entry[i].name.len));
	return 0;
}

int weir__manifest_write(const struct weir_manifest *manifest, int fd)
{
	struct writing *w;
	int r = check_names(manifest);

	if (r < 0)
		return r;
	w = weir__calloc(1, sizeof(*w));
	if (!w)
		return weir__fail(-ENOMEM, "no memory to write a manifest");
	w->fd = fd;
	put_manifest(w, manifest);
	r = w->err;
	weir__free(w);
	return r < 0 ? weir__fail_sys(r, "writing a manifest") : 0;
}

int weir_manifest_write(const struct weir_manifest *manifest, int fd)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(manifest->weir);
	return r < 0 ? r : weir__manifest_write(manifest, fd);
}
