/* SPDX-License-Identifier: MIT */
#include "http/client.h"
#include "http/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t weir__http_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * WEIR__HTTP_SECOND + t.tv_nsec;
}

struct weir__http_opts weir__http_opts_get(struct weir__http_client *c)
{
	struct weir__http_opts opts;

	pthread_mutex_lock(&c->lock);
	opts = c->opts;
	pthread_mutex_unlock(&c->lock);
	return opts;
}

bool weir__http_leaving(struct weir__http_client *c)
{
	bool leaving;

	pthread_mutex_lock(&c->lock);
	leaving = c->leaving;
	pthread_mutex_unlock(&c->lock);
	return leaving;
}

uint64_t weir__http_random(struct weir__http_client *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random;
}

void weir__http_opts_init(struct weir__http_opts *opts, unsigned cpus)
{
	*opts = (struct weir__http_opts){
		.threads = cpus < 1   ? 1
			   : cpus > 8 ? 8
				      : cpus,
		.connections = 32,
		.stall = 15 * WEIR__HTTP_SECOND,
		.patience = 180 * WEIR__HTTP_SECOND,
		.backoff = 100 * WEIR__HTTP_MS,
		.slow = 3 * WEIR__HTTP_SECOND,
		.part = UINT64_C(64) << 20,
		.first = UINT64_C(128) << 10,
	};
}

/* A parameter: its place in the options, its bounds, what 1 of it is. */
static const struct {
	const char *name;
	size_t at;
	uint64_t min, max, unit;
} params_known[] = {
#define AT(member) offsetof(struct weir__http_opts, member)
	{ "threads", AT(threads), 1, WEIR__HTTP_THREADS, 0 },
	{ "connections", AT(connections), 1, 256, 0 },
	{ "stall-ms", AT(stall), 100, 3600000, WEIR__HTTP_MS },
	{ "patience-ms", AT(patience), 100, 86400000, WEIR__HTTP_MS },
	{ "slow-ms", AT(slow), 100, 3600000, WEIR__HTTP_MS },
	{ "backoff-ms", AT(backoff), 1, 20000, WEIR__HTTP_MS },
	{ "part-kib", AT(part), 64, 1048576, 1024 },
	{ "first-kib", AT(first), 1, 65536, 1024 },
#undef AT
};

static int fail_param(char *why, const char *at)
{
	size_t n = 0;

	n += (size_t)snprintf(
		why, WEIR__HTTP_WHY,
		"parameter '%.*s' is unknown or out of range; the names and ranges:",
		(int)strcspn(at, ","), at);
	for (size_t i = 0; i < sizeof(params_known) / sizeof(*params_known) &&
			   n < WEIR__HTTP_WHY;
	     i++)
		n += (size_t)snprintf(why + n, WEIR__HTTP_WHY - n,
				      " %s=%llu..%llu", params_known[i].name,
				      (unsigned long long)params_known[i].min,
				      (unsigned long long)params_known[i].max);
	return -EINVAL;
}

static bool parse_param(struct weir__http_opts *opts, const char *at, size_t n)
{
	for (size_t i = 0; i < sizeof(params_known) / sizeof(*params_known);
	     i++) {
		size_t len = strlen(params_known[i].name);
		unsigned char *to = (unsigned char *)opts + params_known[i].at;
		unsigned long long value;
		char *end;

		if (n < len + 2 || memcmp(at, params_known[i].name, len) ||
		    at[len] != '=' || at[len + 1] < '0' || at[len + 1] > '9')
			continue;
		value = strtoull(at + len + 1, &end, 10);
		if (end != at + n || value < params_known[i].min ||
		    value > params_known[i].max)
			return false;
		if (!params_known[i].unit) {
			unsigned small = (unsigned)value;

			memcpy(to, &small, sizeof(small));
		} else {
			uint64_t large = value * params_known[i].unit;

			memcpy(to, &large, sizeof(large));
		}
		return true;
	}
	return false;
}

int weir__http_opts_parse(struct weir__http_opts *opts, const char *params,
			  char why[static WEIR__HTTP_WHY])
{
	struct weir__http_opts new = *opts;
	const char *p = params;

	while (*p) {
		size_t n = strcspn(p, ",");

		if (!parse_param(&new, p, n))
			return fail_param(why, p);
		p += n + (p[n] == ',');
	}
	*opts = new;
	return 0;
}

struct weir__http_client *weir__http_client_new(
	const struct weir__http_opts *opts,
	int (*thread)(pthread_t *, const char *, void *(*)(void *), void *))
{
	struct weir__http_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->opts = *opts;
	c->thread = thread;
	c->random = (uint64_t)weir__http_now() * 2654435761u ^ (uintptr_t)c;
	c->random |= 1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->ended, NULL);
	return c;
}

