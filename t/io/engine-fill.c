/* SPDX-License-Identifier: MIT */
/* Jobs whose chunks are filled by their owner, and written: all methods. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#include "io/engine.h"
#include "core/sys.h"
#include "files.h"
#include "tap.h"

#define BLOCK 4096u
#define SIZE ((size_t)(17u << 20) + 1234)

static struct weir *root;
static struct weir__engine *eng;
static unsigned char *content;

enum place {
	SLOT,   /* the bytes are written to the slot */
	MEMORY, /* they are in memory whose addresses are aligned */
	SKEWED, /* they are in memory whose addresses are not */
	MIXED   /* one chunk after the other, as the first two */
};

struct run {
	struct weir__job job;
	enum place place;
	_Atomic unsigned fills;
	unsigned fail_at;   /* the fill that fails; 0: none */
	unsigned cancel_at; /* the fill that cancels the job */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	unsigned dones;
	uint64_t reported, good, ways[3];
	struct weir__outcome bad; /* the last that was not DONE */
};

static int fill(struct weir__job *job, size_t ext, uint64_t lo, uint64_t hi,
		unsigned char *room, unsigned char **ret_bytes)
{
	struct run *run = job->arg;
	unsigned n = atomic_fetch_add(&run->fills, 1) + 1;
	unsigned char *from = content + (run->place == SKEWED) + ext * BLOCK;
	bool copy = run->place == SLOT || (run->place == MIXED && n % 2);

	if (n == run->fail_at)
		return -EDOM;
	if (n == run->cancel_at)
		weir__job_cancel(job);
	if (copy)
		memcpy(room, from + lo, hi - lo);
	else
		*ret_bytes = from + lo;
	return 0;
}

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, const struct weir__outcome *outcome,
		     enum weir__chunk_way way)
{
	struct run *run = job->arg;

	(void)ext;
	pthread_mutex_lock(&run->lock);
	run->reported += hi - lo;
	if (outcome->end == WEIR__DONE) {
		run->good += hi - lo;
		run->ways[way] += hi - lo;
	} else {
		run->bad = *outcome;
	}
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

static struct weir_file *make_file(const char *name, uint32_t flags)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	struct weir_file *f;

	unlink(files_path(name));
	o.flags = WEIR_FILE_WRITE | WEIR_FILE_CREATE | flags;
	if (weir_file_open(root, files_path(name), &o, &f) < 0)
		bail("%s", weir_error());
	return f;
}

/* Start the job of extents of @ext, and wait for its end. */
static int run_job(struct run *run, struct weir__extent *ext, size_t n)
{
	int r;

	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->cond, NULL);
	run->job.ext = ext;
	run->job.n_ext = n;
	run->job.write = true;
	run->job.own_reads.whole = true;
	run->job.eng = eng;
	run->job.fill = fill;
	run->job.chunk_done = on_chunk;
	run->job.done = on_done;
	run->job.arg = run;
	r = weir__job_start(eng, &run->job);
	pthread_mutex_lock(&run->lock);
	while (r == 0 && !run->done)
		pthread_cond_wait(&run->cond, &run->lock);
	pthread_mutex_unlock(&run->lock);
	return r;
}

/* True if the file has the @n bytes at @want, and zeros up to a block. */
static bool file_has(const char *name, const unsigned char *want, size_t n)
{
	unsigned char *got = malloc(SIZE + BLOCK);
	int fd = open(files_path(name), O_RDONLY);
	size_t have = 0;
	bool same;

	for (ssize_t r = 1; r > 0 && have < SIZE + BLOCK; have += (size_t)r) {
		r = read(fd, got + have, SIZE + BLOCK - have);
		if (r < 0)
			bail("read");
	}
	close(fd);
	same = have >= n && have < n + BLOCK && !memcmp(got, want, n);
	for (size_t i = n; i < have && same; i++)
		same = !got[i];
	free(got);
	return same;
}

static void write_whole(enum place place, uint32_t flags, const char *what)
{
	static const size_t bytes[] = { 1, 4096, (4u << 20), SIZE };
	struct weir_file *f = make_file("whole", flags);
	bool direct = atomic_load(&f->direct_ok), right = true, way = true;

	weir_file_close(f);
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		struct run run = { .place = place };
		struct weir__extent ext = { .len = bytes[i] };
		uint64_t buffered;

		f = ext.file = make_file("whole", flags);
		if (run_job(&run, &ext, 1) < 0)
			bail("%s", weir_error());
		weir_file_close(f);
		right &= run.good == bytes[i] && run.reported == bytes[i] &&
			 run.dones == 1 &&
			 file_has("whole", content + (place == SKEWED),
				  bytes[i]);
		buffered = run.ways[WEIR__CHUNK_BUFFERED];
		way &= buffered == (direct ? 0 : bytes[i]);
		if (direct && (place == SLOT || place == SKEWED))
			way &= run.ways[WEIR__CHUNK_STAGED] == bytes[i];
		/* The last block is copied to be whole. */
		if (direct && place == MEMORY)
			way &= run.ways[WEIR__CHUNK_IN_PLACE] ==
			       (bytes[i] % BLOCK
					? bytes[i] / (4u << 20) * (4u << 20)
					: bytes[i]);
	}
	ok(right, "%s: all bytes are written, and each reported once", what);
	ok(way, "%s: chunks are reported by the way that they were written",
	   what);
}

