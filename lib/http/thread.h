/* SPDX-License-Identifier: MIT */
/* A thread of a client. Calls have the client's lock, but new and free. */
#ifndef HTTP_THREAD_H
#define HTTP_THREAD_H

struct weir__http_client;
struct weir__http_flight;
struct weir__http_worker;

/* The lock is held. -errno: it cannot be started. */
int weir__http_worker_new(struct weir__http_client *c, unsigned i,
			  struct weir__http_worker **ret);
/* The client is stopping: wait for the end of the thread. */
void weir__http_worker_free(struct weir__http_worker *w);
void weir__http_worker_take(struct weir__http_worker *w,
			    struct weir__http_flight *f);
void weir__http_worker_wake(struct weir__http_worker *w);
unsigned weir__http_worker_load(const struct weir__http_worker *w);

#endif
