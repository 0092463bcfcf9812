/* SPDX-License-Identifier: MIT */
/* Costs of a load besides its bytes: slots, enters, page faults, peak RSS. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define MIB 1048576.0

static double faults(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_minflt + u.ru_majflt);
}

#define NO_GOAL -1.0

static void add(const char *name, const char *file, const char *unit,
		double value, double goal)
{
	struct result r = { .unit = unit,
			    .value = value,
			    .judged = goal < 0 ? GOAL_NONE : GOAL_VALUE,
			    .goal = goal };

	snprintf(r.name, sizeof(r.name), "%s, %s", name, file);
	result_add(&r);
}

/*
 * The third load to the same memory. @tables: most of the faults are of tables
 * of tensors, so they are printed but not judged.
 */
static void steady(const struct file *f, const char *label, bool tables)
{
	struct loader u;
	struct sample s;
	double before, chunks, staging;

	loader_open(&u, 0);
	bench_ready(f, false);
	loader_load_kept(&u, f, LOADER_WHOLE, &s); /* two */
	staging = (double)u.report.staging;
	bench_ready(f, false);
	before = faults();
	loader_load_kept(&u, f, LOADER_WHOLE, &s);
	before = faults() - before;
	chunks = (double)(u.report.bytes + u.report.over_read) / (double)CHUNK;
	add("staging", label, "MiB", (double)u.report.staging / MIB, 64);
	add("staging, more with each load", label, "MiB",
	    ((double)u.report.staging - staging) / MIB, 0);
	add("enters, each 4 MiB", label, "", (double)u.report.enters / chunks,
	    0.5);
	add(tables ? "faults by tables, each 4 MiB" : "faults, each 4 MiB",
	    label, "", before / chunks, tables ? NO_GOAL : 0.1);
	loader_close(&u);
}

void row_steady(unsigned pairs)
{
	(void)pairs;
	steady(model_large(), "large", false);
	steady(model_many(), "many", true);
}

static double allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return (double)(m.uordblks + m.hblkhd);
}

/* A value of /proc/self/status, in bytes. */
static double status_bytes(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	size_t n = strlen(key);
	double kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, n) && sscanf(line + n, ": %lf", &kib))
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "5", 1) != 1)
		die("the peak of memory cannot be reset");
	close(fd);
}

struct peak {
	double rss, bytes, staging, tables;
};

/* In a new process, in which no memory was freed before. */
static void measure_peak(const struct file *f, struct peak *ret)
{
	struct weir_weights *w;
	struct sample s;
	struct loader u;
	double before;

	loader_open(&u, 0);
	reset_peak();
	ret->tables = allocated();
	before = status_bytes("VmRSS");
	loader_load(&u, f, LOADER_WHOLE, NULL, &w, &s);
	ret->rss = status_bytes("VmHWM") - before;
	ret->bytes = (double)u.report.bytes;
	ret->staging = (double)u.report.staging;
	/* tables of model and weights */
	ret->tables = allocated() - ret->tables;
	_exit(0);
}

static void peak(const struct file *f, const char *label, bool resident)
{
	struct peak *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char name[24];
	int status;
	pid_t pid;

	if (p == MAP_FAILED)
		die("no memory");
	bench_ready(f, resident);
	pid = fork();
	if (!pid)
		measure_peak(f, p);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die("the peak could not be measured");
	snprintf(name, sizeof(name), "%s, %s", label,
		 resident ? "resident" : "cold");
	printf("peak, %s: %.1f MiB = %.1f of tensors + %.1f of slots + %.1f of tables + %.1f\n",
	       name, p->rss / MIB, p->bytes / MIB, p->staging / MIB,
	       p->tables / MIB,
	       (p->rss - p->bytes - p->staging - p->tables) / MIB);
	add("peak beyond these", name, "MiB",
	    (p->rss - p->bytes - p->staging - p->tables) / MIB, 16);
	munmap(p, sizeof(*p));
}

void row_peak(unsigned pairs)
{
	(void)pairs;
	peak(model_large(), "large", false);
	peak(model_large(), "large", true);
	peak(model_many(), "many", false);
}
