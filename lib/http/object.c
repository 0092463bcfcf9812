/* SPDX-License-Identifier: MIT */
#include "http/hub.h"
#include "http/object.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REQUEST (UINT64_C(512) << 10)
#define WINDOW (UINT64_C(256) << 20)

static int fail_memory(char *why, const char *shown)
{
	snprintf(why, WEIR__HTTP_WHY, "%s: no memory", shown);
	return -ENOMEM;
}

static void object_drop(struct weir__http_object *o)
{
	weir__http_url_clear(&o->u);
	weir__http_target_clear(&o->facts.target);
	weir__http_body_clear(&o->front);
	free(o->facts.copy);
	free(o);
}

/* Tell the library of the file of this machine. An older one cannot use it. */
static int give_copy(const struct weir__http_object *o, const char *path,
		     struct weir_source_info *info, char *why)
{
	if (WEIR_SOURCE_HAS(info, path) && strlen(path) < sizeof(info->path)) {
		strcpy(info->path, path);
		return 0;
	}
	snprintf(why, WEIR__HTTP_WHY,
		 "%s: this libweir cannot open its file in the cache, %s",
		 o->shown, path);
	return -EOPNOTSUPP;
}

/* A file of a hub that needs no request: as weir__http_hub_local. */
static int open_local(struct weir__http_object *o,
		      struct weir_source_info *ret_info, char *why)
{
	struct weir__http_copy copy;
	int r = o->u.scheme == WEIR__HTTP_HF
			? weir__http_hub_local(o->r->hub, &o->u, &copy, why)
			: 0;

	if (r <= 0)
		return r;
	r = give_copy(o, copy.path, ret_info, why);
	if (!r) {
		ret_info->bytes = copy.bytes;
		memcpy(ret_info->sha256, copy.sha256, sizeof(copy.sha256));
		snprintf(ret_info->name, sizeof(ret_info->name), "%s",
			 o->shown);
	}
	free(copy.path);
	return r < 0 ? r : 1;
}

static void describe(const struct weir__http_object *o,
		     struct weir_source_info *info)
{
	info->bytes = o->facts.bytes;
	memcpy(info->identity, o->facts.identity, sizeof(o->facts.identity));
	if (WEIR_SOURCE_HAS(info, sha256))
		memcpy(info->sha256, o->facts.sha256, sizeof(o->facts.sha256));
	snprintf(info->name, sizeof(info->name), "%s", o->shown);
	info->request_bytes = REQUEST;
	info->window_bytes = WINDOW;
}

/* 1: only a file of this machine is needed; 0: @o is open. */
static int object_find(struct weir__http_object *o, const char *url,
		       struct weir_source_info *ret_info, char *why)
{
	struct weir__http_opts opts = weir__http_opts_get(o->r->client);
	int r = weir__http_url_parse(url, &o->u, why);

	if (r < 0)
		return r;
	weir__http_url_show(&o->u, o->shown);
	r = open_local(o, ret_info, why);
	if (r)
		return r;
	r = weir__http_find(o->r, o->shown, &o->u, opts.first, NULL, NULL,
			    &o->front, &o->facts, why);
	if (r < 0)
		return r;
	describe(o, ret_info);
	r = o->facts.copy ? give_copy(o, o->facts.copy, ret_info, why) : 0;
	if (o->facts.target.host)
		return 0;
	return r < 0 ? r : 1;
}

int weir__http_open(void *self, const char *url, void **ret_object,
		    struct weir_source_info *ret_info,
		    char why[WEIR_SOURCE_WHY])
{
	struct weir__http_remote *r = self;
	struct weir__http_object *o = calloc(1, sizeof(*o));
	int err;

	if (!o)
		return fail_memory(why, "opening a URL");
	o->r = r;
	err = object_find(o, url, ret_info, why);
	if (err) {
		object_drop(o);
		return err < 0 ? err : 0;
	}
	o->progress = weir__http_now();
	o->renewed = INT64_MIN / 2;
	o->refs = 1;
	*ret_object = o;
	return 0;
}

