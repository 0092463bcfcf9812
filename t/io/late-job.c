/* SPDX-License-Identifier: MIT */
/*
 * A job that needs a queue to a device and starts while the root closes, after
 * a job whose device's queue never opens. In a child process: the thread that
 * opens that queue never ends.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "dev/dev.h"
#include "io/engine.h"
#include "io/queues.h"
#include "core/sys.h"
#include "tap.h"

#define SIZE ((size_t)64 << 10)
#define SECOND INT64_C(1000000000)

struct run {
	struct weir__job job;
	struct weir__extent ext;
	unsigned char to[SIZE];
	_Atomic uint32_t end;  /* enum weir__end of its chunk */
	_Atomic uint32_t done; /* a futex */
};

static struct weir__engine *eng;
static struct run first, late;
static _Atomic uint32_t at_door;

/* In place of the library's; the late job goes on when the first has ended. */
bool __real_weir__queues_prepare(struct weir__engine *e, struct weir__job *job);
bool __wrap_weir__queues_prepare(struct weir__engine *e, struct weir__job *job);
bool __wrap_weir__queues_prepare(struct weir__engine *e, struct weir__job *job)
{
	if (job == &late.job) {
		atomic_store(&at_door, 1);
		while (!atomic_load(&first.done))
			usleep(1000);
	}
	return __real_weir__queues_prepare(e, job);
}

__attribute__((noreturn)) static int never_opens(struct weir_dev *dev,
						 unsigned flags,
						 const char *name,
						 void **ret_queue)
{
	(void)dev, (void)flags, (void)name, (void)ret_queue;
	for (;;)
		pause();
}

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, const struct weir__outcome *outcome,
		     enum weir__chunk_way way)
{
	struct run *run = job->arg;

	(void)ext, (void)lo, (void)hi, (void)way;
	atomic_store(&run->end, outcome->end);
}

static void on_done(struct weir__job *job)
{
	struct run *run = job->arg;

	atomic_store(&run->done, 1);
}

static int start(struct run *run, struct weir_dev *dev, struct weir_file *file)
{
	run->ext = (struct weir__extent){ .file = file,
					  .len = SIZE,
					  .addr = run->to,
					  .dev = dev,
					  .buffered = true };
	run->job.ext = &run->ext;
	run->job.n_ext = 1;
	run->job.chunk_done = on_chunk;
	run->job.done = on_done;
	run->job.arg = run;
	return weir__job_start(eng, &run->job);
}

static void *start_late(void *arg)
{
	start(&late, first.ext.dev, arg);
	return NULL;
}

static bool comes(_Atomic uint32_t *word)
{
	for (int i = 0; i < 30000 && !atomic_load(word); i++)
		usleep(1000);
	return atomic_load(word);
}

static int child(const char *path)
{
	static struct weir_backend backend;
	static struct weir_backend_queue_ops queue;
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_file *file;
	struct weir_dev *dev;
	struct weir *root;
	pthread_t thread;

	o.io = WEIR_IO_SYNC;
	o.close_timeout = SECOND / 5;
	if (weir_open(&o, &root) < 0 ||
	    weir_file_open(root, path, NULL, &file) < 0 ||
	    weir_dev_find(root, "CPU", &dev) < 0 ||
	    weir__engine_get(root, &eng) < 0)
		return 1;
	backend = *dev->backend;
	queue = *backend.queue;
	queue.open = never_opens;
	backend.queue = &queue;
	dev->backend = &backend;
	if (start(&first, dev, file) < 0 ||
	    pthread_create(&thread, NULL, start_late, file) || !comes(&at_door))
		return 2;
	weir_close(root);
	pthread_join(thread, NULL);
	if (!comes(&first.done) || first.end != WEIR__ABANDONED)
		return 3;
	return comes(&late.done) && late.end == WEIR__ABANDONED ? 0 : 4;
}

int main(void)
{
	static const unsigned char bytes[SIZE];
	int status = -1;
	pid_t pid;

	plan(1);
	files_begin();
	files_bytes("bytes", bytes, SIZE);
	pid = fork();
	if (!pid) {
		alarm(300);
		_exit(child(files_path("bytes")));
	}
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "a job that starts while the root gives up on a device ends as abandoned");
	return done_testing();
}
