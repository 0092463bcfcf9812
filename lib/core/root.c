/* SPDX-License-Identifier: MIT */
#include "core/root.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/timeline.h"
#include "core/trace.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#define ALIVE_BYTES ((size_t)4096)

/* "1" and "log" only turn the log on, as any word does. */
static const char *const debug_words[] = {
	"1", "log", "io=sync", "io=uring", "batch=no", "cublaslt=no", "races"
};

/* NULL if the variable is not set, or empty. */
static const char *debug_variable(void)
{
	const char *text = secure_getenv("WEIR_DEBUG");

	return text && *text ? text : NULL;
}

static bool is_word(const char *at, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(at, word, n);
}

/* Move *at to the next word, and return its length; 0 at the end. */
static size_t next_word(const char **at)
{
	*at += strspn(*at, ", ");
	return strcspn(*at, ", ");
}

static bool is_known(const char *at, size_t n)
{
	for (size_t i = 0; i < sizeof(debug_words) / sizeof(debug_words[0]);
	     i++)
		if (is_word(at, n, debug_words[i]))
			return true;
	return false;
}

static void report_unknown(struct weir *weir)
{
	const char *at = weir->debug;
	size_t n;

	for (; (n = next_word(&at)); at += n)
		if (!is_known(at, n))
			weir__log(weir, "WEIR_DEBUG: '%.*s' is not known",
				  n < 100 ? (int)n : 100, at);
}

/* Read the variable, once for each root. */
static int debug_read(struct weir *weir)
{
	const char *text = debug_variable();

	if (!text)
		return 0;
	weir->debug = weir__strdup(text);
	if (!weir->debug)
		return weir__fail(-ENOMEM, "no memory for WEIR_DEBUG");
	report_unknown(weir);
	return 0;
}

bool weir__debug_find(const struct weir *weir, const char *word)
{
	const char *at = weir->debug;
	size_t n;

	for (; at && (n = next_word(&at)); at += n)
		if (is_word(at, n, word))
			return true;
	return false;
}

static int check_range(const char *name, uint64_t n, uint64_t lo, uint64_t hi)
{
	if (n >= lo && n <= hi)
		return 0;
	return weir__fail(-EINVAL, "%s is %llu, not in %llu..%llu", name,
			  (unsigned long long)n, (unsigned long long)lo,
			  (unsigned long long)hi);
}

/* A budget must have room for more than slots. */
static uint64_t default_staging(const struct weir_opts *o)
{
	uint64_t staging = 64 * MIB;

	if (o->budget && o->budget / 4 < staging)
		staging = o->budget / 4;
	return o->chunk > staging ? o->chunk : staging;
}

static int check_sizes(struct weir_opts *o)
{
	int r;

	if (!o->chunk)
		o->chunk = 4 * MIB;
	if (!o->staging)
		o->staging = default_staging(o);
	r = check_range("chunk", o->chunk, 64 * KIB, 256 * MIB);
	if (r < 0)
		return r;
	if (o->chunk % 4096)
		return weir__fail(-EINVAL,
				  "chunk is %llu, not a multiple of 4096",
				  (unsigned long long)o->chunk);
	if (o->staging < o->chunk)
		return weir__fail(
			-EINVAL,
			"staging of %llu bytes is less than a chunk of %llu",
			(unsigned long long)o->staging,
			(unsigned long long)o->chunk);
	return check_range("staging", o->staging, o->chunk, 64 * GIB);
}

/* Check the options that are set and fill in the others. */
static int check_opts(struct weir_opts *o)
{
	int r = check_range("io", o->io, WEIR_IO_AUTO, WEIR_IO_SYNC);

	if (r < 0 || (r = check_range("reactors", o->reactors, 0, 16)) < 0 ||
	    (r = check_range("depth", o->depth, 0, 1024)) < 0 ||
	    (r = check_range("copiers", o->copiers, 0, 256)) < 0 ||
	    (r = check_sizes(o)) < 0)
		return r;
	if (!o->close_timeout)
		o->close_timeout = (int64_t)30 * 1000000000;
	if (o->close_timeout < -1)
		return weir__fail(
			-EINVAL, "close_timeout is %lld, neither -1 nor a time",
			(long long)o->close_timeout);
	if (!o->read_timeout)
		o->read_timeout = (int64_t)120 * 1000000000;
	if (o->read_timeout < -1)
		return weir__fail(-EINVAL,
				  "read_timeout is %lld, neither -1 nor a time",
				  (long long)o->read_timeout);
	if (o->flags & ~WEIR_OPEN_STRICT_MODULES)
		return weir__fail(-EINVAL, "flags 0x%x has bits unknown here",
				  o->flags);
	if (o->reserved)
		return weir__fail(-EINVAL, "reserved is %u, not 0",
				  o->reserved);
	return 0;
}

