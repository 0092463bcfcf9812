/* SPDX-License-Identifier: MIT */
/*
 * A reactor's loop is run by its thread, or by a copier that borrows the
 * reactor: either way each chunk is completed once, and no wakeup is lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "io/engine_state.h"
#include "io/reactor.h"
#include "core/sys.h"
#include "tap.h"
#include "core/clock.h"

#define CHUNK ((uint64_t)64 << 10)
#define N_CHUNKS ((uint64_t)320)
#define SIZE (N_CHUNKS * CHUNK)
#define THREADS 4u
#define ROUNDS 60u
#define PARTS 16u /* parts of a mixed job */
/* Bytes of a job of many, which are short: most wakeups are at their ends. */
#define SHORT (SIZE / 8)

static unsigned char *content;
static struct weir *root;
static struct weir__engine *eng;

struct run {
	struct weir__job job;
	struct weir__extent ext[PARTS];
	_Atomic uint64_t completed, good, by_copier; /* bytes, bytes, chunks */
	_Atomic uint32_t done;                       /* a futex */
};

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, const struct weir__outcome *outcome,
		     enum weir__chunk_way way)
{
	struct run *run = job->arg;
	char name[16] = "";

	(void)ext, (void)way;
	pthread_getname_np(pthread_self(), name, sizeof(name));
	atomic_fetch_add(&run->completed, hi - lo);
	if (outcome->end == WEIR__DONE)
		atomic_fetch_add(&run->good, hi - lo);
	if (!strncmp(name, "weir-cp", 7))
		atomic_fetch_add(&run->by_copier, 1);
}

static void on_done(struct weir__job *job)
{
	struct run *run = job->arg;

	atomic_fetch_add(&run->done, 1);
	weir__futex_wake(&run->done, INT32_MAX);
}

static void start_with(struct run *run, struct weir__extent *ext, size_t n)
{
	run->job.ext = ext;
	run->job.n_ext = n;
	run->job.chunk_done = on_chunk;
	run->job.done = on_done;
	run->job.arg = run;
	if (weir__job_start(eng, &run->job) < 0)
		bail("%s", weir_error());
}

static void start(struct run *run, size_t n)
{
	start_with(run, run->ext, n);
}

static void wait_for(struct run *run)
{
	while (!atomic_load(&run->done))
		weir__futex_wait(&run->done, 0, INT64_MAX);
}

static struct weir_file *open_file(const char *name, uint32_t flags)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	struct weir_file *f;

	o.flags = flags;
	if (weir_file_open(root, files_path(name), &o, &f) < 0)
		bail("%s", weir_error());
	return f;
}

static unsigned char *memory(void)
{
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bail("no memory");
	return p;
}

static bool open_with(const struct weir_opts *o)
{
	if (weir_open(o, &root) < 0)
		bail("%s", weir_error());
	if (weir__engine_get(root, &eng) == 0)
		return true;
	weir_close(root);
	return false;
}

/*
 * After another root has been closed. The kernel may uncharge the locked memory
 * of its ring later, which counts where RLIMIT_MEMLOCK is small.
 */
static void reopen(const struct weir_opts *o)
{
	for (int i = 0; i < 500; i++) {
		if (open_with(o))
			return;
		usleep(10000);
	}
	bail("%s", weir_error());
}

static bool open_root(uint32_t io, unsigned reactors)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.io = io;
	o.chunk = CHUNK;
	o.reactors = reactors;
	o.copiers = 2;
	return open_with(&o);
}

/* On a busy machine the thread may complete all chunks of a job by itself. */
#define TRIES 20

/* Cached chunks are completed by copiers, without the thread. */
static void borrowed(uint32_t io)
{
	unsigned char *mem = memory();
	struct weir_file *f = open_file("in", 0);
	struct weir_io_info info = { .size = sizeof(info) };
	struct run run = { 0 };
	uint64_t enters = 0;

	for (int i = 0; i < TRIES && !atomic_load(&run.by_copier); i++) {
		weir_io_info(root, &info);
		enters = info.enters;
		memset(&run, 0, sizeof(run));
		run.ext[0] = (struct weir__extent){
			.file = f, .len = SIZE, .addr = mem, .buffered = true
		};
		start(&run, 1);
		wait_for(&run);
	}
	weir_io_info(root, &info);
	ok(atomic_load(&run.good) == SIZE && !memcmp(mem, content, SIZE),
	   "cached chunks arrive");
	if (io == WEIR_IO_URING) {
		skip(2, "asked for explicitly, the ring reads all");
	} else {
		ok(atomic_load(&run.by_copier) > 0,
		   "copiers complete cached chunks: %llu of %llu",
		   (unsigned long long)atomic_load(&run.by_copier),
		   (unsigned long long)N_CHUNKS);
		if (info.method == WEIR_IO_SYNC)
			skip(1, "there is no ring");
		else
			ok(info.enters - enters <= N_CHUNKS / 4,
			   "cached chunks need few enters of the ring: %llu",
			   (unsigned long long)(info.enters - enters));
	}
	weir_file_close(f);
	munmap(mem, SIZE);
}

