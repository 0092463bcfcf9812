/* SPDX-License-Identifier: MIT */
#include "http/perform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void weir__http_body_clear(struct weir__http_body *b)
{
	if (b->data)
		explicit_bzero(b->data, b->n);
	free(b->data);
	b->data = NULL;
	b->n = b->room = 0;
}

static bool body_add(struct weir__http_body *b, const char *data, size_t n)
{
	if (n > b->max - b->n)
		return false;
	if (b->n + n + 1 > b->room) {
		size_t room = 2 * (b->n + n) + 4096;
		char *more;

		if (room > b->max + 1)
			room = b->max + 1;
		more = realloc(b->data, room);
		if (!more)
			return false;
		b->data = more;
		b->room = room;
	}
	memcpy(b->data + b->n, data, n);
	b->n += n;
	b->data[b->n] = '\0';
	return true;
}

void weir__http_call_clear(struct weir__http_call *call)
{
	weir__http_query_clear(&call->f.q);
	weir__http_answer_clear(&call->f.a);
}

/* A flight of this file is the first member of its call. */
static struct weir__http_call *call_of(struct weir__http_flight *f)
{
	return (struct weir__http_call *)(void *)f;
}

static bool call_head(struct weir__http_flight *f)
{
	struct weir__http_call *call = call_of(f);

	if (weir__http_answer_moved(&f->a))
		return false;
	if (call->want)
		call->result =
			weir__http_answer_check(&f->a, call->want, call->why);
	else if (f->a.status >= 300)
		call->result = -EIO; /* the sentence needs the body */
	/* The body of 416, for an empty object, is not the object's. */
	return call->result >= 0 && f->a.status < 300;
}

static bool call_body(struct weir__http_flight *f, const char *data, size_t n)
{
	struct weir__http_call *call = call_of(f);

	return call->to && body_add(call->to, data, n);
}

static void call_ended(struct weir__http_flight *f)
{
	struct weir__http_call *call = call_of(f);
	struct weir__http_client *c = f->host->client;

	pthread_mutex_lock(&c->lock);
	call->over = true;
	pthread_cond_broadcast(&c->ended);
	pthread_mutex_unlock(&c->lock);
}

/* The client is about to stop. The lock is held. */
static void call_leave(struct weir__http_client *c,
		       struct weir__http_call *call)
{
	struct weir__http_flight *f = &call->f;

	if (!f->waiting) {
		atomic_store(&f->cancelled, true);
		weir__http_wake(c);
		return;
	}
	weir__http_unsend(f);
	weir__http_answer_clear(&f->a);
	f->headed = false;
	f->stop = WEIR__HTTP_STOP_CANCELLED;
	f->code = CURLE_ABORTED_BY_CALLBACK;
	call->over = true;
}

/* Send it once, and wait for the end. */
static int call_once(struct weir__http_client *c, struct weir__http_call *call)
{
	int r;

	call->over = false;
	call->result = 0;
	if (call->to)
		call->to->n = 0;
	pthread_mutex_lock(&c->lock);
	r = weir__http_send(c, &call->f);
	while (!r && !call->over) {
		if (c->leaving)
			call_leave(c, call);
		if (!call->over)
			pthread_cond_wait(&c->ended, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

/*
 * The answer ends in its headers, or its body has not the bytes that they
 * promised. Without an answer libcurl's code says why.
 */
static bool is_short(const struct weir__http_call *call)
{
	const struct weir__http_answer *a = &call->f.a;

	if (!call->want || call->result < 0)
		return false;
	if (!call->f.headed)
		return !call->f.code;
	if (call->result == 1)
		return a->status == 200 && call->to->n != a->length;
	return call->to->n != a->to - a->from + 1;
}

/* What came of the last try: as weir__http_perform. */
static int call_result(struct weir__http_call *call, char *why)
{
	struct weir__http_flight *f = &call->f;

	if (f->a.status && call->result < 0) {
		/* Now the body is there, with the code of an error. */
		if (f->a.status >= 300 && (!call->want || f->a.status != 416))
			return weir__http_answer_fail(
				&f->a, f->q.shown,
				call->want && call->want->hub, why);
		memcpy(why, call->why, WEIR__HTTP_WHY);
		return call->result;
	}
	if (weir__http_answer_moved(&f->a) && f->headed)
		return f->a.location ? 2
				     : weir__http_answer_fail(&f->a, f->q.shown,
							      false, why);
	if (f->stop == WEIR__HTTP_STOP_REFUSED) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: %d, but the body is longer than it may be",
			 f->q.shown, f->a.status);
		return -EBADMSG;
	}
	if (f->code)
		return weir__http_wire_fail(&f->q, f->code, f->detail, why);
	if (is_short(call))
		return weir__http_wire_fail(&f->q, CURLE_PARTIAL_FILE, "", why);
	return call->result;
}

/* True if another try may do better. */
static bool call_retry(const struct weir__http_call *call, unsigned tries)
{
	const struct weir__http_flight *f = &call->f;
	unsigned most = call->tries ? call->tries : 4;

	if (f->q.went_inside || f->stop == WEIR__HTTP_STOP_REFUSED ||
	    f->stop == WEIR__HTTP_STOP_CANCELLED)
		return false;
	if (weir__http_answer_busy(&f->a))
		return true;
	if (f->headed && weir__http_answer_retry(&f->a))
		return tries < 6;
	if (f->headed && call->result < 0)
		return false;
	if (is_short(call))
		return tries < 6;
	return f->code && weir__http_wire_retry(&f->q, f->code) && tries < most;
}

int weir__http_perform(struct weir__http_client *c,
		       const struct weir__http_url *u,
		       struct weir__http_call *call,
		       char why[static WEIR__HTTP_WHY])
{
	struct weir__http_flight *f = &call->f;
	struct weir__http_opts opts = weir__http_opts_get(c);
	int64_t now = weir__http_now(), patience = call->patience, until;

	if (!patience)
		patience = opts.patience < 60 * WEIR__HTTP_SECOND
				   ? opts.patience
				   : 60 * WEIR__HTTP_SECOND;
	until = now + patience;
	f->host = weir__http_host_get(c, u);
	if (!f->host) {
		snprintf(why, WEIR__HTTP_WHY, "%s: no memory", f->q.shown);
		return -ENOMEM;
	}
	f->url = u;
	f->head = call_head;
	f->body = call_body;
	f->ended = call_ended;
	f->not_before = 0;
	/* Else a server that sends a byte now and then would have it wait. */
	f->most = patience;
	for (unsigned tries = 1;; tries++) {
		int r = call_once(c, call);

		if (r < 0) {
			snprintf(why, WEIR__HTTP_WHY,
				 "%s: no thread for it could be started: %s",
				 f->q.shown, strerror(-r));
			return r;
		}
		r = call_result(call, why);
		if (r >= 0 || !call_retry(call, tries))
			return r;
		pthread_mutex_lock(&c->lock);
		f->not_before = weir__http_now() +
				weir__http_backoff(tries, c->opts.backoff,
						   weir__http_random(c));
		pthread_mutex_unlock(&c->lock);
		if (f->not_before > until)
			return r;
		f->q.fresh = !weir__http_answer_busy(&f->a);
	}
}
