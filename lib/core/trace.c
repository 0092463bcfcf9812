/* SPDX-License-Identifier: MIT */
#include "core/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"

#define LINE_MAX_BYTES 512u
#define MAX_SPANS (1u << 20) /* pages are allocated as they are used */

struct span {
	int64_t begun, ended;
	const char *name;
	uint64_t off, bytes;
	uint32_t group;
	uint16_t track, lane;
};

/* The name of a group that is not named like its track. */
struct name {
	struct name *next;
	uint32_t group;
	uint16_t track;
	char text[64];
};

struct weir__trace {
	int64_t begun;
	int fd;
	char *path;
	uint32_t number; /* its number among the root's traces, from 1 */
	struct span *span;
	_Atomic uint32_t n;
	_Atomic(struct name *) names; /* newest first */
};

static const char *const track_name[] = {
	[WEIR__TRACK_REACTOR] = "reactor",   [WEIR__TRACK_COPIER] = "copiers",
	[WEIR__TRACK_PREFAULT] = "prefault", [WEIR__TRACK_LOAD] = "load",
	[WEIR__TRACK_STREAM] = "stream",
};

void weir__trace_add(struct weir *weir, enum weir__track track, unsigned group,
		     unsigned lane, const char *name, int64_t begun,
		     uint64_t off, uint64_t bytes)
{
	struct weir__trace *t;
	uint32_t i;

	pthread_rwlock_rdlock(&weir->trace_lock);
	t = atomic_load(&weir->trace);
	/* A span that began before this trace is left out. */
	i = t && begun >= t->begun ? atomic_fetch_add(&t->n, 1) : MAX_SPANS;
	if (i < MAX_SPANS)
		t->span[i] = (struct span){
			.begun = begun,
			.ended = weir__now(),
			.name = name,
			.off = off,
			.bytes = bytes,
			.group = group,
			.track = (uint16_t)track,
			.lane = (uint16_t)lane,
		};
	pthread_rwlock_unlock(&weir->trace_lock);
}

void weir__trace_name(struct weir *weir, enum weir__track track, unsigned group,
		      const char *name, uint32_t *named)
{
	struct weir__trace *t;
	struct name *n;

	pthread_rwlock_rdlock(&weir->trace_lock);
	t = atomic_load(&weir->trace);
	n = t && *named != t->number ? weir__calloc(1, sizeof(*n)) : NULL;
	if (n) {
		*named = t->number;
		n->track = (uint16_t)track;
		n->group = group;
		snprintf(n->text, sizeof(n->text), "%s", name);
		n->next = atomic_load(&t->names);
		while (!atomic_compare_exchange_weak(&t->names, &n->next, n))
			;
	}
	pthread_rwlock_unlock(&weir->trace_lock);
}

static void trace_destroy(struct weir__trace *t)
{
	struct name *n = atomic_load(&t->names), *next;

	for (; n; n = next) {
		next = n->next;
		weir__free(n);
	}
	if (t->span)
		weir__sys_unmap(t->span, MAX_SPANS * sizeof(*t->span));
	weir__sys_close(t->fd);
	weir__free(t->path);
	weir__free(t);
}

static int new_trace(const char *path, struct weir__trace **ret)
{
	struct weir__trace *t = weir__calloc(1, sizeof(*t));
	void *map;
	int r;

	if (!t)
		return weir__fail(-ENOMEM, "%s: no memory", path);
	t->fd = -1;
	t->path = weir__strdup(path);
	r = t->path ? weir__sys_map(MAX_SPANS * sizeof(*t->span), -1, 0,
				    PROT_READ | PROT_WRITE, &map)
		    : -ENOMEM;
	if (r < 0) {
		r = weir__fail_sys(r, "%s: memory of a trace", path);
		goto out;
	}
	t->span = map;
	r = weir__sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (r < 0) {
		r = weir__fail_sys(r, "%s", path);
		goto out;
	}
	t->fd = r;
	t->begun = weir__now();
	*ret = t;
	return 0;
out:
	trace_destroy(t);
	return r;
}

int weir_trace_start(struct weir *weir, const char *path)
{
	struct weir__trace *t;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	/*
	 * Under the lock, so that a refused trace does not truncate its file.
	 */
	pthread_rwlock_wrlock(&weir->trace_lock);
	t = atomic_load(&weir->trace);
	if (t)
		r = weir__fail(-EBUSY, "%s: a trace to %s is already running",
			       path, t->path);
	else
		r = new_trace(path, &t);
	if (!r) {
		t->number = ++weir->traces;
		atomic_store(&weir->trace, t);
	}
	pthread_rwlock_unlock(&weir->trace_lock);
	return r;
}

/* A buffered file. The first error is kept. */
struct out {
	int fd, err;
	uint64_t at;
	size_t used;
	char buf[65536];
};

/* A write beyond the limit would also send SIGXFSZ. */
static bool over_limit(const struct out *o)
{
	struct stat st;

	return o->at + o->used > weir__sys_limit(RLIMIT_FSIZE) &&
	       weir__sys_fstat(o->fd, &st) == 0 && S_ISREG(st.st_mode);
}

