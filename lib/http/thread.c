/* SPDX-License-Identifier: MIT */
#include "http/thread.h"
#include "http/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH (250 * WEIR__HTTP_MS) /* how often flights are looked at */
#define BODY_MAX (256u << 10)       /* of an answer that is not wanted */
#define SLOW_LEFT (1u << 20)        /* less is not worth a new connection */
#define SLOW_TIMES 8
#define MAX_SPARE 32

/* load and inbox are guarded by the client's lock, the rest is the thread's. */
struct weir__http_worker {
	struct weir__http_client *c;
	pthread_t thread;
	CURLM *multi;
	struct weir__http_flight *inbox, **inbox_end;
	unsigned load;
	struct weir__http_flight *flights;
	CURL *spare[MAX_SPARE]; /* easy handles to use again */
	unsigned n_spare;
	int64_t watched;
};

void weir__http_worker_take(struct weir__http_worker *w,
			    struct weir__http_flight *f)
{
	f->next = NULL;
	*w->inbox_end = f;
	w->inbox_end = &f->next;
	w->load++;
	curl_multi_wakeup(w->multi);
}

void weir__http_worker_wake(struct weir__http_worker *w)
{
	curl_multi_wakeup(w->multi);
}

unsigned weir__http_worker_load(const struct weir__http_worker *w)
{
	return w->load;
}

static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
	struct weir__http_flight *f = arg;

	(void)one;
	f->last = weir__http_now();
	/* What follows a body in chunks is not part of the answer. */
	if (f->headed)
		return n;
	if (n > 2 || (n && *line != '\r' && *line != '\n')) {
		weir__http_answer_line(&f->a, line, n);
		return n;
	}
	/* An empty line ends the headers: of 100 Continue, or the answer's. */
	if (f->a.status < 200)
		return n;
	f->headed = true;
	if (f->url)
		f->rank = weir__http_wire_rank(f->easy, f->url);
	f->taken = f->head(f);
	return n;
}

static size_t on_body(char *data, size_t one, size_t n, void *arg)
{
	struct weir__http_flight *f = arg;

	(void)one;
	f->last = weir__http_now();
	f->bytes += n;
	if (f->taken) {
		if (f->body(f, data, n))
			return n;
	} else if (f->a.status >= 300 && f->bytes <= BODY_MAX) {
		weir__http_answer_body(&f->a, data, n);
		return n;
	}
	/* Also a success that is not the wanted one ends its connection. */
	f->stop = WEIR__HTTP_STOP_REFUSED;
	return n + 1; /* curl ends the transfer */
}

static CURL *get_easy(struct weir__http_worker *w)
{
	return w->n_spare ? w->spare[--w->n_spare] : curl_easy_init();
}

