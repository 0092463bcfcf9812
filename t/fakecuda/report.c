/* SPDX-License-Identifier: MIT */
/* Counts, the log of calls, and the report at exit. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"

static FILE *log_file;
static char report_name[1024];

/* Called after the options are read, without a lock, by the only thread. */
void fc_report_open(const char *log, const char *report)
{
	if (log) {
		log_file = fopen(log, "ae");
		if (log_file)
			setvbuf(log_file, NULL, _IOLBF, 0);
	}
	if (report)
		snprintf(report_name, sizeof(report_name), "%s", report);
}

bool fc_logging(void)
{
	return log_file != NULL;
}

/* Log a line after the thread's id. Under fc.lock, so lines are in order. */
void fc_log(const char *fmt, ...)
{
	va_list args;

	if (!log_file)
		return;
	fprintf(log_file, "%ld ", (long)syscall(SYS_gettid));
	va_start(args, fmt);
	vfprintf(log_file, fmt, args);
	va_end(args);
	fputc('\n', log_file);
}

void fc_made(enum fakecuda_thing thing)
{
	fc.count.made[thing]++;
	fc.count.live[thing]++;
}

void fc_went(enum fakecuda_thing thing)
{
	fc.count.live[thing]--;
}

void fc_went_with_context(enum fakecuda_thing thing)
{
	fc.count.live[thing]--;
	fc.count.lost[thing]++;
}

void fakecuda_counts(struct fakecuda_counts *ret)
{
	pthread_mutex_lock(&fc.lock);
	*ret = fc.count;
	pthread_mutex_unlock(&fc.lock);
}

const char *fakecuda_misuse(void)
{
	return fc.misuse;
}

const char *fakecuda_finding(void)
{
	return fc.finding;
}

/* Under fc.lock. Entries are never freed. */
static struct counted {
	struct counted *next;
	struct fakecuda_kernel k;
	char name[];
} * counted;

static struct counted *counted_of(const char *name)
{
	struct counted *c = counted;

	while (c && strcmp(c->name, name))
		c = c->next;
	return c;
}

static void counts_add(struct fakecuda_kernel *k, const struct ptx_counts *c)
{
	k->launches += c->launches;
	k->blocks += c->blocks;
	k->instructions += c->instructions;
	k->lane_instructions += c->lane_instructions;
	k->load_requests += c->load_requests;
	k->load_sectors += c->load_sectors;
	k->load_bytes += c->load_bytes;
	k->store_requests += c->store_requests;
	k->store_sectors += c->store_sectors;
	k->store_bytes += c->store_bytes;
	k->shared_requests += c->shared_requests;
	k->bank_conflicts += c->bank_conflicts;
	k->barriers += c->barriers;
	k->watched_sectors += c->watched_sectors;
}

void fc_kernel_counted(struct ptx_kernel *kernel, const struct ptx_counts *c)
{
	struct ptx_kernel_info info;
	struct counted *entry;

	ptx_kernel_info(kernel, &info);
	entry = counted_of(info.name);
	if (!entry) {
		entry = calloc(1, sizeof(*entry) + strlen(info.name) + 1);
		if (!entry)
			return;
		memcpy(entry->name, info.name, strlen(info.name));
		entry->next = counted;
		counted = entry;
	}
	counts_add(&entry->k, c);
}

int fakecuda_kernel(const char *name, struct fakecuda_kernel *ret)
{
	const struct counted *c;

	pthread_mutex_lock(&fc.lock);
	c = counted_of(name);
	if (c)
		*ret = c->k;
	pthread_mutex_unlock(&fc.lock);
	return c ? 0 : -1;
}

const char *fakecuda_kernel_name(unsigned i)
{
	const struct counted *c;

	pthread_mutex_lock(&fc.lock);
	for (c = counted; c && i; i--)
		c = c->next;
	pthread_mutex_unlock(&fc.lock);
	return c ? c->name : NULL;
}

void fakecuda_watch(uint64_t ptr, size_t bytes)
{
	pthread_mutex_lock(&fc.lock);
	fc.watch_start = ptr;
	fc.watch_end = ptr + bytes;
	pthread_mutex_unlock(&fc.lock);
}

unsigned long fakecuda_calls(const char *fn)
{
	const struct fc_site *site;
	unsigned long n = 0;

	pthread_mutex_lock(&fc.lock);
	for (site = fc.sites; site; site = site->next) {
		if (!fn || !strcmp(site->name, fn))
			n += site->calls;
	}
	pthread_mutex_unlock(&fc.lock);
	return n;
}

static void report_things(FILE *file)
{
	static const char *const names[FAKECUDA_THINGS] = {
		"device-memory", "host-memory", "registered", "stream",
		"event",         "context",     "retained",   "addresses",
		"module",        "library",     "graph",      "graph-exec",
	};
	int i;

	for (i = 0; i < FAKECUDA_THINGS; i++)
		fprintf(file, "%s made %lu live %lu lost %lu\n", names[i],
			fc.count.made[i], fc.count.live[i], fc.count.lost[i]);
}

/* At exit, under fc.lock. README.md has the format. */
void fc_report(void)
{
	FILE *file;

	if (!*report_name)
		return;
	file = fopen(report_name, "ae");
	if (!file)
		return;
	report_things(file);
	fprintf(file, "device-bytes live %llu peak %llu\n",
		(unsigned long long)fc.count.device_bytes,
		(unsigned long long)fc.count.device_peak);
	fprintf(file, "operations queued %lu finished %lu\n", fc.count.queued,
		fc.count.finished);
	fprintf(file, "bytes to-device %llu to-host %llu pageable %llu\n",
		(unsigned long long)fc.count.to_device,
		(unsigned long long)fc.count.to_host,
		(unsigned long long)fc.count.pageable);
	fprintf(file, "misuse %lu%s%s\n", fc.count.misuse,
		*fc.misuse ? " last: " : "", fc.misuse);
	fprintf(file, "reused %lu\n", fc.count.reused);
	fprintf(file, "findings %lu%s%s\n", fc.count.findings,
		fc.count.findings ? " last: " : "",
		fc.count.findings ? fc.finding : "");
	fclose(file);
}
