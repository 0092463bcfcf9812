/* SPDX-License-Identifier: MIT */
/*
 * Loads that check each tensor against a manifest, against loads that do not;
 * and digests of all tensors of a model.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "core/hash.h"

#define BLOCK ((size_t)16 << 10) /* as `openssl speed` hashes */
#define MAX_THREADS 64

struct verified {
	const struct file *file;
	struct weir_manifest *manifest;
	enum weir_digest kind;
	unsigned char *mem; /* prefaulted; NULL: not needed */
	unsigned threads;
	struct loader loader;
};

/* Read the model and compute its digests, in no memory of its own. */
static void digest_model(struct verified *v, struct weir_manifest **ret,
			 struct sample *s)
{
	struct weir_sink sink = WEIR_SINK_INIT;
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *l;

	must(weir_model_open(v->loader.weir, v->file->path, NULL, &model));
	must(weir_plan_new(model, &plan));
	must(weir_plan_digest(plan, v->kind));
	must(weir_plan_sink(plan, NULL, &sink));
	must(weir_load_start(plan, NULL, &l));
	must(weir_load_wait(l, -1));
	must(weir_load_manifest(l, ret));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = v->file->bytes;
	weir_load_free(l);
	weir_plan_free(plan);
	weir_model_close(model);
}

static void digests(void *arg, struct sample *s)
{
	struct weir_manifest *manifest;

	digest_model(arg, &manifest, s);
	weir_manifest_close(manifest);
}

static void load_unchecked(void *arg, struct sample *s)
{
	struct verified *v = arg;

	v->loader.manifest = NULL;
	loader_load_kept(&v->loader, v->file, LOADER_WHOLE, s);
}

static void load_checked(void *arg, struct sample *s)
{
	struct verified *v = arg;

	v->loader.manifest = v->manifest;
	loader_load_kept(&v->loader, v->file, LOADER_WHOLE, s);
	v->loader.manifest = NULL;
}

static void read_directly(void *arg, struct sample *s)
{
	struct verified *v = arg;
	struct raw_result r = raw_direct(v->file->path, v->mem, CHUNK, DEPTH);

	s->seconds = r.seconds;
	s->cpu = r.cpu_seconds;
	s->bytes = r.bytes;
}

struct hashing {
	uint64_t bytes;
	pthread_t thread;
};

static void *hash_block(void *arg)
{
	static const unsigned char block[BLOCK];
	struct hashing *h = arg;
	struct weir__hash hash;
	uint8_t digest[WEIR__DIGEST_MAX];

	if (weir__hash_start(&hash, WEIR_DIGEST_SHA256) < 0)
		die("no memory for a digest");
	for (uint64_t at = 0; at < h->bytes; at += BLOCK)
		weir__hash_update(&hash, block, BLOCK);
	weir__hash_finish(&hash, digest);
	return NULL;
}

/* As `openssl speed -multi`: a block in the cache, on each CPU. */
static void hash_blocks(void *arg, struct sample *s)
{
	struct verified *v = arg;
	struct hashing h[MAX_THREADS];
	double cpu = raw_cpu(), begun = raw_now();

	for (unsigned i = 0; i < v->threads; i++) {
		h[i].bytes = v->file->bytes / v->threads;
		if (pthread_create(&h[i].thread, NULL, hash_block, &h[i]))
			die("no thread");
	}
	for (unsigned i = 0; i < v->threads; i++)
		pthread_join(h[i].thread, NULL);
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = v->file->bytes;
}

static void run(struct verified *v, struct pair *p, double goal, unsigned pairs)
{
	struct sample s;
	struct result r;

	loader_open(&v->loader, 0);
	digest_model(v, &v->manifest, &s);
	p->file_a = p->file_b = v->file;
	p->arg = v;
	pair_run(p, pairs, false, &r);
	r.judged = goal ? GOAL_RATIO : GOAL_NONE;
	r.goal = goal;
	result_add(&r);
	weir_manifest_close(v->manifest);
	loader_close(&v->loader);
}

void row_verify_cold(unsigned pairs)
{
	struct verified v = { .file = model_large() };
	struct pair p = { .name = "verify by XXH3-128, cold",
			  .limit = "load into prefaulted memory",
			  .a = load_unchecked,
			  .b = load_checked };

	run(&v, &p, 0.90, pairs);
}

void row_verify_resident(unsigned pairs)
{
	struct verified v = { .file = model_large() };
	struct pair p = { .name = "verify by XXH3-128, resident",
			  .limit = "load into prefaulted memory",
			  .resident = true,
			  .a = load_unchecked,
			  .b = load_checked };

	run(&v, &p, 0, pairs);
}

void row_digest_cold(unsigned pairs)
{
	struct verified v = { .file = model_large() };
	struct pair p = { .name = "digests by XXH3-128, cold",
			  .limit = "O_DIRECT, 8 reads of 4 MiB",
			  .a = read_directly,
			  .b = digests };

	v.mem = raw_memory((v.file->bytes / CHUNK + 1) * CHUNK);
	run(&v, &p, 0.90, pairs);
	raw_unmap(v.mem, (v.file->bytes / CHUNK + 1) * CHUNK);
}

void row_digest_sha256(unsigned pairs)
{
	struct verified v = { .file = model_large(),
			      .kind = WEIR_DIGEST_SHA256 };
	struct pair p = { .name = "digests by SHA-256, resident",
			  .limit = "SHA-256 of a block on each CPU",
			  .resident = true,
			  .a = hash_blocks,
			  .b = digests };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	v.threads = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : cpus;
	run(&v, &p, 0.90, pairs);
}