void weir__http_object_put(struct weir__http_object *o)
{
	if (!--o->refs)
		object_drop(o);
}

void weir__http_close(void *object)
{
	struct weir__http_object *o = object;
	struct weir__http_client *c = o->r->client;

	pthread_mutex_lock(&c->lock);
	weir__http_object_put(o);
	pthread_mutex_unlock(&c->lock);
}

void weir__http_object_fail(struct weir__http_object *o, int err,
			    const char *why)
{
	struct weir_source_read *read = o->first, *next;

	weir__http_unlist(o);
	o->first = o->last = NULL;
	o->queued = 0;
	for (; read; read = next) {
		next = weir__http_next(read);
		read->priv[WEIR__HTTP_MARK] = NULL;
		read->done(read, err, why);
	}
}

int weir__http_check(void *object, char why[WEIR_SOURCE_WHY])
{
	struct weir__http_object *o = object;
	struct weir__http_body front = { 0 };
	struct weir__http_facts now;
	int err;

	/*
	 * Each request has had an answer about the same ETag or time, or there
	 * was one request only.
	 */
	if (*o->facts.etag || *o->facts.modified ||
	    o->front.n == o->facts.bytes)
		return 0;
	err = weir__http_find(o->r, o->shown, &o->u, 1, NULL, &o->facts, &front,
			      &now, why);
	weir__http_target_clear(&now.target);
	weir__http_body_clear(&front);
	return err;
}

void weir__http_list(struct weir__http_object *o)
{
	struct weir__http_object **end = &o->facts.target.host->objects;

	if (o->listed || o->stale || !o->first)
		return;
	while (*end)
		end = &(*end)->next;
	o->next = NULL;
	*end = o;
	o->listed = true;
}

void weir__http_unlist(struct weir__http_object *o)
{
	struct weir__http_object **p = &o->facts.target.host->objects;

	if (!o->listed)
		return;
	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	o->listed = false;
}

/* Copy what the first request brought. True: that is all of the read. */
static bool read_front(const struct weir__http_object *o,
		       struct weir_source_read *read)
{
	uint64_t n;

	if (read->off >= o->front.n)
		return false;
	n = o->front.n - read->off;
	if (n > read->len)
		n = read->len;
	memcpy(read->buf, o->front.data + read->off, n);
	weir__http_set_got(read, n);
	return n == read->len;
}

/* Queue a read. The lock is held. < 0: it fails with @why. */
static int enqueue(struct weir__http_object *o, struct weir_source_read *read,
		   char *why)
{
	struct weir__http_client *c = o->r->client;
	int err = o->failed;

	if (err) {
		memcpy(why, o->why, WEIR__HTTP_WHY);
		return err;
	}
	err = weir__http_start(c);
	if (err < 0) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: no thread for it could be started: %s", o->shown,
			 strerror(-err));
		return err;
	}
	read->priv[WEIR__HTTP_NEXT] = NULL;
	read->priv[WEIR__HTTP_PART] = NULL;
	read->priv[WEIR__HTTP_MARK] = (void *)(uintptr_t)WEIR__HTTP_QUEUED;
	if (!o->first)
		o->first = read;
	else
		o->last->priv[WEIR__HTTP_NEXT] = read;
	o->last = read;
	o->queued += read->len - weir__http_got(read);
	weir__http_list(o);
	if (weir__http_dispatch(c, weir__http_now()) != INT64_MAX)
		weir__http_wake(c);
	return 0;
}

void weir__http_read(void *object, struct weir_source_read *read)
{
	struct weir__http_object *o = object;
	char why[WEIR__HTTP_WHY];
	int err;

	read->priv[WEIR__HTTP_GOT] = NULL;
	if (read_front(o, read)) {
		read->done(read, 0, NULL);
		return;
	}
	pthread_mutex_lock(&o->r->client->lock);
	err = enqueue(o, read, why);
	pthread_mutex_unlock(&o->r->client->lock);
	if (err < 0)
		read->done(read, err, why);
}