/* A file that was read directly does not keep copiers out later. */
static void borrowed_again(uint32_t io)
{
	unsigned char *mem = memory();
	struct weir_file *f = open_file("in", 0);
	struct run run = { 0 };

	if (io == WEIR_IO_URING) {
		skip(2, "asked for explicitly, the ring reads all");
	} else {
		for (int i = 0; i < TRIES && !atomic_load(&run.by_copier);
		     i++) {
			memset(&run, 0, sizeof(run));
			run.ext[0] = (struct weir__extent){ .file = f,
							    .len = SIZE / 8,
							    .addr = mem };
			run.ext[1] =
				(struct weir__extent){ .file = f,
						       .off = SIZE / 8,
						       .len = SIZE / 8 * 7,
						       .addr = mem + SIZE / 8,
						       .buffered = true };
			start(&run, 2);
			wait_for(&run);
		}
		ok(atomic_load(&run.good) == SIZE &&
			   !memcmp(mem, content, SIZE),
		   "direct chunks and then cached ones arrive");
		ok(atomic_load(&run.by_copier) > 0,
		   "copiers complete the cached chunks of a mixed job: %llu of %llu",
		   (unsigned long long)atomic_load(&run.by_copier),
		   (unsigned long long)N_CHUNKS / 8 * 7);
	}
	weir_file_close(f);
	munmap(mem, SIZE);
}

/* Read a part past the page cache, @n times. */
static void read_directly(struct weir_file *f, unsigned char *mem, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct run run = { 0 };

		run.ext[0] = (struct weir__extent){ .file = f,
						    .len = 64 * CHUNK,
						    .addr = mem };
		start(&run, 1);
		wait_for(&run);
		usleep(1000);
	}
}

/* A job that needs the thread gets its share beside one that copiers read. */
static void beside(uint32_t io)
{
	enum {
		LAPS = 4000,
		READS = 30
	};
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir__extent *ext = calloc(LAPS, sizeof(*ext));
	unsigned char *mem = memory(), *cached = memory();
	struct run run = { 0 };
	struct weir_file *f;

	o.io = io;
	o.reactors = 1;
	o.copiers = 2;
	o.depth = 1;
	o.chunk = 16 * CHUNK;
	if (!ext)
		bail("no memory");
	reopen(&o);
	f = open_file("in", 0);
	for (unsigned i = 0; i < LAPS; i++)
		ext[i] = (struct weir__extent){
			.file = f, .len = SIZE, .addr = cached, .buffered = true
		};
	start_with(&run, ext, LAPS);
	read_directly(f, mem, READS);
	/* Reads without their share of the window wait until the job ends. */
	ok(!atomic_load(&run.done),
	   "direct reads beside a long cached job do not wait for its end");
	ok(atomic_load(&run.good) > 0,
	   "a long cached job goes on beside direct reads");
	weir__job_cancel(&run.job);
	wait_for(&run);
	weir_close(root);
	weir_file_close(f);
	munmap(mem, SIZE);
	munmap(cached, SIZE);
	free(ext);
}

/* Parts that are cached, direct, direct through slots, round robin. */
static void make_mixed(struct run *run, struct weir_file *f, unsigned char *mem)
{
	const uint64_t part = SHORT / PARTS;

	for (unsigned i = 0; i < PARTS; i++)
		run->ext[i] = (struct weir__extent){
			.file = f,
			.off = i * part,
			.len = part - (i % 3 == 2 ? 8 : 0),
			.addr = mem + i * part + (i % 3 == 2 ? 8 : 0),
			.buffered = i % 3 == 0,
		};
}

static bool mixed_is_right(const unsigned char *mem)
{
	const uint64_t part = SHORT / PARTS;

	for (unsigned i = 0; i < PARTS; i++) {
		uint64_t skew = i % 3 == 2 ? 8 : 0;

		if (memcmp(mem + i * part + skew, content + i * part,
			   part - skew))
			return false;
	}
	return true;
}

struct guest {
	pthread_t thread;
	struct weir_file *in, *out;
	unsigned number;
	unsigned wrong;
};

