/* SPDX-License-Identifier: MIT */
#include "core/cpus.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/sys.h"

#define N_CPUS (sizeof(struct weir__cpu_set) * 8)

static struct weir__cpu_set usable; /* empty: not known */
/* The processes that determine, or have determined, @usable. */
static _Atomic pid_t claimed, noted;

unsigned weir__cpus_count(const struct weir__cpu_set *set)
{
	unsigned n = (unsigned)CPU_COUNT_S(sizeof(*set), set->part);

	return n ? n : 1;
}

void weir__cpus_note(void)
{
	pid_t self = getpid(), other = atomic_load(&claimed);

	if (atomic_load(&noted) == self)
		return;
	if (other != self &&
	    atomic_compare_exchange_strong(&claimed, &other, self)) {
		memset(&usable, 0, sizeof(usable));
		if (sched_getaffinity(0, sizeof(usable), usable.part) < 0)
			memset(&usable, 0, sizeof(usable));
		atomic_store(&noted, self);
	}
	/* Another thread may determine them at the same time. */
	while (atomic_load(&noted) != self)
		sched_yield();
}

__attribute__((constructor)) static void note_at_load(void)
{
	weir__cpus_note();
}

const struct weir__cpu_set *weir__cpus_usable(void)
{
	return &usable;
}

unsigned weir__cpus(void)
{
	return weir__cpus_count(&usable);
}

static void set_text(const struct weir__cpu_set *set, char *text, size_t room)
{
	size_t at = 0;

	*text = '\0';
	for (size_t i = 0, last; i < N_CPUS && at < room; i = last + 1) {
		last = i;
		if (!CPU_ISSET_S(i, sizeof(*set), set->part))
			continue;
		while (last + 1 < N_CPUS &&
		       CPU_ISSET_S(last + 1, sizeof(*set), set->part))
			last++;
		at += (size_t)snprintf(text + at, room - at,
				       last > i ? "%s%zu-%zu" : "%s%zu",
				       at ? "," : "", i, last);
	}
}

/* "N" or "N-M" at *@list, which moves past it. False: neither. */
static bool read_range(const char **list, unsigned long *ret_lo,
		       unsigned long *ret_hi)
{
	char *end;

	if (**list < '0' || **list > '9')
		return false;
	*ret_lo = *ret_hi = strtoul(*list, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		*ret_hi = strtoul(end + 1, &end, 10);
	*list = end;
	return *ret_lo <= *ret_hi && *ret_hi < N_CPUS;
}

int weir__cpus_parse(const char *what, const char *list,
		     struct weir__cpu_set *ret_set)
{
	struct weir__cpu_set set, all;
	char text[WEIR__CPUS_TEXT];
	const char *at = list;
	unsigned long lo, hi;

	memset(&set, 0, sizeof(set));
	for (;; at++) {
		if (!read_range(&at, &lo, &hi) || !strchr(",+", *at))
			return weir__fail(
				-EINVAL,
				"%s is '%.60s', not a list of CPUs such as 0-3,8",
				what, list);
		for (; lo <= hi; lo++)
			CPU_SET_S(lo, sizeof(set), set.part);
		if (!*at)
			break;
	}
	CPU_OR_S(sizeof(all), all.part, set.part, usable.part);
	if (CPU_COUNT_S(sizeof(usable), usable.part) &&
	    !CPU_EQUAL_S(sizeof(all), all.part, usable.part)) {
		set_text(&usable, text, sizeof(text));
		return weir__fail(-EINVAL,
				  "%s is '%.60s', the process may use CPUs %s",
				  what, list, text);
	}
	*ret_set = set;
	return 0;
}

void weir__cpus_enter(const struct weir__cpu_set *set)
{
	struct weir__cpu_set has;

	if (!CPU_COUNT_S(sizeof(*set), set->part))
		return;
	memset(&has, 0, sizeof(has));
	if (sched_getaffinity(0, sizeof(has), has.part) < 0 ||
	    !CPU_EQUAL_S(sizeof(has), has.part, set->part))
		sched_setaffinity(0, sizeof(*set), set->part);
}
