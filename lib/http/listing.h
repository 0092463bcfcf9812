/* SPDX-License-Identifier: MIT */
/* Lists of the objects of a store, in XML: S3, Google's and Azure's. */
#ifndef HTTP_LISTING_H
#define HTTP_LISTING_H

#include "http/remote.h"

/* The elements that a store uses. */
struct weir__http_listing {
	const char *what; /* that it lists, for sentences: "keys" */
	const char *page; /* the element of all that an answer has */
	const char *object, *size;
	const char *next; /* by which the next page is requested */
	/* The name in @object, in memory of malloc; NULL: there is none. */
	char *(*name)(const char *object);
};

/*
 * Read one page: call @found for the objects below @prefix. *@ret_next is what
 * names the next page, in memory of malloc, or NULL.
 */
int weir__http_listing_page(const struct weir__http_listing *l,
			    const char *text, const char *prefix,
			    weir_source_found_fn *found, void *arg,
			    char **ret_next, char why[static WEIR__HTTP_WHY]);
/* Request the page @next of the folder @u, the first one if it is NULL. */
typedef int weir__http_listing_get(struct weir__http_remote *r,
				   const struct weir__http_url *u,
				   const char *next,
				   struct weir__http_body *body, char *why);
/* All pages of the folder @u. */
int weir__http_listing_run(const struct weir__http_listing *l,
			   weir__http_listing_get *get,
			   struct weir__http_remote *r,
			   const struct weir__http_url *u,
			   weir_source_found_fn *found, void *arg,
			   char why[static WEIR__HTTP_WHY]);
/* The text of the element @name, without entities; returned as a name is. */
char *weir__http_listing_text(const char *object, const char *name);

#endif
