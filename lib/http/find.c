/* SPDX-License-Identifier: MIT */
/* Finds an object: the first request, and the redirects that follow it. */
#include "http/credentials.h"
#include "http/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MOVES 5

void weir__http_target_clear(struct weir__http_target *t)
{
	weir__http_url_clear(&t->u);
	weir__http_auth_put(t->auth);
	memset(t, 0, sizeof(*t));
}

void weir__http_start_clear(struct weir__http_start *s)
{
	weir__http_url_clear(&s->u);
	weir__http_query_clear(&s->q);
}

/* A search under way. */
struct seeking {
	struct weir__http_remote *r;
	const char *shown;
	const struct weir__http_url *u;
	uint64_t want;
	const struct weir__http_facts *before;
	struct weir__http_body *front;
	bool hub, store;
	struct weir__http_url home; /* the host that the credentials are for */
	struct weir__http_auth *auth;
	struct weir__http_target at;
	char sha256[72]; /* of the first answer of a hub, or "" */
	char commit[64];
	char region[40]; /* of the bucket, in an error */
	bool has_size;
	uint64_t bytes; /* that the hub says */
	unsigned moves;
};

/*
 * The rules for redirects: never from https to http, never further inside of a
 * network than the host that sent it, and credentials stay with their host.
 */
static int follow(struct seeking *s, const struct weir__http_flight *f,
		  char *why)
{
	struct weir__http_url next;
	enum weir__http_rank rank;
	char reason[WEIR__HTTP_WHY], shown[WEIR__HTTP_SHOWN];
	int r;

	if (s->moves++ == MAX_MOVES) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: %d, more than %d redirects, one after another",
			 s->shown, f->a.status, MAX_MOVES);
		return -ELOOP;
	}
	r = weir__http_url_follow(&s->at.u, f->a.location, &next, reason);
	if (r < 0) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: %d, refused: it leads to %.200s", s->shown,
			 f->a.status, reason);
		return -EPERM;
	}
	weir__http_url_show(&next, shown);
	if (s->at.u.scheme == WEIR__HTTP_HTTPS &&
	    next.scheme == WEIR__HTTP_HTTP) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: %d, refused: it leads from https to %.200s",
			 s->shown, f->a.status, shown);
		weir__http_url_clear(&next);
		return -EPERM;
	}
	rank = weir__http_address_rank(next.host);
	if (!s->at.inside || f->rank < s->at.inside)
		s->at.inside = f->rank;
	if (s->at.inside > WEIR__HTTP_LOOPBACK)
		s->at.inside = WEIR__HTTP_LOOPBACK;
	if (rank > s->at.inside) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"%s: %d, refused: it leads to an address of an inner network, %.200s",
			s->shown, f->a.status, shown);
		weir__http_url_clear(&next);
		return -EPERM;
	}
	weir__http_url_clear(&s->at.u);
	s->at.u = next;
	s->at.moved = true;
	return 0;
}

/* What a hub says in the answer that redirects. */
static void note_hub(struct seeking *s, const struct weir__http_answer *a)
{
	if (!s->hub)
		return;
	if (*a->commit)
		memcpy(s->commit, a->commit, sizeof(s->commit));
	if (weir__http_is_sha256(a->linked_etag))
		memcpy(s->sha256, a->linked_etag, 65);
	if (a->has_linked_size) {
		s->has_size = true;
		s->bytes = a->linked_size;
	}
}

/*
 * The hub has said which commit it is: true if its cache on this machine has
 * the file of that commit, in full.
 */
static bool find_copy(struct seeking *s, uint64_t bytes,
		      struct weir__http_facts *facts)
{
	struct weir__http_copy copy;

	if (!s->hub || s->before || !weir__http_is_commit(s->commit) ||
	    !weir__http_snapshot_find(s->u, s->commit, &copy))
		return false;
	if (copy.bytes != bytes ||
	    (*s->sha256 && *copy.sha256 && strcmp(copy.sha256, s->sha256))) {
		free(copy.path);
		return false;
	}
	facts->copy = copy.path;
	return true;
}

/* What pins the bytes. */
static void note_identity(const struct seeking *s,
			  const struct weir__http_answer *a,
			  struct weir__http_facts *facts)
{
	memcpy(facts->sha256, s->sha256, sizeof(facts->sha256));
	if (*s->sha256)
		snprintf(facts->identity, sizeof(facts->identity), "sha256:%s",
			 s->sha256);
	else if (*s->commit)
		snprintf(facts->identity, sizeof(facts->identity), "commit:%s",
			 s->commit);
	else if (*a->etag && strncmp(a->etag, "W/", 2) && strlen(a->etag) < 150)
		snprintf(facts->identity, sizeof(facts->identity),
			 "etag:%.150s", a->etag);
}

static int note_facts(struct seeking *s, const struct weir__http_call *call,
		      struct weir__http_facts *facts, char *why)
{
	const struct weir__http_answer *a = &call->f.a;

	/* 416 has no bytes: the object is empty. */
	facts->bytes = call->result == 1 ? s->front->n : a->total;
	if (s->has_size && s->bytes != facts->bytes) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: %d with a file of %llu bytes, the hub says %llu",
			 s->shown, a->status, (unsigned long long)facts->bytes,
			 (unsigned long long)s->bytes);
		return -EBADMSG;
	}
	memcpy(facts->etag, a->etag, sizeof(facts->etag));
	memcpy(facts->modified, a->modified, sizeof(facts->modified));
	note_identity(s, a, facts);
	return 0;
}

