/* SPDX-License-Identifier: MIT */
/* A part: one request for neighbouring reads, sent until all are done. */
#include "http/object.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RENEWALS 2 /* without a byte */
#define TRIES 6    /* without a byte, if the host is not just busy */

static struct weir__http_part *part_of(struct weir__http_flight *f)
{
	return (struct weir__http_part *)(void *)f;
}

static struct weir__http_client *client_of(const struct weir__http_part *p)
{
	return p->o->r->client;
}

static void part_free(struct weir__http_part *p)
{
	weir__http_query_clear(&p->f.q);
	weir__http_answer_clear(&p->f.a);
	weir__http_object_put(p->o);
	free(p);
}

/* End a read that is in no list any more. The lock is held. */
static void read_end(struct weir_source_read *read, int err, const char *why)
{
	read->priv[WEIR__HTTP_PART] = NULL;
	read->priv[WEIR__HTTP_MARK] = NULL;
	read->done(read, err, why);
}

/* End the reads that are not wanted any more. The lock is held. */
static void end_unwanted(struct weir__http_part *p)
{
	struct weir_source_read *read = p->first, *before = NULL, *next;

	for (; read; read = next) {
		next = weir__http_next(read);
		if ((uintptr_t)read->priv[WEIR__HTTP_MARK] !=
		    WEIR__HTTP_UNWANTED) {
			before = read;
			continue;
		}
		if (before)
			before->priv[WEIR__HTTP_NEXT] = next;
		else
			p->first = next;
		read_end(read, -ECANCELED, NULL);
	}
}

static bool part_head(struct weir__http_flight *f)
{
	struct weir__http_part *p = part_of(f);
	struct weir__http_want want = {
		.shown = p->o->shown,
		.from = p->at,
		.to = p->end - 1,
		.hub = p->o->u.scheme == WEIR__HTTP_HF,
		.total = p->o->facts.bytes,
		.etag = p->o->facts.etag,
		.modified = p->o->facts.modified,
	};

	p->result = weir__http_answer_check(&f->a, &want, p->why);
	return p->result >= 0;
}

/* The first read has all its bytes. */
static void read_complete(struct weir__http_part *p)
{
	struct weir_source_read *read = p->first;

	pthread_mutex_lock(&client_of(p)->lock);
	p->first = weir__http_next(read);
	p->o->progress = p->f.last;
	p->o->renewals = 0;
	read_end(read, 0, NULL);
	pthread_mutex_unlock(&client_of(p)->lock);
}

/* Put the bytes to the reads that want them. */
static bool part_body(struct weir__http_flight *f, const char *data, size_t n)
{
	struct weir__http_part *p = part_of(f);
	struct weir_source_read *read;

	if (n > p->end - p->at)
		return false;
	p->since = f->last;
	while ((read = p->first) && n) {
		uint64_t got = weir__http_got(read), bytes = n;

		/* Those before the read were of one that is not wanted. */
		if (p->at < read->off + got) {
			if (bytes > read->off + got - p->at)
				bytes = read->off + got - p->at;
		} else {
			if (bytes > read->len - got)
				bytes = read->len - got;
			memcpy((char *)read->buf + got, data, bytes);
			weir__http_set_got(read, got + bytes);
			if (got + bytes == read->len)
				read_complete(p);
			else if (read->arrived)
				read->arrived(read, got + bytes);
		}
		p->at += bytes;
		data += bytes;
		n -= bytes;
	}
	p->at += n;
	f->left = p->end - p->at;
	return true;
}

static void part_tick(struct weir__http_flight *f)
{
	struct weir__http_part *p = part_of(f);

	if (!atomic_exchange(&p->look, false))
		return;
	pthread_mutex_lock(&client_of(p)->lock);
	end_unwanted(p);
	if (!p->first)
		atomic_store(&f->cancelled, true);
	pthread_mutex_unlock(&client_of(p)->lock);
}

void weir__http_part_fail(struct weir__http_part *parts, int err,
			  const char *why)
{
	struct weir__http_part *next;
	struct weir_source_read *read;

	for (; parts; parts = next) {
		next = parts->next;
		while ((read = parts->first)) {
			parts->first = weir__http_next(read);
			read_end(read, err, why);
		}
		part_free(parts);
	}
}

/* Send it to where the object is. */
static void part_send(struct weir__http_part *p)
{
	if (weir__http_part_begin(p) < 0) {
		weir__http_part_fail(p, -ENOMEM, "no memory");
		return;
	}
	/* It was sent before, so there are threads: this cannot fail. */
	weir__http_send(client_of(p), &p->f);
}

void weir__http_part_resume(struct weir__http_part *parts)
{
	struct weir__http_part *next;

	for (; parts; parts = next) {
		next = parts->next;
		parts->next = NULL;
		parts->parked = false;
		part_send(parts);
	}
}

/* The reason why the request did not bring all bytes. */
static int part_reason(struct weir__http_part *p, char *why)
{
	struct weir__http_flight *f = &p->f;

	if (f->headed && p->result < 0) {
		if (f->a.status >= 300)
			return weir__http_answer_fail(
				&f->a, f->q.shown,
				p->o->u.scheme == WEIR__HTTP_HF, why);
		memcpy(why, p->why, WEIR__HTTP_WHY);
		return p->result;
	}
	if (f->stop == WEIR__HTTP_STOP_REFUSED) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: %d, but more bytes came than were asked for",
			 f->q.shown, f->a.status);
		return -EBADMSG;
	}
	return weir__http_wire_fail(
		&f->q, f->code ? f->code : CURLE_PARTIAL_FILE, f->detail, why);
}

