/* SPDX-License-Identifier: MIT */
/* Jobs of an engine that reads from the null source. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "null.h"
#include "raw.h"
#include "core/sys.h"

#define FILE_BYTES (64ull << 30)

struct weir_file *null_file;

static struct weir *weir;
static struct weir__engine *eng;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool done;

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, const struct weir__outcome *outcome,
		     enum weir__chunk_way way)
{
	(void)job, (void)ext, (void)lo, (void)hi, (void)way;
	if (outcome->end != WEIR__DONE)
		die("a chunk failed: %s", weir__outcome_describe(outcome));
}

static void on_done(struct weir__job *job)
{
	(void)job;
	pthread_mutex_lock(&lock);
	done = true;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&lock);
}

static int make(struct weir *w, struct weir__part **ret)
{
	return weir__engine_make(w, &null_method, ret);
}

/* A sparse file, of which only the descriptor is used. */
static void open_file(void)
{
	char path[] = "/tmp/weir-bench-null-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || ftruncate(fd, (off_t)FILE_BYTES) < 0)
		die("%s cannot be made", path);
	close(fd);
	if (weir_file_open(weir, path, NULL, &null_file) < 0)
		die("%s", weir_error());
	unlink(path);
	/* As on a local disk, whatever file system /tmp has. */
	atomic_store(&null_file->direct_ok, true);
	null_file->nowait = true;
}

void null_open(const char *device, const char *module_path,
	       struct weir_dev **ret_dev)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir__part *part;

	opts.reactors = 1; /* the source has no lock */
	opts.module_path = module_path;
	if (weir_open(&opts, &weir) < 0 ||
	    weir__root_part(weir, WEIR__PART_IO, make, &part) < 0 ||
	    weir__engine_get(weir, &eng) < 0 ||
	    weir_backend_add(weir, null_entry) < 0 ||
	    weir_dev_find(weir, device, ret_dev) < 0)
		die("%s", weir_error());
	open_file();
}

void null_close(void)
{
	weir_file_close(null_file);
	weir_close(weir);
}

uint64_t null_chunk(void)
{
	return weir__engine_chunk_bytes(eng);
}

double null_run(struct weir__extent *ext, size_t n)
{
	struct weir__job job = {
		.ext = ext, .n_ext = n, .chunk_done = on_chunk, .done = on_done
	};
	double begun = raw_now();

	null_source.free = null_sink.free = 0;
	done = false;
	if (weir__job_start(eng, &job) < 0)
		die("%s", weir_error());
	pthread_mutex_lock(&lock);
	while (!done)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	return raw_now() - begun;
}