static int flight_wire(struct weir__http_flight *f)
{
	int r = weir__http_wire(f->easy, &f->q);

	if (r < 0)
		return r;
	*f->detail = '\0';
	curl_easy_setopt(f->easy, CURLOPT_ERRORBUFFER, f->detail);
	curl_easy_setopt(f->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(f->easy, CURLOPT_HEADERDATA, f);
	curl_easy_setopt(f->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(f->easy, CURLOPT_WRITEDATA, f);
	curl_easy_setopt(f->easy, CURLOPT_PRIVATE, f);
	return 0;
}

/* The flight has ended with @code: it is its owner's again. */
static void flight_end(struct weir__http_worker *w, struct weir__http_flight *f,
		       CURLcode code)
{
	struct weir__http_client *c = w->c;
	enum weir__http_end how = WEIR__HTTP_END_BROKEN;
	int64_t now = weir__http_now();

	f->code = code;
	if (f->easy) {
		/*
		 * After a failure libcurl 7.88 refuses some options of a
		 * handle that is used again.
		 */
		if (!code && w->n_spare < MAX_SPARE) {
			/* It must keep no pointer to the flight, no secret. */
			curl_easy_reset(f->easy);
			w->spare[w->n_spare++] = f->easy;
		} else {
			curl_easy_cleanup(f->easy);
		}
		f->easy = NULL;
	}
	if (weir__http_answer_busy(&f->a) ||
	    (f->stop == WEIR__HTTP_STOP_STALLED && !f->a.status))
		how = WEIR__HTTP_END_BUSY;
	else if (f->a.status)
		how = WEIR__HTTP_END_GOOD;
	pthread_mutex_lock(&c->lock);
	w->load--;
	weir__http_limit_end(&f->host->limit, how, f->started, now);
	if (weir__http_answer_busy(&f->a) && f->a.retry_after > 0) {
		int64_t s = f->a.retry_after > 60 ? 60 : f->a.retry_after;

		f->host->limit.closed_until = now + s * WEIR__HTTP_SECOND;
	}
	pthread_mutex_unlock(&c->lock);
	f->ended(f);
}

static void flight_start(struct weir__http_worker *w,
			 struct weir__http_flight *f)
{
	f->stop = WEIR__HTTP_STOP_NONE;
	f->headed = f->taken = false;
	f->bytes = f->seen = f->rate = 0;
	f->seen_at = f->started;
	f->rank = WEIR__HTTP_PUBLIC;
	weir__http_answer_clear(&f->a);
	if (atomic_load(&f->cancelled)) {
		f->stop = WEIR__HTTP_STOP_CANCELLED;
		flight_end(w, f, CURLE_ABORTED_BY_CALLBACK);
		return;
	}
	f->easy = get_easy(w);
	if (!f->easy || flight_wire(f) < 0 ||
	    curl_multi_add_handle(w->multi, f->easy)) {
		flight_end(w, f, CURLE_OUT_OF_MEMORY);
		return;
	}
	f->beside = w->flights;
	w->flights = f;
}

static void flight_remove(struct weir__http_worker *w,
			  struct weir__http_flight *f)
{
	struct weir__http_flight **p = &w->flights;

	while (*p != f)
		p = &(*p)->beside;
	*p = f->beside;
	curl_multi_remove_handle(w->multi, f->easy);
}

static void read_messages(struct weir__http_worker *w)
{
	CURLMsg *m;
	int n;

	while ((m = curl_multi_info_read(w->multi, &n))) {
		struct weir__http_flight *f = NULL;
		CURLcode code = m->data.result;
		char *private = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private);
		f = (struct weir__http_flight *)(void *)private;
		curl_easy_getinfo(m->easy_handle, CURLINFO_HTTP_CONNECTCODE,
				  &f->q.proxy_status);
		flight_remove(w, f);
		flight_end(w, f, code);
	}
}

/* Note how much each flight got lately. The lock is held. */
static void measure(struct weir__http_worker *w, int64_t now)
{
	for (struct weir__http_flight *f = w->flights; f; f = f->beside) {
		int64_t ns = now - f->seen_at;

		if (ns < WEIR__HTTP_SECOND)
			continue;
		f->rate = (uint64_t)((double)(f->bytes - f->seen) * 1e9 /
				     (double)ns);
		f->seen = f->bytes;
		f->seen_at = now;
	}
}

static int by_rate(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The median rate of the flights of @host here; 0: there are too few. */
static uint64_t median(const struct weir__http_worker *w,
		       const struct weir__http_host *host)
{
	uint64_t rates[256];
	size_t n = 0;

	for (struct weir__http_flight *f = w->flights; f && n < 256;
	     f = f->beside)
		if (f->host == host && f->seen_at > f->started)
			rates[n++] = f->rate;
	if (n < 3)
		return 0;
	qsort(rates, n, sizeof(*rates), by_rate);
	return rates[n / 2];
}

/*
 * True if others of the same host are much faster: one of them is then a
 * better connection. One in a second is replaced, so that a network that
 * becomes slow as a whole is not asked for everything again.
 */
static bool is_slow(struct weir__http_worker *w, struct weir__http_flight *f,
		    int64_t now)
{
	const struct weir__http_opts *o = &w->c->opts;

	if (now - f->started < o->slow || f->left < SLOW_LEFT ||
	    f->replaced >= 2 || f->seen_at == f->started ||
	    now - f->host->last_replaced < WEIR__HTTP_SECOND ||
	    f->rate * SLOW_TIMES >= median(w, f->host))
		return false;
	f->host->last_replaced = now;
	f->replaced++;
	return true;
}

/* End flights that are cancelled, stand still, or are much too slow. */
static void watch(struct weir__http_worker *w, int64_t now)
{
	struct weir__http_flight *f, *next, *over = NULL;

	for (f = w->flights; f; f = f->beside)
		if (f->tick)
			f->tick(f);
	pthread_mutex_lock(&w->c->lock);
	measure(w, now);
	for (f = w->flights; f; f = f->beside) {
		if (atomic_load(&f->cancelled))
			f->stop = WEIR__HTTP_STOP_CANCELLED;
		else if (now - f->last > w->c->opts.stall ||
			 (f->most && now - f->started > f->most))
			f->stop = WEIR__HTTP_STOP_STALLED;
		else if (is_slow(w, f, now))
			f->stop = WEIR__HTTP_STOP_SLOW;
	}
	pthread_mutex_unlock(&w->c->lock);
	for (f = w->flights; f; f = next) {
		next = f->beside;
		if (f->stop == WEIR__HTTP_STOP_NONE)
			continue;
		flight_remove(w, f);
		f->next = over;
		over = f;
	}
	for (; over; over = next) {
		next = over->next;
		flight_end(w, over, CURLE_OPERATION_TIMEDOUT);
	}
}

/* Take what was given to this thread. False: the client stops. */
static bool take_inbox(struct weir__http_worker *w, int64_t *ret_when)
{
	struct weir__http_client *c = w->c;
	struct weir__http_flight *f, *next;
	bool stop;

	pthread_mutex_lock(&c->lock);
	*ret_when = weir__http_dispatch(c, weir__http_now());
	f = w->inbox;
	w->inbox = NULL;
	w->inbox_end = &w->inbox;
	stop = c->stopping && !f && !w->load;
	pthread_mutex_unlock(&c->lock);
	for (; f; f = next) {
		next = f->next;
		f->next = NULL;
		flight_start(w, f);
	}
	return !stop;
}

static void *work(void *arg)
{
	struct weir__http_worker *w = arg;
	int64_t when, now, wait;
	int running;

	while (take_inbox(w, &when)) {
		curl_multi_perform(w->multi, &running);
		read_messages(w);
		now = weir__http_now();
		if (now - w->watched >= WATCH) {
			watch(w, now);
			w->watched = now;
		}
		/* What ended may let others start. */
		pthread_mutex_lock(&w->c->lock);
		when = weir__http_dispatch(w->c, now);
		if (w->inbox)
			when = now;
		pthread_mutex_unlock(&w->c->lock);
		wait = w->flights ? WATCH : 10 * WEIR__HTTP_SECOND;
		if (when < now + wait)
			wait = when > now ? when - now : 0;
		curl_multi_poll(
			w->multi, NULL, 0,
			(int)((wait + WEIR__HTTP_MS - 1) / WEIR__HTTP_MS),
			NULL);
	}
	return NULL;
}

static void worker_drop(struct weir__http_worker *w)
{
	while (w->n_spare)
		curl_easy_cleanup(w->spare[--w->n_spare]);
	if (w->multi)
		curl_multi_cleanup(w->multi);
	free(w);
}

int weir__http_worker_new(struct weir__http_client *c, unsigned i,
			  struct weir__http_worker **ret)
{
	struct weir__http_worker *w = calloc(1, sizeof(*w));
	char name[16];
	int r;

	if (!w)
		return -ENOMEM;
	w->c = c;
	w->inbox_end = &w->inbox;
	w->multi = curl_multi_init();
	if (!w->multi) {
		worker_drop(w);
		return -ENOMEM;
	}
	curl_multi_setopt(w->multi, CURLMOPT_MAXCONNECTS,
			  (long)c->opts.connections + 8);
	snprintf(name, sizeof(name), "weir-http%u", i);
	r = c->thread(&w->thread, name, work, w);
	if (r < 0) {
		worker_drop(w);
		return r;
	}
	*ret = w;
	return 0;
}

void weir__http_worker_free(struct weir__http_worker *w)
{
	pthread_join(w->thread, NULL);
	worker_drop(w);
}
