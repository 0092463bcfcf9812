/* SPDX-License-Identifier: MIT */
/* The variables FAKECUDA_*, and fakecuda_set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"

enum type {
	UNSIGNED,
	INT,
	BYTES,
	REAL,
	FLAG,
	TEXT
};

static const struct option {
	const char *name;
	enum type type;
	bool late; /* may be changed while the driver runs */
	void *where;
} options[] = {
	{ "DEVICES", UNSIGNED, false, &fc.opt.devices },
	{ "VERSION", UNSIGNED, true, &fc.opt.version },
	{ "CHANNELS", UNSIGNED, false, &fc.opt.channels },
	{ "MEM", BYTES, true, &fc.opt.mem },
	{ "SPAN", BYTES, false, &fc.opt.span },
	{ "PINNED", BYTES, true, &fc.opt.pinned },
	{ "PITCH", BYTES, true, &fc.opt.pitch },
	{ "RATE", REAL, true, &fc.opt.rate },
	{ "LATENCY", REAL, true, &fc.opt.latency },
	{ "JITTER", REAL, true, &fc.opt.jitter },
	{ "SEED", UNSIGNED, true, &fc.opt.seed },
	{ "CALL", REAL, true, &fc.opt.call },
	{ "DRY", FLAG, true, &fc.opt.dry },
	{ "CHECK", FLAG, true, &fc.opt.check },
	{ "NODE", INT, true, &fc.opt.node },
	{ "SMS", INT, true, &fc.opt.sms },
	{ "CAPABILITY", UNSIGNED, true, &fc.opt.capability },
	{ "JIT", TEXT, true, fc.opt.jit },
	{ "ORDER", UNSIGNED, true, &fc.opt.order },
	{ "KERNELCHECK", FLAG, true, &fc.opt.kernelcheck },
	{ "ROUGH", FLAG, true, &fc.opt.rough },
	{ "STRICT", FLAG, true, &fc.opt.strict },
	{ "KERNELLIMIT", BYTES, true, &fc.opt.kernellimit },
	{ "CUBLASLT", UNSIGNED, true, &fc.opt.cublaslt },
	{ "NO", TEXT, true, &fc.opt.no },
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

static void assign(const struct option *option, const char *text)
{
	switch (option->type) {
	case UNSIGNED:
		*(unsigned *)option->where = (unsigned)strtoul(text, NULL, 0);
		break;
	case INT:
		*(int *)option->where = (int)strtol(text, NULL, 0);
		break;
	case BYTES: /* 5e8 is a number of bytes too */
		*(uint64_t *)option->where = (uint64_t)strtod(text, NULL);
		break;
	case REAL:
		*(double *)option->where = strtod(text, NULL);
		break;
	case FLAG:
		*(bool *)option->where = *text && strcmp(text, "0") != 0;
		break;
	case TEXT:
		snprintf(option->where, FC_TEXT, "%s", text);
		break;
	}
}

static void defaults(void)
{
	fc.opt.devices = 1;
	fc.opt.version = 13000;
	fc.opt.mem = 8ull << 30;
	fc.opt.span = 64ull << 30;
	fc.opt.pinned = UINT64_MAX;
	fc.opt.pitch = INT32_MAX;
	fc.opt.sms = 132;
	fc.opt.capability = 90;
	fc.opt.check = true;
	fc.opt.kernelcheck = true;
	fc.opt.kernellimit = 2000000000;
}

/*
 * The devices are the GPUs whose numbers CUDA_VISIBLE_DEVICES has, up to the
 * first that does not exist; without it all GPUs.
 */
static void choose_gpus(void)
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	unsigned long n;
	unsigned chosen = 0;
	char *end;

	for (unsigned i = 0; i < fc.opt.devices; i++)
		fc.opt.gpu[i] = i;
	if (!text)
		return;
	for (; chosen < fc.opt.devices; chosen++) {
		n = strtoul(text, &end, 10);
		if (end == text || n >= fc.opt.devices)
			break;
		fc.opt.gpu[chosen] = (unsigned)n;
		text = *end == ',' ? end + 1 : end;
	}
	fc.opt.devices = chosen;
}

/* Called once, when the library is opened. */
void fc_options_read(void)
{
	char name[32];
	const char *text;
	size_t i;

	defaults();
	for (i = 0; i < OPTIONS; i++) {
		snprintf(name, sizeof(name), "FAKECUDA_%s", options[i].name);
		text = getenv(name);
		if (text)
			assign(&options[i], text);
	}
	if (fc.opt.devices > FC_DEVICES_MAX)
		fc.opt.devices = FC_DEVICES_MAX;
	choose_gpus();
	text = getenv("FAKECUDA_ARM");
	if (text)
		fc_arms_read(text);
	fc_report_open(getenv("FAKECUDA_LOG"), getenv("FAKECUDA_REPORT"));
}

int fakecuda_set(const char *name, const char *value)
{
	size_t i;

	for (i = 0; i < OPTIONS; i++) {
		if (strcmp(options[i].name, name))
			continue;
		if (!options[i].late)
			return -1;
		pthread_mutex_lock(&fc.lock);
		assign(&options[i], value);
		pthread_mutex_unlock(&fc.lock);
		return 0;
	}
	return -1;
}

/* True if @word (an ability or an entry point) is switched off. */
bool fc_no(const char *word)
{
	const char *p = fc.opt.no;
	size_t n = strlen(word), len;

	while (*p) {
		len = strcspn(p, ", ");
		if (len == n && !strncmp(p, word, n))
			return true;
		p += len;
		p += strspn(p, ", ");
	}
	return false;
}