static void out_flush(struct out *o)
{
	size_t done = 0;

	if (!o->err && over_limit(o))
		o->err = -EFBIG;
	while (!o->err && done < o->used) {
		int64_t r = weir__sys_pwrite(o->fd, o->buf + done,
					     o->used - done, o->at);

		if (r <= 0)
			o->err = r ? (int)r : -EIO;
		else
			done += (size_t)r, o->at += (uint64_t)r;
	}
	o->used = 0;
}

__attribute__((format(printf, 2, 3))) static void
out_printf(struct out *o, const char *fmt, ...)
{
	va_list ap;

	if (sizeof(o->buf) - o->used < LINE_MAX_BYTES)
		out_flush(o);
	va_start(ap, fmt);
	vsnprintf(o->buf + o->used, LINE_MAX_BYTES, fmt, ap);
	va_end(ap);
	o->used += strlen(o->buf + o->used);
}

/* Each group of a track is a "process", so its rows are shown together. */
static unsigned pid_of(uint16_t track, uint32_t group)
{
	return 1u + track * 1000u + group;
}

/* The length in bytes of the UTF-8 character at @s; 0: it is malformed. */
static unsigned utf8(const char *s)
{
	const unsigned char *c = (const unsigned char *)s;
	unsigned n = *c < 0x80 ? 1 : *c >> 5 == 6 ? 2 : *c >> 4 == 14 ? 3 : 4;

	if (n == 4 && *c >> 3 != 30)
		return 0;
	for (unsigned i = 1; i < n; i++)
		if (c[i] >> 6 != 2)
			return 0;
	return n;
}

/* Copy @s as the text of a JSON string; bytes that are not UTF-8 become '?'. */
static const char *escape(const char *s, char out[static 256])
{
	char *at = out;

	while (*s && at < out + 250) {
		unsigned n = utf8(s);

		if (*s == '"' || *s == '\\')
			*at++ = '\\';
		if (!n || (unsigned char)*s < 0x20) {
			*at++ = '?';
			s++;
		} else {
			memcpy(at, s, n);
			at += n;
			s += n;
		}
	}
	*at = '\0';
	return out;
}

static void put_name(struct out *o, uint16_t track, uint32_t group,
		     const char *text)
{
	out_printf(
		o,
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"%s %u\"}},\n",
		pid_of(track, group), text, group);
}

/* The streams by their names, then each other group that has a span. */
static void put_names(struct out *o, const struct weir__trace *t, uint32_t n)
{
	const struct name *name = atomic_load(&t->names);
	uint32_t seen[64], n_seen = 0;
	char text[256];

	for (; name; name = name->next)
		put_name(o, name->track, name->group, escape(name->text, text));
	for (uint32_t i = 0; i < n && n_seen < 64; i++) {
		const struct span *s = &t->span[i];
		unsigned pid = pid_of(s->track, s->group), k = 0;

		while (k < n_seen && seen[k] != pid)
			k++;
		if (k < n_seen || s->track == WEIR__TRACK_STREAM)
			continue;
		seen[n_seen++] = pid;
		put_name(o, s->track, s->group, track_name[s->track]);
	}
}

static int write_out(struct weir__trace *t)
{
	struct out *o = weir__calloc(1, sizeof(*o));
	uint32_t n = atomic_load(&t->n);
	int err;

	if (!o)
		return -ENOMEM;
	if (n > MAX_SPANS)
		n = MAX_SPANS;
	o->fd = t->fd;
	out_printf(o, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
	put_names(o, t, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct span *s = &t->span[i];
		/* Microseconds. Not %f, whose point depends on the locale. */
		long long at = s->begun - t->begun;
		long long took = s->ended - s->begun;

		out_printf(
			o,
			"{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,\"args\":{\"offset\":%llu,\"bytes\":%llu}},\n",
			s->name, pid_of(s->track, s->group), s->lane, at / 1000,
			at % 1000, took / 1000, took % 1000,
			(unsigned long long)s->off,
			(unsigned long long)s->bytes);
	}
	out_printf(
		o,
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"weir %s\"}}\n]}\n",
		PACKAGE_VERSION);
	out_flush(o);
	err = o->err;
	weir__free(o);
	return err;
}

static struct weir__trace *trace_detach(struct weir *weir)
{
	struct weir__trace *t;

	/* The write lock waits for threads that are recording a span. */
	pthread_rwlock_wrlock(&weir->trace_lock);
	t = atomic_exchange(&weir->trace, NULL);
	pthread_rwlock_unlock(&weir->trace_lock);
	return t;
}

int weir_trace_stop(struct weir *weir)
{
	struct weir__trace *t;
	int r;

	WEIR__ENTER();
	r = weir__root_read(weir);
	if (r < 0)
		return r;
	t = trace_detach(weir);
	if (!t)
		return weir__fail(-EINVAL, "no trace is running");
	r = write_out(t);
	if (r < 0)
		r = weir__fail_sys(r, "%s", t->path);
	trace_destroy(t);
	return r;
}

void weir__trace_drop(struct weir *weir)
{
	struct weir__trace *t = trace_detach(weir);

	if (t)
		trace_destroy(t);
}