static void several_files(void)
{
	struct run run = { .place = MIXED };
	struct weir__extent ext[3];
	bool right = true;
	char name[3][8];

	memset(ext, 0, sizeof(ext));
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name[i], sizeof(name[i]), "part%u", i);
		ext[i].file =
			make_file(name[i], i == 1 ? WEIR_FILE_NODIRECT : 0);
		ext[i].len = (5u << 20) + i;
	}
	is_int(run_job(&run, ext, 3), 0, "a job of three files starts");
	for (unsigned i = 0; i < 3; i++) {
		right &= file_has(name[i], content + i * BLOCK, ext[i].len);
		weir_file_close(ext[i].file);
	}
	ok(right, "each of several files has its bytes");
}

static void failing(unsigned at)
{
	struct run run = { .place = SLOT, .fail_at = at };
	struct weir__extent ext = { .len = SIZE };

	ext.file = make_file("fail", 0);
	is_int(run_job(&run, &ext, 1), 0, "a job whose fill %u fails starts",
	       at);
	ok(run.reported == SIZE && run.good < SIZE && run.dones == 1 &&
		   run.bad.end == WEIR__FAILED,
	   "fill %u fails: all chunks are reported, and the job ends", at);
	weir_file_close(ext.file);
}

static void cancelled(void)
{
	struct run run = { .place = SLOT, .cancel_at = 1 };
	struct weir__extent ext = { .len = SIZE };

	ext.file = make_file("cancel", 0);
	run.job.depth = 1;
	is_int(run_job(&run, &ext, 1), 0, "a job that is cancelled starts");
	ok(run.reported == SIZE && run.good < SIZE && run.dones == 1 &&
		   run.bad.end == WEIR__CANCELLED,
	   "a job that a fill cancels reports all chunks, and ends");
	ok(atomic_load(&run.fills) < 5, "no chunk is filled after that");
	weir_file_close(ext.file);
}

/* The kernel refuses memory that the file's alignment seems to allow. */
static void refused(void)
{
	struct run run = { .place = SKEWED };
	struct weir__extent ext = { .len = 16u << 20 };
	struct weir_file *f = ext.file = make_file("refuse", 0);

	if (!atomic_load(&f->direct_ok)) {
		skip(3, "files here are not written with O_DIRECT");
		weir_file_close(f);
		return;
	}
	f->mem_align = 1;
	is_int(run_job(&run, &ext, 1), 0,
	       "a job whose writes are refused starts");
	ok(run.good == ext.len && file_has("refuse", content + 1, ext.len),
	   "a direct write that is refused is repeated buffered");
	ok(run.ways[WEIR__CHUNK_BUFFERED] && atomic_load(&run.job.retries) &&
		   !atomic_load(&f->direct_ok),
	   "it is reported, and later writes are buffered");
	weir_file_close(f);
}

static void read_only(void)
{
	struct run run = { .place = SLOT };
	struct weir__extent ext = { .len = SIZE };
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;

	weir_file_close(make_file("read", 0));
	if (weir_file_open(root, files_path("read"), &o, &ext.file) < 0)
		bail("%s", weir_error());
	is_err(run_job(&run, &ext, 1), -EBADF, "reading only",
	       "a file that is open for reading is not written");
	weir_file_close(ext.file);
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_io_info info = { .size = sizeof(info) };

	tap_prefix(prefix);
	o.io = io;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	if (weir_io_info(root, &info) < 0) {
		skip(1, "%s", weir_error());
		weir_close(root);
		return;
	}
	if (weir__engine_get(root, &eng) < 0)
		bail("%s", weir_error());
	write_whole(SLOT, 0, "from slots");
	write_whole(MEMORY, 0, "from memory");
	write_whole(SKEWED, 0, "from memory that is not aligned");
	write_whole(MIXED, 0, "from slots and memory");
	write_whole(SLOT, WEIR_FILE_NODIRECT, "buffered, from slots");
	write_whole(SKEWED, WEIR_FILE_NODIRECT, "buffered, from memory");
	several_files();
	failing(1);
	failing(3);
	cancelled();
	refused();
	read_only();
	weir_close(root);
}

int main(void)
{
	plan(0);
	files_begin();
	content = aligned_alloc(BLOCK, (SIZE / BLOCK + 8) * BLOCK);
	for (size_t i = 0; i < SIZE + 7 * BLOCK; i++)
		content[i] = (unsigned char)(i * 13 + i / 251);
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	free(content);
	return done_testing();
}
