/* SPDX-License-Identifier: MIT */
#include "io/engine_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool weir__engine_is_late(const struct weir__engine *eng,
			  const struct weir__reads *reads, int64_t now)
{
	int64_t limit = eng->weir->opts.read_timeout;

	if (weir__reads_ended(reads) && reads->cause.end == WEIR__LATE)
		return true;
	return limit >= 0 &&
	       weir__reads_are_late(reads, now, limit + eng->max_sleep);
}

void weir__engine_explain(struct weir__engine *eng, bool instead,
			  const char *fmt, ...)
{
	char text[sizeof(eng->why)];
	va_list ap;
	size_t has;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&eng->lock);
	has = instead ? 0 : strlen(eng->why);
	if (!has || !strstr(eng->why, text))
		snprintf(eng->why + has, sizeof(eng->why) - has, "%s%s",
			 has ? "; " : "", text);
	pthread_mutex_unlock(&eng->lock);
}