static void mixed(struct guest *g, unsigned char *mem, bool cancel,
		  uint32_t depth)
{
	struct run run = { 0 };
	uint64_t bytes = 0;

	memset(mem, 0, SHORT);
	make_mixed(&run, g->in, mem);
	for (unsigned i = 0; i < PARTS; i++)
		bytes += run.ext[i].len;
	run.job.depth = depth;
	start(&run, PARTS);
	if (cancel)
		weir__job_cancel(&run.job);
	wait_for(&run);
	g->wrong += atomic_load(&run.completed) != bytes;
	g->wrong += !cancel && atomic_load(&run.good) != bytes;
	g->wrong += !cancel && !mixed_is_right(mem);
}

static void writing(struct guest *g, unsigned char *mem)
{
	struct run run = { .job.write = true };

	run.ext[0] = (struct weir__extent){ .file = g->out,
					    .len = SHORT,
					    .addr = content };
	start(&run, 1);
	wait_for(&run);
	g->wrong += atomic_load(&run.good) != SHORT;
	g->wrong += weir__file_read(g->out, mem, SHORT, 0) < 0 ||
		    memcmp(mem, content, SHORT) != 0;
}

static void *guest_main(void *arg)
{
	struct guest *g = arg;
	unsigned char *mem = memory();

	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned what = (i + g->number) % 5;

		if (what == 4)
			writing(g, mem);
		else
			mixed(g, mem, what == 3, what == 2 ? 3 : 0);
	}
	munmap(mem, SIZE);
	return NULL;
}

static void crowd(const char *what)
{
	struct guest guest[THREADS];
	unsigned wrong = 0;

	memset(guest, 0, sizeof(guest));
	for (unsigned i = 0; i < THREADS; i++) {
		char name[] = { 'o', (char)('0' + i), '\0' };

		guest[i].number = i;
		guest[i].in = open_file("in", 0);
		guest[i].out =
			open_file(name, WEIR_FILE_WRITE | WEIR_FILE_CREATE);
		if (pthread_create(&guest[i].thread, NULL, guest_main,
				   &guest[i]))
			bail("no thread");
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(guest[i].thread, NULL);
		weir_file_close(guest[i].in);
		weir_file_close(guest[i].out);
		wrong += guest[i].wrong;
	}
	is_int(wrong, 0, "%s", what);
}

static void *wake_for_nothing(void *arg)
{
	const _Atomic bool *end = arg;

	while (!atomic_load(end)) {
		weir__wakefd_signal(&eng->reactor[0]->wakefd);
		usleep(20);
	}
	return NULL;
}

/* A wake may come late, when a borrower owns the reactor. */
static void late_wakes(void)
{
	_Atomic bool end = false;
	pthread_t thread;

	if (pthread_create(&thread, NULL, wake_for_nothing, &end))
		bail("no thread");
	crowd("jobs of all kinds end as they should while the thread is woken for nothing");
	atomic_store(&end, true);
	pthread_join(thread, NULL);
}

/*
 * The root closes as soon as the last job has ended, whoever owns the reactor.
 */
static void closing(uint32_t io)
{
	unsigned char *mem = memory();
	unsigned wrong = 0;

	for (unsigned i = 0; i < 60; i++) {
		struct weir_opts o = WEIR_OPTS_INIT;
		struct run run = { 0 };
		struct weir_file *f;

		o.io = io;
		o.chunk = CHUNK;
		o.reactors = 1;
		o.copiers = 2;
		reopen(&o);
		f = open_file("in", 0);
		run.ext[0] = (struct weir__extent){ .file = f,
						    .len = CHUNK * (i % 7 + 1),
						    .addr = mem,
						    .buffered = true };
		start(&run, 1);
		if (i % 3 == 0)
			weir__job_cancel(&run.job);
		if (i % 2)
			weir_trim(root, 0);
		weir_close(root); /* waits for the job */
		weir_file_close(f);
		wrong += atomic_load(&run.done) != 1;
	}
	is_int(wrong, 0,
	       "a root that closes waits for a job that has just started");
	munmap(mem, SIZE);
}

static void contract(uint32_t io, unsigned reactors, const char *prefix)
{
	tap_prefix(prefix);
	if (!open_root(io, reactors)) {
		skip(10, "%s", weir_error());
		return;
	}
	borrowed(io);
	borrowed_again(io);
	crowd("jobs of all kinds at once end as they should");
	late_wakes();
	weir_close(root);
	beside(io);
	closing(io);
}

int main(void)
{
	plan(4 * 10);
	files_begin();
	content = memory();
	for (size_t i = 0; i < SIZE; i++)
		content[i] = (unsigned char)(i * 2654435761u >> 13);
	files_bytes("in", content, SIZE);
	contract(WEIR_IO_AUTO, 1, "auto: ");
	contract(WEIR_IO_AUTO, 2, "auto, two reactors: ");
	contract(WEIR_IO_URING, 2, "uring: ");
	contract(WEIR_IO_SYNC, 1, "sync: ");
	return done_testing();
}
