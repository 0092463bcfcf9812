/* SPDX-License-Identifier: MIT */
/* The contract of the I/O engine, over both methods. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "alloc/prefault.h"
#include "io/engine.h"
#include "core/sys.h"
#include "tap.h"

#define SIZE ((size_t)(21u << 20) + 1234)
#define GUARD 4096u

static char path[] = "/var/tmp/weir-engine-XXXXXX";
static unsigned char *content;
static struct weir *root;
static struct weir__engine *eng;

struct run {
	struct weir__job job;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	uint64_t reported, good;      /* bytes */
	struct weir__outcome outcome; /* the last that was not DONE */
	uint64_t ways[3];
	unsigned dones;
	uint32_t most; /* chunks in flight at once */
	unsigned cuts; /* chunks that end before their extent does */
	unsigned odd;  /* ... not at a multiple of the chunk size in memory */
};

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, const struct weir__outcome *outcome,
		     enum weir__chunk_way way)
{
	struct run *run = job->arg;
	uint32_t out = atomic_load(&job->out);
	const struct weir__extent *e = &job->ext[ext];

	pthread_mutex_lock(&run->lock);
	run->most = out > run->most ? out : run->most;
	run->reported += hi - lo;
	if (outcome->end != WEIR__DONE)
		run->outcome = *outcome;
	else
		run->good += hi - lo;
	run->ways[way] += hi - lo;
	run->cuts += hi < e->len;
	run->odd += hi < e->len &&
		    ((uintptr_t)e->addr + hi) % weir__engine_chunk_bytes(eng) !=
			    0;
	pthread_mutex_unlock(&run->lock);
}

static void on_done(struct weir__job *job)
{
	struct run *run = job->arg;

	pthread_mutex_lock(&run->lock);
	run->done = true;
	run->dones++;
	pthread_cond_signal(&run->cond);
	pthread_mutex_unlock(&run->lock);
}

static int start(struct run *run, struct weir__extent *ext, size_t n)
{
	memset(run, 0, sizeof(*run));
	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->cond, NULL);
	run->job.ext = ext;
	run->job.n_ext = n;
	run->job.chunk_done = on_chunk;
	run->job.done = on_done;
	run->job.arg = run;
	return weir__job_start(eng, &run->job);
}

static void wait_for(struct run *run)
{
	pthread_mutex_lock(&run->lock);
	while (!run->done)
		pthread_cond_wait(&run->cond, &run->lock);
	pthread_mutex_unlock(&run->lock);
}

static void make_file(const char *name, size_t bytes)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (size_t at = 0; at < bytes;)
		at += (size_t)write(fd, content + at, bytes - at);
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static struct weir_file *open_file(const char *name, uint32_t flags)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	struct weir_file *f;

	o.flags = flags;
	if (weir_file_open(root, name, &o, &f) < 0)
		bail("%s", weir_error());
	return f;
}

static unsigned char *memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bail("no memory");
	return p;
}

static bool only(const unsigned char *p, size_t n, unsigned char byte)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte)
			return false;
	return true;
}

/* Read [off, off + len) to an address that is @skew off from the file's. */
static void read_range(struct weir_file *f, uint64_t off, uint64_t len,
		       unsigned skew, bool buffered, const char *what)
{
	size_t room = len + 3 * GUARD;
	unsigned char *mem = memory(room);
	unsigned char *to = mem + GUARD + (off + skew) % GUARD;
	struct weir__extent ext = { .file = f,
				    .off = off,
				    .len = len,
				    .addr = to,
				    .buffered = buffered };
	struct run run;

	memset(mem, 0xa5, room);
	if (start(&run, &ext, 1) < 0)
		bail("%s", weir_error());
	wait_for(&run);
	is_int(run.outcome.end, WEIR__DONE, "%s arrives", what);
	ok(!memcmp(to, content + off, len), "%s has the bytes of the file",
	   what);
	ok(only(mem, (size_t)(to - mem), 0xa5) &&
		   only(to + len, room - len - (size_t)(to - mem), 0xa5),
	   "%s writes no byte beside its own", what);
	is_int(run.reported, len, "%s is reported once, byte for byte", what);
	munmap(mem, room);
}

static void ranges(void)
{
	struct weir_file *f = open_file(path, 0);

	read_range(f, 0, SIZE, 0, false, "a whole file, congruent,");
	read_range(f, 8, SIZE - 8, 0, false, "a range from byte 8, congruent,");
	read_range(f, 8, SIZE - 8, 8, false, "a range that is 8 bytes off");
	read_range(f, 4096, 4u << 20, 532, false,
		   "a range congruent modulo 532 only");
	read_range(f, 4095, 2, 1, false, "two bytes across a block's end");
	read_range(f, SIZE - 1, 1, 3, false, "the last byte");
	read_range(f, 12345, 5u << 20, 7, true,
		   "a range through the page cache");
	weir_file_close(f);
}

