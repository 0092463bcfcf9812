/* SPDX-License-Identifier: MIT */
#include "models.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "raw.h"

#define MANY (tiny ? 100u : 100000u)
#define MANY_BYTES (32u << 10)
#define WIDE (tiny ? 1u : 1024u) /* rows of 1 MiB */
#define STEP ((size_t)1 << 20)

static char folder[3500];
static bool tiny;

void models_dir(const char *dir, bool only_tiny)
{
	int fd; /* locked until the process ends */

	if (snprintf(folder, sizeof(folder), "%s", dir) >= (int)sizeof(folder))
		die("the name of the folder is too long");
	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		die("%s: %s", folder, strerror(errno));
	tiny = only_tiny;
	/* Two benches would evict each other's files from the page cache. */
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", folder, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		fprintf(stderr, "%s: waiting for another bench\n", folder);
		flock(fd, LOCK_EX);
	}
}

/* Whether the file exists. If not, *ret_part is the path to write to. */
static bool have(struct file *f, const char *name, char ret_part[4096])
{
	struct stat st;

	const char *kind = tiny ? "tiny-" : "";

	snprintf(f->path, sizeof(f->path), "%s/%s%s", folder, kind, name);
	snprintf(ret_part, 4096, "%s/part-%s%s", folder, kind, name);
	if (stat(f->path, &st) < 0)
		return false;
	f->bytes = (uint64_t)st.st_size;
	return true;
}

/* The file is complete: rename it, and read it once. */
static void keep(struct file *f, const char *part)
{
	struct stat st;

	raw_cold(part); /* on the disk, not only in the page cache */
	if (rename(part, f->path) < 0 || stat(f->path, &st) < 0)
		die("%s: %s", f->path, strerror(errno));
	f->bytes = (uint64_t)st.st_size;
	raw_warm(f->path);
}

/* @option with @value: --count, or --scale. */
static void synth(const char *preset, const char *out, const char *option,
		  const char *value)
{
	const char *const argv[] = { BENCH_WEIR, "synth", preset, out,
				     "--force",  option,  value,  NULL };
	int status;
	pid_t pid = fork();

	if (!pid) {
		execv(argv[0], (char *const *)(uintptr_t)argv);
		execvp("weir", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die("%s synth %s %s failed", BENCH_WEIR, preset, out);
}

static void make(struct file *f, const char *name, const char *preset,
		 const char *option, const char *value)
{
	char part[4096];

	if (f->bytes || have(f, name, part))
		return;
	fprintf(stderr, "writing %s\n", f->path);
	synth(preset, part, option, value);
	keep(f, part);
}

const struct file *model_large(void)
{
	static struct file f;

	make(&f, "tl.safetensors", "tinyllama-1.1b", "--scale",
	     tiny ? "0.001" : "1");
	return &f;
}

const struct file *model_many(void)
{
	static struct file f;

	make(&f, "many.safetensors", "many", "--count",
	     tiny ? "100" : "100000");
	return &f;
}

const struct file *model_small(void)
{
	static struct file f;

	make(&f, "small.safetensors", "many", "--count", tiny ? "50" : "20000");
	return &f;
}

/* A scaled tensor has at least one row, so --tiny uses another model. */
const struct file *model_qwen(void)
{
	static struct file f;

	if (tiny)
		make(&f, "qwen.safetensors", "tiny", "--scale", "1");
	else
		make(&f, "qwen.safetensors", "qwen3-30b-a3b", "--scale",
		     "0.053");
	return &f;
}

static FILE *create(const char *part)
{
	FILE *f = fopen(part, "we");

	if (!f)
		die("%s: %s", part, strerror(errno));
	return f;
}

static void finish(FILE *f, const char *part)
{
	if (ferror(f) || fclose(f))
		die("%s: %s", part, strerror(errno));
}

/* The length first, and spaces up to a multiple of 64 at the end. */
static void put_header(FILE *f, const char *json, size_t n)
{
	uint64_t all = (8 + n + 63) / 64 * 64 - 8, le = htole64(all);

	fwrite(&le, sizeof(le), 1, f);
	fwrite(json, n, 1, f);
	for (; n < all; n++)
		putc(' ', f);
}

/* Random bytes, which a disk cannot compress. */
static void put_noise(FILE *f, uint64_t bytes)
{
	uint64_t x = 88172645463325252ull, *buf = malloc(STEP);

	if (!buf)
		die("no memory");
	for (uint64_t at = 0; at < bytes; at += STEP) {
		for (size_t i = 0; i < STEP / sizeof(*buf); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			buf[i] = x;
		}
		fwrite(buf, bytes - at < STEP ? bytes - at : STEP, 1, f);
	}
	free(buf);
}

/* A file of one tensor of random bytes. */
static const struct file *one_tensor(struct file *f, const char *name,
				     const char *dtype, uint64_t rows,
				     uint64_t width, uint64_t bytes)
{
	char part[4096], json[160];
	FILE *out;
	int n;

	if (f->bytes || have(f, name, part))
		return f;
	fprintf(stderr, "writing %s\n", f->path);
	n = snprintf(json, sizeof(json),
		     "{\"all\":{\"dtype\":\"%s\",\"shape\":[%llu,%llu],"
		     "\"data_offsets\":[0,%llu]}}",
		     dtype, (unsigned long long)rows, (unsigned long long)width,
		     (unsigned long long)bytes);
	out = create(part);
	put_header(out, json, (size_t)n);
	put_noise(out, bytes);
	finish(out, part);
	keep(f, part);
	return f;
}

const struct file *model_one(void)
{
	static struct file f;

	return one_tensor(&f, "one.safetensors", "U8", MANY, MANY_BYTES,
			  (uint64_t)MANY * MANY_BYTES);
}

const struct file *model_wide(void)
{
	static struct file f;

	return one_tensor(&f, "wide.safetensors", "BF16", WIDE, STEP / 2,
			  WIDE * STEP);
}

const struct file *model_f8(void)
{
	static struct file f;

	return one_tensor(&f, "f8.safetensors", "F8_E4M3", WIDE, STEP,
			  WIDE * STEP);
}

static void write_table(const char *part, unsigned n)
{
	size_t room = (size_t)n * 96 + 64, at = 0;
	char *json = malloc(room);
	FILE *f = create(part);
	long header;

	if (!json)
		die("no memory");
	for (unsigned i = 0; i < n; i++)
		at += (size_t)snprintf(
			json + at, room - at,
			"%s\"t%u\":{\"dtype\":\"U8\",\"shape\":[16],"
			"\"data_offsets\":[%u,%u]}",
			i ? "," : "{", i, 16 * i, 16 * i + 16);
	at += (size_t)snprintf(json + at, room - at, "}");
	put_header(f, json, at);
	free(json);
	header = ftell(f);
	fflush(f);
	if (ftruncate(fileno(f), header + 16 * (off_t)n) < 0)
		die("%s: %s", part, strerror(errno));
	finish(f, part);
}

const struct file *model_table(unsigned n)
{
	static struct file f;
	char name[64], part[4096];

	snprintf(name, sizeof(name), "table-%u.safetensors", n);
	if (!have(&f, name, part)) {
		write_table(part, n);
		keep(&f, part);
	}
	raw_warm(f.path);
	return &f;
}
