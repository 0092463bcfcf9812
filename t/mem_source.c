/* SPDX-License-Identifier: MIT */
#include "mem_source.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tap.h"

#define THREADS 2
#define MAX_READS 4096

struct mem_source mem;

struct object {
	unsigned char *bytes;
	uint64_t n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct weir_source_read *queue[MAX_READS];
static unsigned n_queue, seed = 1;
static pthread_t thread[THREADS];
static bool started, quit;

static void pause_ns(int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&ts, NULL);
}

/* Copy the bytes, unless the read is to fail. */
static void answer(struct weir_source_read *read)
{
	const struct object *o = read->priv[0];
	bool meets = mem.fail && read->off < mem.fail_to &&
		     mem.fail_from < read->off + read->len;

	if (!meets) {
		memcpy(read->buf, o->bytes + read->off, read->len);
		if (read->len > 1)
			read->arrived(read, read->len / 2);
	}
	mem.in_flight--;
	mem.waiting -= read->len;
	read->done(read, meets ? mem.fail : 0,
		   meets ? "the test made it fail" : NULL);
}

/* The lock is held. NULL: there is nothing to do. */
static struct weir_source_read *take(void)
{
	struct weir_source_read *read;
	unsigned i;

	if (!n_queue || mem.hold)
		return NULL;
	seed = seed * 1103515245 + 12345;
	i = seed / 65536 % n_queue;
	read = queue[i];
	queue[i] = queue[--n_queue];
	read->priv[1] = NULL; /* cancel does not find it any more */
	return read;
}

/* The lock is held. */
static void trickle(void)
{
	static int64_t last;
	struct timespec ts;
	int64_t now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
	if (last && now - last > mem.gap && n_queue)
		mem.gap = now - last;
	last = n_queue ? now : 0;
	for (unsigned i = 0; i < n_queue; i++)
		queue[i]->arrived(queue[i], 1);
}

static void *serve(void *arg)
{
	struct weir_source_read *read;

	pthread_mutex_lock(&lock);
	while (!quit) {
		read = take();
		if (!read) {
			struct timespec ts;

			if (mem.hold && mem.trickle)
				trickle();
			clock_gettime(CLOCK_REALTIME, &ts);
			ts.tv_nsec += 5000000;
			ts.tv_sec += ts.tv_nsec / 1000000000;
			ts.tv_nsec %= 1000000000;
			pthread_cond_timedwait(&changed, &lock, &ts);
			continue;
		}
		pthread_mutex_unlock(&lock);
		if (mem.delay)
			pause_ns(mem.delay);
		answer(read);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return arg;
}

static void start(void)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < THREADS && !started; i++)
		if (pthread_create(&thread[i], NULL, serve, NULL) != 0)
			bail("a thread");
	started = true;
	pthread_mutex_unlock(&lock);
}

void mem_end(void)
{
	pthread_mutex_lock(&lock);
	quit = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < THREADS && started; i++)
		pthread_join(thread[i], NULL);
	started = quit = false;
}

int mem_object(const char *path, void **ret_object,
	       struct weir_source_info *ret_info)
{
	struct object *o;
	struct stat st;
	FILE *f;

	start();
	if (stat(path, &st) != 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	o = calloc(1, sizeof(*o));
	f = fopen(path, "rb");
	if (!o || !f)
		bail("%s: %s", path, strerror(errno));
	o->n = (uint64_t)st.st_size;
	o->bytes = malloc(o->n + 1);
	if (!o->bytes || fread(o->bytes, 1, o->n, f) != o->n)
		bail("%s: cannot be read", path);
	fclose(f);
	ret_info->bytes = o->n;
	ret_info->request_bytes = mem.request_bytes;
	ret_info->window_bytes = mem.window_bytes;
	if (mem.identity)
		snprintf(ret_info->identity, sizeof(ret_info->identity), "%s",
			 mem.identity);
	else
		snprintf(ret_info->identity, sizeof(ret_info->identity),
			 "ino:%llu", (unsigned long long)st.st_ino);
	if (mem.sha256)
		snprintf(ret_info->sha256, sizeof(ret_info->sha256), "%s",
			 mem.sha256);
	*ret_object = o;
	mem.opened++;
	return 0;
}

static void mem_close(void *object)
{
	struct object *o = object;

	free(o->bytes);
	free(o);
	mem.closed++;
}

/* What the test wants it to say beside the bytes. */
static void describe(const char *path, void **object,
		     struct weir_source_info *info)
{
	if (mem.local)
		snprintf(info->path, sizeof(info->path), "%.4000s%s", path,
			 mem.local == 2 ? ".none" : "");
	if (mem.bad_sum)
		strcpy(info->sha256, "ABCDEF");
	info->bytes += mem.grown;
	if (!mem.no_object)
		return;
	mem_close(*object);
	*object = NULL;
}

static int mem_open(void *self, const char *url, void **ret_object,
		    struct weir_source_info *ret_info,
		    char why[WEIR_SOURCE_WHY])
{
	char path[4096];
	int r;

	if (self != &mem)
		mem.wrong++;
	for (mem.opening = mem.hold_open; mem.hold_open;)
		pause_ns(1000000);
	if (mem.together && !strstr(url, "index.json")) {
		mem.began++;
		for (int i = 0; i < 5000 && mem.began < mem.together; i++)
			pause_ns(1000000);
		mem.apart += mem.began < mem.together;
	}
	if (mem.open_fails) {
		snprintf(why, WEIR_SOURCE_WHY, "the test refuses it");
		return mem.open_fails;
	}
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(url + 6, "?"),
		 url + 6);
	mem.queries += strstr(url, "?key=secret") != NULL;
	r = mem_object(path, ret_object, ret_info);
	if (r >= 0)
		describe(path, ret_object, ret_info);
	if (r < 0)
		snprintf(why, WEIR_SOURCE_WHY, "there is no such object");
	return r == -EISDIR || r == -ENOTDIR ? -ENOENT : r;
}