/* True if both are the same object. */
static bool is_same(const struct weir__http_facts *a,
		    const struct weir__http_facts *b)
{
	return a->bytes == b->bytes && !strcmp(a->identity, b->identity) &&
	       !strcmp(a->etag, b->etag) &&
	       (*a->etag || !strcmp(a->modified, b->modified));
}

static bool query_at(struct seeking *s, struct weir__http_query *q)
{
	bool home = weir__http_url_same_host(&s->home, &s->at.u);

	q->url = weir__http_url_text(&s->at.u);
	memcpy(q->shown, s->shown, strlen(s->shown) + 1);
	q->auth = home ? weir__http_auth_get(s->auth) : NULL;
	q->range = true;
	q->from = 0;
	q->to = s->want - 1;
	q->inside = s->at.inside;
	return q->url;
}

void weir__http_note_unsigned(const struct weir__http_auth *auth, int err,
			      char why[static WEIR__HTTP_WHY])
{
	size_t n = strlen(why);

	if (err == -EACCES && weir__http_auth_is_none(auth))
		snprintf(
			why + n, WEIR__HTTP_WHY - n,
			"; no credentials were found, so the request was not signed");
}

/* One request of the search: as weir__http_perform. */
static int ask(struct seeking *s, struct weir__http_query *first,
	       struct weir__http_facts *facts, char *why)
{
	struct weir__http_want want = {
		.shown = s->shown,
		.to = s->want - 1,
		.open = true,
		.hub = s->hub,
	};
	struct weir__http_call call = { .want = &want, .to = s->front };
	bool home;
	int r;

	if (first) {
		call.f.q = *first;
		memset(first, 0, sizeof(*first));
		call.f.q.range = true;
		call.f.q.to = s->want - 1;
	} else if (!query_at(s, &call.f.q)) {
		snprintf(why, WEIR__HTTP_WHY, "%s: no memory", s->shown);
		weir__http_call_clear(&call);
		return -ENOMEM;
	}
	s->front->max = s->want;
	r = weir__http_perform(s->r->client, &s->at.u, &call, why);
	if (s->store)
		weir__http_note_unsigned(s->auth, r, why);
	home = weir__http_url_same_host(&s->home, &s->at.u);
	if (r >= 0 && home)
		note_hub(s, &call.f.a);
	else if (s->store && home)
		memcpy(s->region, call.f.a.region, sizeof(s->region));
	if (r == 2 && s->has_size && find_copy(s, s->bytes, facts)) {
		facts->bytes = s->bytes;
		note_identity(s, &call.f.a, facts);
		r = 0;
	} else if (r == 2) {
		r = follow(s, &call.f, why);
		r = r < 0 ? r : 2;
	} else if (r >= 0) {
		s->at.host = call.f.host;
		r = note_facts(s, &call, facts, why);
		if (!r && facts->bytes > s->front->n)
			find_copy(s, facts->bytes, facts);
	}
	weir__http_call_clear(&call);
	return r;
}

static int search_run(struct seeking *s, struct weir__http_start *start,
		      struct weir__http_facts *facts, char *why)
{
	int r;

	s->at.u = start->u;
	memset(&start->u, 0, sizeof(start->u));
	s->auth = weir__http_auth_get(start->q.auth);
	s->hub = start->hub;
	s->store = start->store;
	snprintf(s->home.host, sizeof(s->home.host), "%s", s->at.u.host);
	s->home.scheme = s->at.u.scheme;
	s->home.port = s->at.u.port;
	r = ask(s, &start->q, facts, why);
	while (r == 2)
		r = ask(s, NULL, facts, why);
	if (r < 0)
		return r;
	if (s->before && !is_same(s->before, facts)) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"%s: the object changed since it was opened: open it again",
			s->shown);
		return -ESTALE;
	}
	facts->target = s->at;
	if (weir__http_url_same_host(&s->home, &s->at.u))
		facts->target.auth = weir__http_auth_get(s->auth);
	memset(&s->at, 0, sizeof(s->at));
	return 0;
}

/* Find it once; @region gets what an error says about its bucket. */
static int find_once(struct seeking *s, const struct weir__http_url *u,
		     const struct weir__http_auth *refused,
		     struct weir__http_facts *ret, char *why)
{
	struct weir__http_start start = { 0 };
	int err = weir__http_begin(s->r, u, refused, &start, why);

	memset(ret, 0, sizeof(*ret));
	if (!err)
		err = search_run(s, &start, ret, why);
	if (!err && *s->commit)
		err = weir__http_hub_pin(s->r->hub, u, s->commit, why);
	weir__http_target_clear(&s->at);
	weir__http_auth_put(s->auth);
	s->auth = NULL;
	weir__http_start_clear(&start);
	if (err < 0) {
		weir__http_target_clear(&ret->target);
		weir__http_body_clear(s->front);
		free(ret->copy);
		ret->copy = NULL;
	}
	return err;
}

int weir__http_find(struct weir__http_remote *r, const char *shown,
		    const struct weir__http_url *u, uint64_t want,
		    const struct weir__http_auth *refused,
		    const struct weir__http_facts *before,
		    struct weir__http_body *front, struct weir__http_facts *ret,
		    char why[static WEIR__HTTP_WHY])
{
	struct seeking s = {
		.r = r,
		.shown = shown,
		.u = u,
		.want = want,
		.before = before,
		.front = front,
	};
	int err = find_once(&s, u, refused, ret, why);

	/* The bucket is in another region, which is known now. */
	if (err < 0 && u->scheme == WEIR__HTTP_S3 &&
	    weir__http_cloud_learn(r, u->host, s.region))
		err = find_once(&s, u, refused, ret, why);
	return err;
}