/*
 * weir->alive is 1 here and 0 in every child, whose copy of the page the kernel
 * wipes at fork. Where MADV_WIPEONFORK fails, process IDs are compared instead.
 */
static int make_alive(struct weir *weir)
{
	void *page;
	int r = weir__sys_map(ALIVE_BYTES, -1, 0, PROT_READ | PROT_WRITE,
			      &page);

	if (r < 0)
		return weir__fail_sys(r, "mmap of %zu bytes", ALIVE_BYTES);
	if (weir__sys_madvise(page, ALIVE_BYTES, MADV_WIPEONFORK) < 0)
		weir->owner_pid = getpid();
	weir->alive = page;
	atomic_store(weir->alive, 1);
	return 0;
}

static void to_stderr(void *arg, const char *text)
{
	(void)arg;
	dprintf(STDERR_FILENO, "weir: %s\n", text);
}

static void make_log(struct weir *weir)
{
	if (!weir->opts.log && debug_variable())
		weir->opts.log = to_stderr;
}

static void make_locks(struct weir *weir)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&weir->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_rwlock_init(&weir->trace_lock, NULL);
	pthread_mutex_init(&weir->accesses.lock, NULL);
	pthread_rwlock_init(&weir->parks.lock, NULL);
}

/* "64G": bytes. False: it is no size. */
static bool parse_size(const char *text, uint64_t *ret_bytes)
{
	static const char letter[] = "KMGT";
	unsigned shift = 0;
	const char *at;
	char *end;

	errno = 0;
	*ret_bytes = strtoull(text, &end, 10);
	at = *end ? strchr(letter, *end & ~0x20) : NULL;
	if (at)
		shift = 10 * (unsigned)(at - letter + 1);
	if (*text < '0' || *text > '9' || errno || (*end && (!at || end[1])))
		return false;
	return !__builtin_mul_overflow(*ret_bytes, UINT64_C(1) << shift,
				       ret_bytes);
}

/* Without a cache in the options that of the environment is used. */
static int copy_cache(struct weir *weir)
{
	const char *size = secure_getenv("WEIR_CACHE_SIZE");
	const char *path = weir->opts.cache ? weir->opts.cache
					    : secure_getenv("WEIR_CACHE");

	if (!weir->opts.cache && !weir->opts.cache_bytes && size && *size &&
	    !parse_size(size, &weir->opts.cache_bytes))
		return weir__fail(-EINVAL,
				  "WEIR_CACHE_SIZE is '%s', not a size as 64G",
				  weir__quote(size, strlen(size)));
	weir->opts.cache = NULL;
	if (!path || !*path)
		return 0;
	weir->opts.cache = weir->cache = weir__strdup(path);
	return weir->cache ? 0 : weir__fail(-ENOMEM, "no memory for cache");
}

/* The path is used when modules are searched, which is after weir_open(). */
static int copy_path(struct weir *weir)
{
	if (!weir->opts.module_path)
		return 0;
	weir->module_path = weir__strdup(weir->opts.module_path);
	if (!weir->module_path)
		return weir__fail(-ENOMEM, "no memory for module_path");
	weir->opts.module_path = weir->module_path;
	return 0;
}

int weir__root_new(const struct weir_opts *opts, struct weir **ret_weir)
{
	struct weir__cpu_set cpus;
	struct weir_opts o;
	struct weir *weir;
	int r;

	r = weir__opts_in(&o, sizeof(o), opts);
	if (r < 0 || (r = check_opts(&o)) < 0)
		return r;
	weir__cpus_note();
	cpus = *weir__cpus_usable();
	if (o.io_cpus)
		r = weir__cpus_parse("io_cpus", o.io_cpus, &cpus);
	if (r < 0)
		return r;
	weir = weir__calloc(1, sizeof(*weir));
	if (!weir)
		return weir__fail(-ENOMEM, "no memory for a root of %zu bytes",
				  sizeof(*weir));
	atomic_init(&weir->refs, 1);
	weir->opts = o;
	weir->opts.io_cpus = NULL; /* the caller's */
	weir->io_cpus = cpus;
	make_log(weir);
	r = debug_read(weir);
	if (r < 0 || (r = make_alive(weir)) < 0)
		goto out_weir;
	make_locks(weir);
	r = copy_path(weir);
	if (r >= 0)
		r = copy_cache(weir);
	if (r < 0) {
		weir__root_put(weir);
		return r;
	}
	*ret_weir = weir;
	return 0;
out_weir:
	weir__free(weir->debug);
	weir__free(weir);
	return r;
}

