/* SPDX-License-Identifier: MIT */
#include "http/listing.h"
#include "http/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES 1000

/* Replace the entities of XML, in place. */
static void decode_entities(char *text)
{
	static const struct {
		const char *name;
		char c;
	} known[] = {
		{ "&amp;", '&' },  { "&lt;", '<' },    { "&gt;", '>' },
		{ "&quot;", '"' }, { "&apos;", '\'' }, { "&#34;", '"' },
		{ "&#39;", '\'' }, { "&#13;", '\r' },  { "&#10;", '\n' },
	};
	char *to = text;

	while (*text) {
		size_t i = 0, n = sizeof(known) / sizeof(*known);

		while (i < n &&
		       strncmp(text, known[i].name, strlen(known[i].name)))
			i++;
		if (i < n) {
			*to++ = known[i].c;
			text += strlen(known[i].name);
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

char *weir__http_listing_text(const char *object, const char *name)
{
	char *text = weir__http_xml(object, name);

	if (text)
		decode_entities(text);
	return text;
}

static int found_object(const struct weir__http_listing *l, const char *text,
			const char *prefix, weir_source_found_fn *found,
			void *arg)
{
	char *name = l->name(text);
	char *size = weir__http_xml(text, l->size);
	size_t n = strlen(prefix);
	int err = 0;

	if (name && size && !strncmp(name, prefix, n) && name[n] &&
	    !strchr(name + n, '/'))
		err = found(arg, name + n, strtoull(size, NULL, 10));
	free(name);
	free(size);
	return err;
}

static int fail(const struct weir__http_listing *l, const char *what, char *why)
{
	snprintf(why, WEIR__HTTP_WHY, "the list of %s %s", l->what, what);
	return -EBADMSG;
}

/* Where the start or end tag of @name begins; NULL: there is none. */
static const char *find_tag(const char *text, const char *start,
			    const char *name)
{
	size_t n = strlen(name), skip = strlen(start);

	while ((text = strstr(text, start))) {
		if (!strncmp(text + skip, name, n) &&
		    strchr("> \t\r\n", text[skip + n]) && text[skip + n])
			return text;
		text += skip;
	}
	return NULL;
}

int weir__http_listing_page(const struct weir__http_listing *l,
			    const char *text, const char *prefix,
			    weir_source_found_fn *found, void *arg,
			    char **ret_next, char why[static WEIR__HTTP_WHY])
{
	const char *p = text, *end;
	int err = 0;

	*ret_next = NULL;
	if (!find_tag(text, "<", l->page)) {
		snprintf(why, WEIR__HTTP_WHY,
			 "a list of %s was asked for, something else came",
			 l->what);
		return -EBADMSG;
	}
	if (!find_tag(text, "</", l->page))
		return fail(l, "is cut short", why);
	while (!err && (p = find_tag(p, "<", l->object))) {
		char *one;

		end = find_tag(p, "</", l->object);
		if (!end)
			return fail(l, "is cut short", why);
		one = strndup(p, (size_t)(end - p));
		err = one ? found_object(l, one, prefix, found, arg) : -ENOMEM;
		free(one);
		p = end;
	}
	if (err < 0)
		return err;
	*ret_next = weir__http_listing_text(text, l->next);
	if (*ret_next && !**ret_next) {
		free(*ret_next);
		*ret_next = NULL;
	}
	if (!*ret_next && strstr(text, "<IsTruncated>true"))
		return fail(l, "is cut short: it goes on without a token", why);
	return 0;
}

int weir__http_listing_run(const struct weir__http_listing *l,
			   weir__http_listing_get *get,
			   struct weir__http_remote *r,
			   const struct weir__http_url *u,
			   weir_source_found_fn *found, void *arg,
			   char why[static WEIR__HTTP_WHY])
{
	char shown[WEIR__HTTP_SHOWN], *next = NULL;
	int err = 0;

	for (unsigned page = 0; page < PAGES && !err; page++) {
		struct weir__http_body body = { 0 };

		err = get(r, u, next, &body, why);
		free(next);
		next = NULL;
		if (!err)
			err = weir__http_listing_page(
				l, body.data ? body.data : "", u->path, found,
				arg, &next, why);
		weir__http_body_clear(&body);
		if (!next)
			break;
	}
	if (!err && next) {
		weir__http_url_show(u, shown);
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: it has more than %d pages of %s", shown, PAGES,
			 l->what);
		err = -EFBIG;
	}
	free(next);
	return err;
}
