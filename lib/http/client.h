/* SPDX-License-Identifier: MIT */
/*
 * The threads that send requests. Each has a multi handle of libcurl with its
 * own connections. A request in all its stages is a flight: it waits at its
 * host until the host's limit lets it start, then a thread runs it, then its
 * owner has it back.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/answer.h"
#include "http/limit.h"
#include "http/wire.h"

#define WEIR__HTTP_THREADS 16

struct weir__http_host;
struct weir__http_object;
struct weir__http_worker;

struct weir__http_opts {
	unsigned threads;     /* 1 to WEIR__HTTP_THREADS */
	unsigned connections; /* at most so many requests at a time, per host */
	int64_t stall;        /* ns without a byte: another connection */
	int64_t patience;     /* ns without progress: the read fails */
	int64_t backoff;      /* ns: the longest wait before the second try */
	int64_t slow;         /* ns of being slower than the others, the same */
	uint64_t part;        /* bytes of the largest request */
	uint64_t first;       /* bytes of the request that opens an object */
};
void weir__http_opts_init(struct weir__http_opts *opts, unsigned cpus);
/* Take "name=value,...". -EINVAL with a sentence: nothing was changed. */
int weir__http_opts_parse(struct weir__http_opts *opts, const char *params,
			  char why[static WEIR__HTTP_WHY]);

/* Why a thread ended a flight before the host did. */
enum weir__http_stop {
	WEIR__HTTP_STOP_NONE,
	WEIR__HTTP_STOP_STALLED,
	WEIR__HTTP_STOP_SLOW,
	WEIR__HTTP_STOP_CANCELLED,
	WEIR__HTTP_STOP_REFUSED, /* head or body did not take it */
};

/*
 * Its owner makes it, and may access it before it is queued and from ended on.
 * In between the thread that runs it does, and the functions that it calls.
 * seen, seen_at and rate are guarded by the client's lock.
 */
struct weir__http_flight {
	struct weir__http_flight *next;   /* waiting, or a thread's inbox */
	struct weir__http_flight *beside; /* others that the thread runs */
	struct weir__http_host *host;
	struct weir__http_query q;
	struct weir__http_answer a;
	CURLcode code;
	char detail[CURL_ERROR_SIZE];
	enum weir__http_stop stop;
	enum weir__http_rank rank;        /* of the address that answered */
	const struct weir__http_url *url; /* for @rank; NULL: not wanted */
	CURL *easy;
	int64_t not_before;
	int64_t most;          /* ns from the start to the end; 0: any */
	int64_t started, last; /* the last byte, or the start */
	uint64_t left;         /* bytes that are missing; for slow ones */
	uint64_t bytes;        /* of the body of this request */
	uint64_t seen;
	int64_t seen_at;
	uint64_t rate;      /* bytes per second lately */
	unsigned replaced;  /* times that it was too slow */
	bool waiting;       /* in host->waiting; guarded by the lock */
	bool headed, taken; /* the headers are there, and head took them */
	atomic_bool cancelled;

	/*
	 * The headers are there. False: the body goes to a.body. The flight's
	 * thread calls these four, without a lock.
	 */
	bool (*head)(struct weir__http_flight *f);
	/* Bytes of the body. False: end the request. */
	bool (*body)(struct weir__http_flight *f, const char *data, size_t n);
	/* Called a few times each second while it runs. NULL: not wanted. */
	void (*tick)(struct weir__http_flight *f);
	/* It has ended, and is its owner's again. */
	void (*ended)(struct weir__http_flight *f);
};

struct weir__http_client {
	pthread_mutex_t lock;
	pthread_cond_t ended;        /* a call has ended, or the client stops */
	struct weir__http_opts opts; /* guarded by the lock */
	int (*thread)(pthread_t *ret, const char *name, void *(*fn)(void *),
		      void *arg);
	struct weir__http_host *hosts;
	struct weir__http_worker *workers[WEIR__HTTP_THREADS];
	unsigned n_workers;
	bool stopping;
	bool leaving; /* calls and commands end at once */
	uint64_t random;
	/* Make the next flight for a host, or NULL. The lock is held. */
	struct weir__http_flight *(*more)(struct weir__http_host *host);
};

/* A server: scheme, host name and port. Never freed before the client. */
struct weir__http_host {
	struct weir__http_host *next;
	struct weir__http_client *client;
	char *name; /* "https://host:443" */
	struct weir__http_limit limit;
	struct weir__http_flight *waiting, **waiting_end;
	int64_t last_replaced;
	/* @more's: objects with reads that wait. */
	struct weir__http_object *objects;
};

/* NULL: no memory. Threads start with the first flight. */
struct weir__http_client *weir__http_client_new(
	const struct weir__http_opts *opts,
	int (*thread)(pthread_t *, const char *, void *(*)(void *), void *));
/* Nothing is queued or runs. Ends the threads. */
void weir__http_client_free(struct weir__http_client *c);

/* Find or make the host of @u. NULL: no memory. */
struct weir__http_host *weir__http_host_get(struct weir__http_client *c,
					    const struct weir__http_url *u);

/*
 * Queue a flight for its host. Never blocks. -errno: no thread could be
 * started, and the flight is still its owner's. The lock is held.
 */
int weir__http_send(struct weir__http_client *c, struct weir__http_flight *f);
/* Take a flight out that waits at its host. The lock is held. */
void weir__http_unsend(struct weir__http_flight *f);
/* Start what may start. The lock is held. Returns when to call it again. */
int64_t weir__http_dispatch(struct weir__http_client *c, int64_t now);
/* Start threads if there are none. The lock is held. */
int weir__http_start(struct weir__http_client *c);
/* Have the threads look at cancelled flights. The lock is held. */
void weir__http_wake(struct weir__http_client *c);

/* The parameters as they are now. Takes the lock. */
struct weir__http_opts weir__http_opts_get(struct weir__http_client *c);
/* True if the root closes: what blocks should end. Takes the lock. */
bool weir__http_leaving(struct weir__http_client *c);

/* A random number. The lock is held. */
uint64_t weir__http_random(struct weir__http_client *c);
/* CLOCK_MONOTONIC in ns. */
int64_t weir__http_now(void);

#endif