void weir_close(struct weir *weir)
{
	struct weir__part *part;
	int64_t deadline;

	if (!weir || !weir__root_is_ours(weir))
		return;
	/* From here on no part is made, and public calls are refused. */
	pthread_mutex_lock(&weir->lock);
	atomic_store(&weir->closed, true);
	pthread_mutex_unlock(&weir->lock);
	deadline = weir__deadline(weir->opts.close_timeout);
	for (int i = 0; i < WEIR__PARTS; i++) {
		part = atomic_load(&weir->part[i]);
		if (part && part->close)
			part->close(part, deadline);
	}
	weir__root_put(weir);
}

int weir_trim(struct weir *weir, size_t keep)
{
	struct weir__part *part;
	int r;

	WEIR__ENTER();
	r = weir__root_read(weir);
	if (r < 0)
		return r;
	for (int i = 0; i < WEIR__PARTS; i++) {
		size_t kept = 0;

		part = atomic_load(&weir->part[i]);
		if (part && part->trim)
			kept = part->trim(part, keep);
		keep -= kept < keep ? kept : keep;
	}
	return 0;
}

uint64_t weir__root_relieve(struct weir *weir, const struct weir_buft *buft,
			    uint64_t bytes)
{
	uint64_t given = 0;

	for (int i = 0; i < WEIR__PARTS; i++) {
		struct weir__part *part = atomic_load(&weir->part[i]);

		if (part && part->relieve)
			given += part->relieve(part, buft, bytes);
	}
	return given;
}

struct weir *weir__root_ref(struct weir *weir)
{
	weir__refs_add(&weir->refs, 1);
	return weir;
}

static void root_free(struct weir *weir)
{
	for (int i = 0; i < WEIR__PARTS; i++) {
		struct weir__part *part = atomic_load(&weir->part[i]);

		if (part)
			part->free(part);
	}
	weir__trace_drop(weir);
	if (weir->observer)
		weir->observer->free(weir);
	weir__sys_unmap((void *)(uintptr_t)weir->alive, ALIVE_BYTES);
	pthread_mutex_destroy(&weir->lock);
	pthread_rwlock_destroy(&weir->trace_lock);
	pthread_mutex_destroy(&weir->accesses.lock);
	pthread_rwlock_destroy(&weir->parks.lock);
	weir__free(weir->module_path);
	weir__free(weir->cache);
	weir__free(weir->debug);
	weir__free(weir);
}

void weir__root_put(struct weir *weir)
{
	if (!weir__root_is_ours(weir))
		return;
	if (weir__refs_drop(&weir->refs))
		root_free(weir);
}

int weir__root_read(struct weir *weir)
{
	if (weir__root_is_ours(weir))
		return 0;
	return weir__fail(
		-EPERM,
		"the root was opened before fork(2): open one in the child (process %ld)",
		(long)getpid());
}

int weir__root_refuse(struct weir *weir)
{
	int r = weir__root_read(weir);

	if (r < 0)
		return r;
	if (atomic_load_explicit(&weir->closed, memory_order_relaxed))
		return weir__fail(-ESHUTDOWN, "the root has been closed");
	return 0;
}

int weir__root_part(struct weir *weir, enum weir__part_id id,
		    int (*make)(struct weir *weir, struct weir__part **ret),
		    struct weir__part **ret_part)
{
	struct weir__part *part = atomic_load(&weir->part[id]);
	int r = 0;

	if (part) {
		*ret_part = part;
		return 0;
	}
	pthread_mutex_lock(&weir->lock);
	part = atomic_load(&weir->part[id]);
	if (!part) {
		r = weir__root_enter(weir);
		if (!r)
			r = make(weir, &part);
		if (!r)
			atomic_store(&weir->part[id], part);
	}
	pthread_mutex_unlock(&weir->lock);
	if (!r)
		*ret_part = part;
	return r;
}

void weir__log(struct weir *weir, const char *fmt, ...)
{
	char text[WEIR__ERROR_MAX];
	va_list ap;

	if (!weir->opts.log)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *s = text; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
	weir->opts.log(weir->opts.log_arg, text);
}