/* Take a read out of the object's queue. The lock is held. */
static void unqueue(struct weir__http_object *o, struct weir_source_read *read)
{
	struct weir_source_read *before = NULL, *at = o->first;

	while (at && at != read) {
		before = at;
		at = weir__http_next(at);
	}
	if (!at)
		return;
	if (before)
		before->priv[WEIR__HTTP_NEXT] = weir__http_next(read);
	else
		o->first = weir__http_next(read);
	if (o->last == read)
		o->last = before;
	o->queued -= read->len - weir__http_got(read);
	if (!o->first)
		weir__http_unlist(o);
}

void weir__http_cancel(void *object, struct weir_source_read *read)
{
	struct weir__http_object *o = object;
	struct weir__http_client *c = o->r->client;
	struct weir__http_part *p;

	pthread_mutex_lock(&c->lock);
	p = read->priv[WEIR__HTTP_PART];
	if (p) {
		weir__http_part_unwant(p, read);
	} else if ((uintptr_t)read->priv[WEIR__HTTP_MARK] ==
		   WEIR__HTTP_QUEUED) {
		unqueue(o, read);
		read->priv[WEIR__HTTP_MARK] = NULL;
		read->done(read, -ECANCELED, NULL);
	}
	pthread_mutex_unlock(&c->lock);
}

/*
 * The bytes of the next request: its share of what waits, so that all free
 * requests have something to do.
 */
static uint64_t share(const struct weir__http_object *o)
{
	const struct weir__http_limit *l = &o->facts.target.host->limit;
	unsigned allowed = (unsigned)l->allowed;
	unsigned spare = allowed > l->in_flight ? allowed - l->in_flight : 1;
	uint64_t bytes = o->queued / spare, most = o->r->client->opts.part;

	return bytes < most ? bytes : most;
}

struct weir__http_part *weir__http_part_new(struct weir__http_object *o)
{
	struct weir__http_part *p = calloc(1, sizeof(*p));
	struct weir_source_read *read = o->first, *last = NULL;
	uint64_t most = share(o);

	if (!p)
		return NULL;
	p->o = o;
	o->refs++;
	p->first = read;
	p->at = read->off + weir__http_got(read);
	p->end = p->at;
	p->since = weir__http_now();
	while (read && read->off + weir__http_got(read) == p->end &&
	       (!last || read->off + read->len - p->at <= most)) {
		p->end = read->off + read->len;
		read->priv[WEIR__HTTP_PART] = p;
		read->priv[WEIR__HTTP_MARK] =
			(void *)(uintptr_t)WEIR__HTTP_TAKEN;
		last = read;
		read = weir__http_next(read);
	}
	last->priv[WEIR__HTTP_NEXT] = NULL;
	o->queued -= p->end - p->at;
	o->first = read;
	if (!read)
		o->last = NULL;
	return p;
}

/* True if the credentials end soon, and others were not sought just now. */
static bool ends_soon(const struct weir__http_object *o)
{
	const struct weir__http_auth *auth = o->facts.target.auth;

	return auth && auth->until && auth->until - time(NULL) < 120 &&
	       weir__http_now() - o->renewed > 60 * WEIR__HTTP_SECOND;
}

struct weir__http_flight *weir__http_more(struct weir__http_host *host)
{
	struct weir__http_object *o;
	struct weir__http_part *p;

	for (;;) {
		o = host->objects;
		if (!o)
			return NULL;
		/* Others of the host have their turn next. */
		weir__http_unlist(o);
		if (!ends_soon(o))
			break;
		weir__http_renew(o);
	}
	p = weir__http_part_new(o);
	if (p && weir__http_part_begin(p) < 0) {
		weir__http_part_fail(p, -ENOMEM, "no memory");
		p = NULL;
	}
	weir__http_list(o);
	return p ? &p->f : NULL;
}
