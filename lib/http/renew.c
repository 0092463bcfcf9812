/* SPDX-License-Identifier: MIT */
/*
 * The thread that finds objects again: those whose signed URL or credentials
 * have ended. That may take several requests and a program, so the threads
 * that move bytes do not do it.
 */
#include "http/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Its target was found, or @err says why not. The lock is held. */
static void found_again(struct weir__http_object *o, int err, const char *why)
{
	struct weir__http_part *parts = o->parts;

	o->stale = false;
	o->parts = NULL;
	if (!err) {
		weir__http_part_resume(parts);
		weir__http_list(o);
		weir__http_dispatch(o->r->client, weir__http_now());
	} else {
		if (err == -ESTALE) {
			o->failed = err;
			memcpy(o->why, why, WEIR__HTTP_WHY);
		}
		weir__http_part_fail(parts, err, why);
		weir__http_object_fail(o, err, why);
	}
	weir__http_object_put(o);
}

/* The lock is held, and released while the object is sought. */
static void find_again(struct weir__http_object *o)
{
	struct weir__http_client *c = o->r->client;
	struct weir__http_body front = { 0 };
	struct weir__http_facts now;
	struct weir__http_auth *auth =
		weir__http_auth_get(o->facts.target.auth);
	char why[WEIR__HTTP_WHY] = "";
	int err;

	pthread_mutex_unlock(&c->lock);
	err = weir__http_find(o->r, o->shown, &o->u, 1, auth, &o->facts, &front,
			      &now, why);
	weir__http_body_clear(&front);
	pthread_mutex_lock(&c->lock);
	if (!err) {
		struct weir__http_target old = o->facts.target;

		o->facts.target = now.target;
		o->found++;
		weir__http_target_clear(&old);
	} else {
		weir__http_target_clear(&now.target);
		/* Others were sought early: those that it has still serve. */
		if (err != -ESTALE && !o->parts && auth &&
		    auth->until > time(NULL))
			err = 0;
	}
	weir__http_auth_put(auth);
	o->renewed = weir__http_now();
	found_again(o, err, why);
}

static void *renew_work(void *arg)
{
	struct weir__http_remote *r = arg;
	struct weir__http_object *o;

	pthread_mutex_lock(&r->client->lock);
	for (;;) {
		while (!r->stale && !r->stopping)
			pthread_cond_wait(&r->renew, &r->client->lock);
		o = r->stale;
		if (!o)
			break;
		r->stale = o->next_stale;
		if (r->stopping)
			found_again(o, -ECANCELED, NULL);
		else if (!o->parts && !o->first)
			found_again(o, 0, NULL); /* nobody wants it now */
		else
			find_again(o);
	}
	pthread_mutex_unlock(&r->client->lock);
	return NULL;
}

void weir__http_renew(struct weir__http_object *o)
{
	struct weir__http_remote *r = o->r;
	int err = 0;

	weir__http_unlist(o);
	o->stale = true;
	o->renewals++;
	o->refs++;
	if (!r->renewing) {
		err = r->host->thread(&r->renewer, "weir-http-new", renew_work,
				      r);
		r->renewing = !err;
	}
	if (err < 0) {
		found_again(o, err, "no thread could be started");
		return;
	}
	o->next_stale = r->stale;
	r->stale = o;
	pthread_cond_signal(&r->renew);
}

void weir__http_renew_stop(struct weir__http_remote *r)
{
	pthread_mutex_lock(&r->client->lock);
	r->stopping = true;
	r->client->leaving = true;
	pthread_cond_broadcast(&r->client->ended);
	pthread_cond_signal(&r->renew);
	pthread_mutex_unlock(&r->client->lock);
	if (r->renewing)
		pthread_join(r->renewer, NULL);
}