/* So that no huge page of fresh memory is shared by two copiers. */
static void cut_in_memory(void)
{
	struct weir_file *f = open_file(path, 0);
	size_t chunk = weir__engine_chunk_bytes(eng), from = 12345;
	unsigned char *mem = memory(6 * chunk);
	struct weir__extent ext = { .file = f,
				    .off = from,
				    .len = 5 * chunk,
				    .addr = mem + 777,
				    .buffered = true };
	struct run run;

	start(&run, &ext, 1);
	wait_for(&run);
	is_int(run.cuts, 5,
	       "a range of five chunks through the page cache is cut five times");
	is_int(run.odd, 0,
	       "chunks through the page cache end at multiples of their size in memory");
	ok(!memcmp(ext.addr, content + from, ext.len),
	   "a range that is cut in memory arrives with the bytes of the file");
	munmap(mem, 6 * chunk);
	weir_file_close(f);
}

static void many_extents(void)
{
	enum {
		N = 3000
	};
	struct weir_file *f = open_file(path, 0);
	struct weir__extent *ext = calloc(N, sizeof(*ext));
	unsigned char *mem = memory(64u << 20);
	uint64_t sum = 0, at = 0;
	struct run run;
	int wrong = 0;

	srand(7);
	for (int i = 0; i < N; i++) {
		uint64_t len = 1 + (uint64_t)rand() % 20000;
		uint64_t off = (uint64_t)rand() % (SIZE - len);

		ext[i] = (struct weir__extent){ .file = f,
						.off = off,
						.len = len,
						.addr = mem + at,
						.buffered = i % 3 == 0 };
		at += len;
		sum += len;
	}
	start(&run, ext, N);
	wait_for(&run);
	for (int i = 0; i < N; i++)
		wrong +=
			!!memcmp(ext[i].addr, content + ext[i].off, ext[i].len);
	is_int(wrong, 0, "%d extents of any size and place arrive", N);
	is_int(run.good, sum, "%d extents are each reported once", N);
	is_int(run.dones, 1, "a job of %d extents ends once", N);
	munmap(mem, 64u << 20);
	free(ext);
	weir_file_close(f);
}

static void past_the_end(void)
{
	struct weir_file *f = open_file(path, 0);
	unsigned char *mem = memory(16u << 20);
	struct weir__extent ext = { .file = f,
				    .off = SIZE - (5u << 20),
				    .len = 9u << 20,
				    .addr = mem };
	struct run run;

	start(&run, &ext, 1);
	wait_for(&run);
	is_int(run.outcome.end, WEIR__END_OF_FILE,
	       "a read beyond the end fails as such");
	ok(run.good >= 1u << 20 && run.good <= 5u << 20,
	   "of a read beyond the end the bytes before the end arrive");
	is_int(run.reported, ext.len,
	       "of a read beyond the end every byte is reported");
	munmap(mem, 16u << 20);
	weir_file_close(f);
}

static void cancel(void)
{
	enum {
		PART = 1 << 20
	};
	struct weir_file *f = open_file(path, 0);
	unsigned char *mem = memory(200 * (size_t)PART);
	struct weir__extent *ext = calloc(200, sizeof(*ext));
	struct run run;

	for (size_t i = 0; i < 200; i++)
		ext[i] = (struct weir__extent){ .file = f,
						.len = PART,
						.addr = mem + i * PART };
	start(&run, ext, 200);
	weir__job_cancel(&run.job);
	wait_for(&run);
	is_int(run.reported, 200 * PART,
	       "a cancelled job reports every byte once");
	is_int(run.outcome.end, WEIR__CANCELLED,
	       "a cancelled job ends as cancelled");
	ok(run.good < 200 * PART, "a cancelled job starts no more reads");
	munmap(mem, 200 * (size_t)PART);
	free(ext);
	weir_file_close(f);
}

/* The later of two jobs does not take the whole window, which is one chunk. */
static void round_robin(uint32_t io)
{
	enum {
		PART = 1 << 20,
		PARTS = 60
	};
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir__engine *old_eng = eng;
	struct weir *old_root = root;
	unsigned char *mem = memory(2 * PARTS * (size_t)PART);
	struct weir__extent ext[2 * PARTS];
	struct run first, second;
	struct weir_file *f;
	uint64_t reported;

	o.io = io;
	o.chunk = PART;
	o.depth = 1;
	o.reactors = 1;
	if (weir_open(&o, &root) < 0 || weir__engine_get(root, &eng) < 0)
		bail("%s", weir_error());
	f = open_file(path, 0);
	for (size_t i = 0; i < 2 * PARTS; i++)
		ext[i] = (struct weir__extent){ .file = f,
						.len = PART,
						.addr = mem + i * PART };
	start(&first, ext, PARTS);
	start(&second, ext + PARTS, PARTS);
	wait_for(&second);
	pthread_mutex_lock(&first.lock);
	reported = first.reported;
	pthread_mutex_unlock(&first.lock);
	ok(reported >= PARTS * (uint64_t)PART / 4 * 3,
	   "two jobs are served round robin: the later does not overtake the earlier");
	wait_for(&first);
	ok(first.most <= 1,
	   "no more chunks are in flight than the depth allows");
	munmap(mem, 2 * PARTS * (size_t)PART);
	weir_file_close(f);
	weir_close(root);
	root = old_root;
	eng = old_eng;
}