static void mem_read(void *object, struct weir_source_read *read)
{
	struct object *o = object;
	uint32_t n = ++mem.in_flight;
	uint64_t waiting = mem.waiting += read->len;

	if (n > mem.most)
		mem.most = n;
	if (waiting > mem.most_bytes)
		mem.most_bytes = waiting;
	mem.reads++;
	mem.bytes += read->len;
	if (read->off + read->len > o->n || !read->len || read->priv[0])
		mem.wrong++;
	read->priv[0] = o;
	if (mem.inside) {
		answer(read);
		return;
	}
	pthread_mutex_lock(&lock);
	if (n_queue == MAX_READS)
		abort();
	read->priv[1] = &queue;
	queue[n_queue++] = read;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static void mem_cancel(void *object, struct weir_source_read *read)
{
	bool mine = false;

	(void)object;
	mem.cancels++;
	if (mem.deaf)
		return;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < n_queue && !mine; i++)
		if (queue[i] == read) {
			queue[i] = queue[--n_queue];
			mine = true;
		}
	pthread_mutex_unlock(&lock);
	if (!mine)
		return;
	mem.in_flight--;
	mem.waiting -= read->len;
	read->done(read, -ECANCELED, "the library cancelled it");
}

static int mem_check(void *object, char why[WEIR_SOURCE_WHY])
{
	(void)object;
	if (mem.stale)
		snprintf(why, WEIR_SOURCE_WHY, "the test has changed it");
	return mem.stale;
}

static int mem_list(void *self, const char *url, weir_source_found_fn *found,
		    void *arg, char why[WEIR_SOURCE_WHY])
{
	struct dirent **entry;
	char path[4096];
	int n, r = 0;

	(void)self;
	if (mem.no_list)
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(url + 6, "?"),
		 url + 6);
	n = scandir(path, &entry, NULL, alphasort);
	if (n < 0) {
		snprintf(why, WEIR_SOURCE_WHY, "there is no such folder");
		return -ENOENT;
	}
	for (int i = 0; i < n; i++) {
		if (entry[i]->d_name[0] != '.' && r >= 0)
			r = found(arg, entry[i]->d_name, 0);
		free(entry[i]);
	}
	free(entry);
	return r;
}

static int mem_configure(void *self, const char *params,
			 char why[WEIR_SOURCE_WHY])
{
	(void)self;
	if (!strcmp(params, "good=1"))
		return 0;
	snprintf(why, WEIR_SOURCE_WHY, "'%s' is not known", params);
	return -EINVAL;
}

static void mem_stop(void *self)
{
	if (self != &mem)
		mem.wrong++;
	mem.stopped++;
}

static const char *const schemes[] = { "mem", "mem2", NULL };

const struct weir_source mem_table = {
	.size = sizeof(mem_table),
	.abi = WEIR_SOURCE_ABI,
	.name = "memory",
	.schemes = schemes,
	.open = mem_open,
	.close = mem_close,
	.read = mem_read,
	.cancel = mem_cancel,
	.check = mem_check,
	.list = mem_list,
	.configure = mem_configure,
	.stop = mem_stop,
};

void mem_add(struct weir *weir)
{
	struct weir_source table = mem_table;

	if (mem.no_cancel)
		table.cancel = NULL;
	if (weir_source_add(weir, &table, &mem) < 0)
		bail("%s", weir_error());
}

void mem_reset(void)
{
	mem.delay = 0;
	mem.local = 0;
	mem.no_object = mem.bad_sum = false;
	mem.grown = 0;
	mem.inside = mem.hold = mem.deaf = mem.no_cancel = mem.trickle = false;
	mem.fail = mem.stale = mem.open_fails = 0;
	mem.request_bytes = mem.window_bytes = 0;
	mem.hold_open = mem.opening = false;
	mem.together = mem.began = mem.apart = 0;
	mem.queries = 0;
	mem.no_list = false;
	mem.identity = mem.sha256 = NULL;
	mem.opened = mem.closed = mem.stopped = 0;
	mem.reads = mem.cancels = mem.most = 0;
	mem.most_bytes = 0;
	mem.bytes = mem.wrong = 0;
	mem.gap = 0;
}

const char *mem_url(const char *path)
{
	static char text[4][4200];
	static unsigned at;
	char *to = text[at++ % 4];

	snprintf(to, sizeof(text[0]), "mem://%s", path);
	return to;
}
