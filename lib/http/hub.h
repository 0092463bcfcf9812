/* SPDX-License-Identifier: MIT */
/* hf://: models of a hub of Hugging Face. */
#ifndef HTTP_HUB_H
#define HTTP_HUB_H

#include "http/remote.h"
#include "http/snapshot.h"

struct weir__http_hub *weir__http_hub_new(void);
void weir__http_hub_free(struct weir__http_hub *hub);

/*
 * Find the file of @u in the cache that Hugging Face's clients keep on this
 * machine, without a request: if hubs may not be asked, or the commit is known
 * and the cache has it. 1: *@ret is it. 0: the hub is to be asked. -errno: it
 * may not be, and the cache does not have the file.
 */
int weir__http_hub_local(struct weir__http_hub *hub,
			 const struct weir__http_url *u,
			 struct weir__http_copy *ret,
			 char why[static WEIR__HTTP_WHY]);
int weir__http_hub_begin(struct weir__http_remote *r,
			 const struct weir__http_url *u,
			 struct weir__http_start *s,
			 char why[static WEIR__HTTP_WHY]);
int weir__http_hub_list(struct weir__http_remote *r,
			const struct weir__http_url *u,
			weir_source_found_fn *found, void *arg,
			char why[static WEIR__HTTP_WHY]);
/*
 * An answer about @u named its commit: other files of the model are taken from
 * it too, for 15 minutes from the last use. -ESTALE: another one was pinned.
 */
int weir__http_hub_pin(struct weir__http_hub *hub,
		       const struct weir__http_url *u, const char *commit,
		       char why[static WEIR__HTTP_WHY]);

#endif
