/* SPDX-License-Identifier: MIT */
/* The parameters of a device. */
#include "cpu/cpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define lib weir__cpu_host

static const struct key {
	const char *name;
	size_t at;              /* in struct weir__cpu_params */
	unsigned long min, max; /* max 0: checked elsewhere */
	bool first; /* only of "CPU", not of the devices beside it */
} keys[] = {
	{ "node", offsetof(struct weir__cpu_params, node), 0, 0, false },
	{ "threads", offsetof(struct weir__cpu_params, threads), 1,
	  WEIR__TEAM_MAX, false },
	{ "devices", offsetof(struct weir__cpu_params, devices), 1,
	  WEIR__CPU_DEVICES, true },
	{ "apart", offsetof(struct weir__cpu_params, apart), 0, 1, true },
};

static const struct key *key_find(bool added, const char *p, size_t len)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strlen(keys[i].name) == len &&
		    !memcmp(keys[i].name, p, len) && !(added && keys[i].first))
			return &keys[i];
	return NULL;
}

/* @name: of the device, for sentences. */
static int parse_value(const char *name, const struct key *key,
		       const char *value, size_t len, int64_t *ret)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)*value) || end != value + len)
		return lib->fail(-EINVAL, "%s: %s=%.*s is not a number", name,
				 key->name, (int)len, value);
	if (key->max && (n < key->min || n > key->max))
		return lib->fail(-EINVAL, "%s: %s=%lu, from %lu to %lu", name,
				 key->name, n, key->min, key->max);
	if (!key->max && (n > INT16_MAX || !weir__cpu_has_node(n)))
		return lib->fail(-EINVAL, "%s: there is no NUMA node %lu", name,
				 n);
	if (*ret >= 0)
		return lib->fail(-EINVAL, "%s: %s is given twice", name,
				 key->name);
	*ret = (int64_t)n;
	return 0;
}

int weir__cpu_params(struct weir_dev *dev, bool added, const char *params,
		     struct weir__cpu_params *ret)
{
	const char *name = lib->dev_name(dev);
	int r = 0;

	*ret = (struct weir__cpu_params){ -1, -1, -1, -1 };
	for (const char *p = params; *p && r >= 0;) {
		size_t len = strcspn(p, ","), n = strcspn(p, "=");
		const struct key *key = key_find(added, p, n);

		if (!key)
			return lib->fail(
				-EINVAL,
				"%s: unknown parameter '%.*s'; there are: node=N, threads=N%s",
				name, (int)n, p,
				added ? "" : ", devices=N, apart=1");
		r = parse_value(name, key, p + n + 1, len - n - 1,
				(int64_t *)(void *)((char *)ret + key->at));
		p += len + (p[len] == ',');
	}
	return r;
}
