/* SPDX-License-Identifier: MIT */
/*
 * Reads to a device that were orphaned before a thread began them: the slots
 * reserved for them are used again. The device is the CPU, which is copied to
 * as to any other.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "alloc/slots.h"
#include "io/engine.h"
#include "core/sys.h"
#include "tap.h"

#define CHUNK ((size_t)64 << 10)
#define CHUNKS 8u /* as many as there are small slots */
#define SIZE (CHUNKS * CHUNK)
#define SECOND INT64_C(1000000000)

struct run {
	struct weir__job job;
	struct weir__extent ext;
	_Atomic int err;
	_Atomic uint32_t done;
};

static unsigned char bytes[SIZE], to[SIZE];
static struct weir__engine *eng;
static _Atomic bool hang;
static _Atomic unsigned hung;

/* In place of the C library's. */
ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (atomic_load(&hang) && !strncmp(name, "weir-cp", 7)) {
		atomic_fetch_add(&hung, 1);
		while (atomic_load(&hang))
			usleep(1000);
	}
	return syscall(SYS_pread64, fd, buf, n, off);
}

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, const struct weir__outcome *outcome,
		     enum weir__chunk_way way)
{
	struct run *run = job->arg;

	(void)ext, (void)lo, (void)hi, (void)way;
	if (outcome->end != WEIR__DONE)
		atomic_store(&run->err, weir__outcome_errno(outcome));
}

static void on_done(struct weir__job *job)
{
	struct run *run = job->arg;

	atomic_store(&run->done, 1);
}

/* Read the whole file, and return how that ended. */
static int read_to(struct run *run, struct weir_dev *dev,
		   struct weir_file *file)
{
	run->ext = (struct weir__extent){ .file = file,
					  .len = SIZE,
					  .addr = to,
					  .dev = dev,
					  .buffered = true };
	run->job.ext = &run->ext;
	run->job.n_ext = 1;
	run->job.chunk_done = on_chunk;
	run->job.done = on_done;
	run->job.arg = run;
	if (weir__job_start(eng, &run->job) < 0)
		bail("%s", weir_error());
	while (!atomic_load(&run->done))
		usleep(1000);
	return atomic_load(&run->err);
}

int main(void)
{
	static struct run late, next; /* the engine keeps late */
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_file *file;
	struct weir_dev *dev;
	struct weir *root;

	plan(4);
	files_begin();
	memset(bytes, 0x5a, SIZE);
	files_bytes("bytes", bytes, SIZE);
	o.io = WEIR_IO_SYNC;
	o.reactors = 1;
	o.copiers = 1;
	o.chunk = CHUNK;
	o.staging = 4 * CHUNKS * WEIR__SLOT_SMALL;
	o.read_timeout = SECOND / 2;
	if (weir_open(&o, &root) < 0 ||
	    weir_file_open(root, files_path("bytes"), NULL, &file) < 0 ||
	    weir_dev_find(root, "CPU", &dev) < 0 ||
	    weir__engine_get(root, &eng) < 0)
		bail("%s", weir_error());
	atomic_store(&hang, true);
	is_int(read_to(&late, dev, file), -ETIME,
	       "reads to a device that do not end are given up");
	atomic_store(&hang, false);
	is_int(hung, 1,
	       "a thread had begun one of the reads that are given up");
	/*
	 * The thread that hung then takes the reads that were only queued, and
	 * frees the slots that were reserved for them.
	 */
	for (int i = 0; i < 3000; i++) {
		next = (struct run){ .err = 0 };
		if (read_to(&next, dev, file) == 0)
			break;
		usleep(10000);
	}
	is_int(next.err, 0, "the next reads to a device have slots");
	ok(!memcmp(to, bytes, SIZE),
	   "the next reads to a device bring the right bytes");
	/* The late job references the file, too. */
	weir_close(root);
	return done_testing();
}