/* The window is larger for file systems whose answers take long. */
static void far_away(void)
{
	enum {
		PART = 4 << 20,
		PARTS = 40
	};
	struct weir_file *f = open_file(path, 0);
	unsigned char *mem = memory(PARTS * (size_t)PART);
	struct weir__extent ext[PARTS];
	struct run near, far;

	for (size_t i = 0; i < PARTS; i++)
		ext[i] = (struct weir__extent){ .file = f,
						.len = PART,
						.addr = mem + i * PART };
	start(&near, ext, PARTS);
	wait_for(&near);
	f->network = true;
	start(&far, ext, PARTS);
	wait_for(&far);
	ok(far.most > near.most && far.good == near.good,
	   "more is in flight from a network file system");
	munmap(mem, PARTS * (size_t)PART);
	weir_file_close(f);
}

/* Two reactors, one chunk at a time: each wakes the other. */
static void one_at_a_time(void)
{
	struct weir_file *f = open_file(path, 0);
	unsigned char *mem = memory(SIZE);
	struct weir__extent ext = { .file = f, .len = SIZE, .addr = mem };
	struct run run;

	memset(&run, 0, sizeof(run));
	pthread_mutex_init(&run.lock, NULL);
	pthread_cond_init(&run.cond, NULL);
	run.job = (struct weir__job){ .ext = &ext,
				      .n_ext = 1,
				      .depth = 1,
				      .chunk_done = on_chunk,
				      .done = on_done,
				      .arg = &run };
	weir__job_start(eng, &run.job);
	wait_for(&run);
	is_int(run.good, SIZE, "a job of depth 1 ends with two reactors");
	munmap(mem, SIZE);
	weir_file_close(f);
}

static void writing(void)
{
	char name[sizeof(path) + 8];
	unsigned char *back = memory(SIZE);
	struct weir_file *f;
	struct weir__extent ext = { .len = SIZE, .addr = content };
	struct run run;

	f = open_file(path, 0);
	ext.file = f;
	memset(&run, 0, sizeof(run));
	run.job.write = true;
	run.job.ext = &ext;
	run.job.n_ext = 1;
	is_int(weir__job_start(eng, &run.job), -EBADF,
	       "a file opened for reading is not written");
	weir_file_close(f);
	snprintf(name, sizeof(name), "%s.out", path);
	f = open_file(name, WEIR_FILE_WRITE | WEIR_FILE_CREATE);
	ext.file = f;
	memset(&run, 0, sizeof(run));
	pthread_mutex_init(&run.lock, NULL);
	pthread_cond_init(&run.cond, NULL);
	run.job = (struct weir__job){ .ext = &ext,
				      .n_ext = 1,
				      .write = true,
				      .chunk_done = on_chunk,
				      .done = on_done,
				      .arg = &run };
	weir__job_start(eng, &run.job);
	wait_for(&run);
	is_int(run.outcome.end, WEIR__DONE, "a file is written");
	weir__file_read(f, back, SIZE, 0);
	ok(!memcmp(back, content, SIZE),
	   "a file that is written has the bytes of the memory");
	weir_file_close(f);
	unlink(name);
	munmap(back, SIZE);
}

static void in_memory(void)
{
	char name[] = "/dev/shm/weir-engine-XXXXXX";
	int fd = mkstemp(name);
	struct weir_file *f;

	if (fd < 0) {
		skip(4, "no tmpfs");
		return;
	}
	close(fd);
	make_file(name, SIZE);
	f = open_file(name, 0);
	read_range(f, 100, SIZE - 100, 0, false, "a file of a tmpfs");
	weir_file_close(f);
	unlink(name);
}

static void refused_direct(void)
{
	struct weir_file *f = open_file(path, 0);

	/* As on a file system that needs larger blocks than it reports. */
	f->off_align = f->mem_align = 1;
	read_range(f, 533, 1u << 20, 1, false, "a range that O_DIRECT refuses");
	ok(!atomic_load(&f->direct_ok),
	   "a file that refused O_DIRECT is read through the page cache from then on");
	weir_file_close(f);
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	tap_prefix(prefix);
	o.io = io;
	o.reactors = io == WEIR_IO_AUTO ? 1 : 2;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	if (weir__engine_get(root, &eng) < 0) {
		skip(56, "%s", weir_error());
		weir_close(root);
		return;
	}
	ranges();
	cut_in_memory();
	many_extents();
	past_the_end();
	cancel();
	round_robin(io);
	far_away();
	one_at_a_time();
	writing();
	in_memory();
	refused_direct();
	weir_close(root);
}

int main(void)
{
	int fd;

	plan(3 * 56);
	fd = mkstemp(path);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	content = malloc(SIZE);
	for (size_t i = 0; i < SIZE; i++)
		content[i] = (unsigned char)(i * 2654435761u >> 13);
	make_file(path, SIZE);
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	unlink(path);
	return done_testing();
}
