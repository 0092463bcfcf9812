/* SPDX-License-Identifier: MIT */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <weir/source.h>

/* As weir_source_entry_fn. */
WEIR_API int weir_source_entry(struct weir *weir,
			       const struct weir_source_host *host,
			       const struct weir_source **ret_source,
			       void **ret_self, char why[WEIR_SOURCE_WHY]);

#endif