void weir__http_client_free(struct weir__http_client *c)
{
	struct weir__http_host *host;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	weir__http_wake(c);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_workers; i++)
		weir__http_worker_free(c->workers[i]);
	while ((host = c->hosts)) {
		c->hosts = host->next;
		free(host->name);
		free(host);
	}
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->ended);
	free(c);
}

static struct weir__http_host *host_new(struct weir__http_client *c, char *name)
{
	struct weir__http_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->client = c;
	host->name = name;
	host->waiting_end = &host->waiting;
	weir__http_limit_init(&host->limit, c->opts.connections);
	host->next = c->hosts;
	c->hosts = host;
	return host;
}

struct weir__http_host *weir__http_host_get(struct weir__http_client *c,
					    const struct weir__http_url *u)
{
	struct weir__http_host *host;
	char *name = weir__http_print(
		"%s://%s:%u", u->scheme == WEIR__HTTP_HTTP ? "http" : "https",
		u->host, weir__http_url_port(u));

	if (!name)
		return NULL;
	pthread_mutex_lock(&c->lock);
	for (host = c->hosts; host; host = host->next)
		if (!strcmp(host->name, name))
			break;
	if (host) {
		free(name);
	} else {
		host = host_new(c, name);
		if (!host)
			free(name);
	}
	pthread_mutex_unlock(&c->lock);
	return host;
}

int weir__http_start(struct weir__http_client *c)
{
	int r = 0;

	while (!c->n_workers || c->n_workers < c->opts.threads) {
		struct weir__http_worker *w;

		r = weir__http_worker_new(c, c->n_workers, &w);
		if (r < 0)
			break;
		c->workers[c->n_workers++] = w;
	}
	/* Fewer threads than wanted are enough. */
	return c->n_workers ? 0 : r;
}

void weir__http_wake(struct weir__http_client *c)
{
	for (unsigned i = 0; i < c->n_workers; i++)
		weir__http_worker_wake(c->workers[i]);
}

/* The first flight that waits at @host and need not wait longer. */
static struct weir__http_flight *take_waiting(struct weir__http_host *host,
					      int64_t now, int64_t *when)
{
	struct weir__http_flight **p = &host->waiting, *f;

	for (; (f = *p); p = &f->next) {
		if (f->not_before > now &&
		    !atomic_load_explicit(&f->cancelled,
					  memory_order_relaxed)) {
			if (f->not_before < *when)
				*when = f->not_before;
			continue;
		}
		*p = f->next;
		if (host->waiting_end == &f->next)
			host->waiting_end = p;
		f->next = NULL;
		f->waiting = false;
		return f;
	}
	return NULL;
}

/* The thread with the fewest flights. */
static struct weir__http_worker *choose(struct weir__http_client *c)
{
	struct weir__http_worker *best = c->workers[0];

	for (unsigned i = 1; i < c->n_workers; i++)
		if (weir__http_worker_load(c->workers[i]) <
		    weir__http_worker_load(best))
			best = c->workers[i];
	return best;
}

/* Start what may start at one host; returns when more may. */
static int64_t host_dispatch(struct weir__http_host *host, int64_t now)
{
	struct weir__http_client *c = host->client;
	int64_t when = INT64_MAX;

	for (;;) {
		int64_t next = weir__http_limit_when(&host->limit, now);
		struct weir__http_flight *f;

		if (next > now) {
			/* Only who waits needs to be woken. */
			if (!host->waiting && !host->objects)
				return when;
			return next < when || when == INT64_MAX ? next : when;
		}
		f = take_waiting(host, now, &when);
		if (!f && c->more)
			f = c->more(host);
		if (!f)
			return when;
		weir__http_limit_start(&host->limit, now);
		f->started = f->last = now;
		weir__http_worker_take(choose(c), f);
	}
}

int64_t weir__http_dispatch(struct weir__http_client *c, int64_t now)
{
	int64_t when = INT64_MAX;

	for (struct weir__http_host *h = c->hosts; h; h = h->next) {
		int64_t next = host_dispatch(h, now);

		if (next < when)
			when = next;
	}
	return when;
}

int weir__http_send(struct weir__http_client *c, struct weir__http_flight *f)
{
	int r = weir__http_start(c);

	if (r < 0)
		return r;
	f->next = NULL;
	f->waiting = true;
	*f->host->waiting_end = f;
	f->host->waiting_end = &f->next;
	if (weir__http_dispatch(c, weir__http_now()) != INT64_MAX)
		weir__http_worker_wake(c->workers[0]);
	return 0;
}

void weir__http_unsend(struct weir__http_flight *f)
{
	struct weir__http_flight **p = &f->host->waiting;

	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	if (f->host->waiting_end == &f->next)
		f->host->waiting_end = p;
	f->waiting = false;
}
