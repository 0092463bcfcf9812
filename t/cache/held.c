/* SPDX-License-Identifier: MIT */
/*
 * Reads of a source that is faster than the disk: they wait for room in the
 * queue of writes, but not for ever, and not when they are cancelled.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "cache/cache.h"
#include "core/sys.h"
#include "files.h"
#include "mem_source.h"
#include "tap.h"

#define LEN ((size_t)4 << 20)
#define READS 20u
#define ROOM 16u /* reads of which the queue has room for copies */

static unsigned char *whole, *got;
static struct weir *weir;
static struct weir__copies_found found;
static _Atomic unsigned said, ended, wrong;
static _Atomic bool stuck; /* writes of data wait */
static struct {
	struct weir_source_read read;
	_Atomic bool ended;
} r[READS];

int64_t __real_weir__sys_pwrite(int fd, const void *buf, size_t n,
				uint64_t off);
int64_t __wrap_weir__sys_pwrite(int fd, const void *buf, size_t n,
				uint64_t off);

int64_t __wrap_weir__sys_pwrite(int fd, const void *buf, size_t n, uint64_t off)
{
	while (stuck && n > 4096)
		usleep(1000);
	return __real_weir__sys_pwrite(fd, buf, n, off);
}

static void on_log(void *arg, const char *text)
{
	(void)arg;
	said += strstr(text, "too slow") != NULL;
}

static void on_arrived(struct weir_source_read *read, uint64_t bytes)
{
	(void)read;
	(void)bytes;
}

static void on_done(struct weir_source_read *read, int err, const char *why)
{
	unsigned i = (unsigned)(read->off / LEN);

	wrong += err || why || r[i].ended;
	r[i].ended = true;
	ended++;
}

/* A root, and an object that is read through its cache. */
static void begin(int64_t read_timeout)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir_source_info info = { .size = sizeof(info) };
	void *object;

	opts.cache = files_path("cache");
	opts.log = on_log;
	opts.read_timeout = read_timeout;
	if (weir_open(&opts, &weir) < 0)
		bail("%s", weir_error());
	mem_reset();
	mem.identity = "etag:1";
	if (mem_object(files_path("a"), &object, &info) < 0)
		bail("no object");
	strcpy(info.name, "mem://a");
	if (weir__copies_find(weir, &mem_table, object, &info, &found) !=
	    WEIR__COPIES_OBJECT)
		bail("the object is not read through the cache");
	memset(got, 0xee, READS * LEN);
	said = ended = wrong = 0;
}

static void start(unsigned i)
{
	r[i].ended = false;
	r[i].read = (struct weir_source_read){
		.size = sizeof(r[i].read),
		.off = i * LEN,
		.len = LEN,
		.buf = got + i * LEN,
		.arrived = on_arrived,
		.done = on_done,
	};
	found.ops.read(found.object, &r[i].read);
}

static void start_all(void)
{
	for (unsigned i = 0; i < READS; i++)
		start(i);
}

static unsigned n_held(void)
{
	struct weir__copies *c = ((struct weir__cached *)found.object)->cache;
	unsigned n = 0;

	pthread_mutex_lock(&c->lock);
	for (struct weir__copies_held *h = c->held; h; h = h->next)
		n++;
	pthread_mutex_unlock(&c->lock);
	return n;
}

/* Wait until all reads have ended or are held, and @n have ended at least. */
static bool wait_for(unsigned n)
{
	for (int i = 0; i < 30000; i++) {
		if (ended >= n && ended + n_held() == READS)
			return true;
		usleep(1000);
	}
	return false;
}

static bool is_right(void)
{
	return !wrong && !memcmp(got, whole, READS * LEN);
}

static void end(void)
{
	stuck = false;
	found.ops.close(found.object);
	weir_close(weir);
}

static unsigned count(const char *suffix)
{
	DIR *dir = opendir(files_path("cache"));
	struct dirent *e;
	unsigned n = 0;

	while (dir && (e = readdir(dir))) {
		size_t len = strlen(e->d_name);

		n += len > strlen(suffix) &&
		     !strcmp(e->d_name + len - strlen(suffix), suffix);
	}
	if (dir)
		closedir(dir);
	return n;
}

static void clean(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", files_path("cache"));
	if (system(command) != 0)
		bail("%s", command);
}

static void t_waits(void)
{
	begin(0);
	stuck = true;
	start_all();
	ok(wait_for(ROOM), "reads end while there is room in the queue");
	is_int(ended, ROOM, "the others are held");
	stuck = false;
	ok(wait_for(READS), "they end when the disk has written");
	ok(is_right(), "all have their bytes, and have ended once");
	end();
	is_int(count(".url"), 1, "the file is whole");
	is_int(said, 0, "the log has nothing to say");
	clean();
}

static void t_cancelled(void)
{
	unsigned i = 0;

	begin(0);
	stuck = true;
	mem.hold = mem.deaf = true;
	start_all();
	found.ops.cancel(found.object, &r[5].read);
	is_int(r[5].ended, false, "the source does not end a cancelled read");
	mem.hold = false;
	ok(wait_for(ROOM), "the source ends its reads");
	ok(r[5].ended, "a read that was cancelled before is not held");
	while (i < READS - 1 && r[i].ended)
		i++;
	is_int(r[i].ended, false, "others are held");
	found.ops.cancel(found.object, &r[i].read);
	is_int(r[i].ended, true, "one that is cancelled then ends at once");
	stuck = false;
	ok(wait_for(READS), "the others end when the disk has written");
	ok(is_right(), "all have their bytes, and have ended once");
	end();
	clean();
}

static void t_hangs(void)
{
	begin(1000000000);
	stuck = true;
	start_all();
	ok(wait_for(READS), "no read waits for ever for a disk that hangs");
	ok(is_right(), "all have their bytes");
	is_int(said, 1, "the log says that the disk is too slow, once");
	ended = READS - 1;
	start(0);
	ok(wait_for(READS), "a later read ends while the disk hangs");
	ok(is_right(), "with its bytes");
	end();
	is_int(count(".part"), 1, "the file is partial");
	begin(0);
	start_all();
	ok(wait_for(READS) && is_right(), "it is read again");
	ok(mem.bytes && mem.bytes < READS * LEN, "what is missing, no more");
	end();
	is_int(count(".url"), 1, "it is whole then");
	clean();
}

int main(void)
{
	plan(22);
	files_begin();
	whole = malloc(READS * LEN);
	got = malloc(READS * LEN);
	if (!whole || !got)
		bail("no memory");
	for (size_t i = 0; i < READS * LEN; i++)
		whole[i] = (unsigned char)(i / 5 + (i >> 11));
	files_bytes("a", whole, READS * LEN);
	t_waits();
	t_cancelled();
	t_hangs();
	mem_end();
	free(whole);
	free(got);
	return done_testing();
}