/* True if another request may bring the bytes. */
static bool part_retry(const struct weir__http_part *p, int64_t now)
{
	const struct weir__http_flight *f = &p->f;
	int64_t since = p->since > p->o->progress ? p->since : p->o->progress;
	bool busy = f->headed && weir__http_answer_busy(&f->a);

	if (now - since > client_of(p)->opts.patience ||
	    f->stop == WEIR__HTTP_STOP_REFUSED || f->q.went_inside)
		return false;
	if (busy || f->stop == WEIR__HTTP_STOP_STALLED ||
	    f->stop == WEIR__HTTP_STOP_SLOW)
		return true;
	if (p->tries > TRIES)
		return false;
	if (f->headed && p->result < 0)
		return weir__http_answer_retry(&f->a);
	return !f->code || weir__http_wire_retry(&f->q, f->code);
}

/* True if the object may be elsewhere now, or its credentials have ended. */
static bool part_is_stale(const struct weir__http_part *p)
{
	const struct weir__http_flight *f = &p->f;
	const struct weir__http_target *t = &p->o->facts.target;

	if (!f->headed || p->result >= 0)
		return false;
	if (weir__http_answer_moved(&f->a))
		return true;
	return (f->a.status == 400 || f->a.status == 401 ||
		f->a.status == 403 || f->a.status == 404 ||
		f->a.status == 410) &&
	       (t->moved || (t->auth && t->auth->user &&
			     t->auth->kind == WEIR__HTTP_AUTH_AWS));
}

/* The request has ended, and bytes are missing. The lock is held. */
static void part_again(struct weir__http_part *p)
{
	struct weir__http_client *c = client_of(p);
	struct weir__http_object *o = p->o;
	int64_t now = weir__http_now();
	char why[WEIR__HTTP_WHY];
	int err;

	if (p->at > p->at_before) {
		p->tries = 0;
		o->renewals = 0;
	} else {
		p->tries++;
	}
	if (o->failed) {
		weir__http_part_fail(p, o->failed, o->why);
		return;
	}
	if (part_is_stale(p) && p->found != o->found) {
		/* Another part's failure has had it found again. */
		part_send(p);
		return;
	}
	if (o->stale || (part_is_stale(p) && o->renewals < RENEWALS)) {
		p->next = o->parts;
		o->parts = p;
		p->parked = true;
		if (!o->stale)
			weir__http_renew(o);
		return;
	}
	if (part_retry(p, now)) {
		p->f.not_before = now;
		if (p->tries)
			p->f.not_before +=
				weir__http_backoff(p->tries, c->opts.backoff,
						   weir__http_random(c));
		/* A host that is busy has nothing against the connection. */
		p->f.q.fresh = !weir__http_answer_busy(&p->f.a);
		part_send(p);
		return;
	}
	err = part_reason(p, why);
	if (err == -ESTALE) {
		o->failed = err;
		memcpy(o->why, why, sizeof(why));
	}
	weir__http_part_fail(p, err, why);
}

static void part_ended(struct weir__http_flight *f)
{
	struct weir__http_part *p = part_of(f);
	struct weir__http_client *c = client_of(p);

	pthread_mutex_lock(&c->lock);
	end_unwanted(p);
	if (p->first)
		part_again(p);
	else
		part_free(p);
	pthread_mutex_unlock(&c->lock);
}

int weir__http_part_begin(struct weir__http_part *p)
{
	const struct weir__http_facts *facts = &p->o->facts;
	struct weir__http_flight *f = &p->f;
	bool fresh = f->q.fresh;

	weir__http_query_clear(&f->q);
	f->q.url = weir__http_url_text(&facts->target.u);
	if (!f->q.url)
		return -ENOMEM;
	memcpy(f->q.shown, p->o->shown, sizeof(f->q.shown));
	f->q.auth = weir__http_auth_get(facts->target.auth);
	f->q.range = true;
	f->q.from = p->at;
	f->q.to = p->end - 1;
	f->q.inside = facts->target.inside;
	f->q.fresh = fresh;
	/* A weak ETag matches nothing. */
	if (*facts->etag && strncmp(facts->etag, "W/", 2))
		memcpy(f->q.match, facts->etag, sizeof(f->q.match));
	else
		memcpy(f->q.unmodified, facts->modified,
		       sizeof(f->q.unmodified));
	f->host = facts->target.host;
	f->head = part_head;
	f->body = part_body;
	f->tick = part_tick;
	f->ended = part_ended;
	f->left = p->end - p->at;
	p->at_before = p->at;
	p->found = p->o->found;
	p->result = 0;
	return 0;
}

/*
 * A read of a part that waits is ended at once; one of a part that runs by its
 * thread, which may be writing to it.
 */
void weir__http_part_unwant(struct weir__http_part *p,
			    struct weir_source_read *read)
{
	struct weir__http_part **at = &p->o->parts;

	read->priv[WEIR__HTTP_MARK] = (void *)(uintptr_t)WEIR__HTTP_UNWANTED;
	if (!p->parked && !p->f.waiting) {
		atomic_store(&p->look, true);
		weir__http_wake(client_of(p));
		return;
	}
	end_unwanted(p);
	if (p->first)
		return;
	if (p->parked) {
		while (*at != p)
			at = &(*at)->next;
		*at = p->next;
	} else {
		weir__http_unsend(&p->f);
	}
	part_free(p);
}
