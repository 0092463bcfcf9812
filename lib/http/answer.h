/* SPDX-License-Identifier: MIT */
/*
 * The answer to a request: its headers, read one line at a time, and the
 * sentence for an answer that is not the wanted one. Pure functions.
 */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/uri.h"

struct weir__http_answer {
	int status; /* 0: no answer */
	bool has_range, has_total, has_linked_size, has_length;
	uint64_t from, to, total; /* of Content-Range; @to is the last byte */
	uint64_t length;          /* Content-Length */
	uint64_t linked_size;
	int64_t retry_after; /* seconds from now; -1: not given */
	char etag[160];      /* with its quotes */
	char modified[64];
	char type[64]; /* Content-Type, without parameters */
	char encoding[32];
	char commit[64];       /* X-Repo-Commit */
	char linked_etag[160]; /* X-Linked-Etag, without quotes */
	char region[40];       /* x-amz-bucket-region */
	char hub_error[64];    /* X-Error-Code of a hub */
	char *next;            /* of Link, with rel="next"; as location */
	char *location;        /* of malloc, or NULL */
	char body[4096];       /* of an answer that is not the wanted one */
	size_t body_len;
};

/* Forget everything. The first use is of a cleared struct. */
void weir__http_answer_clear(struct weir__http_answer *a);

/* Take a line of @n bytes; "HTTP/1.1 200 OK" begins a new answer. */
void weir__http_answer_line(struct weir__http_answer *a, const char *line,
			    size_t n);
/* Keep the beginning of the body of an answer that is not the wanted one. */
void weir__http_answer_body(struct weir__http_answer *a, const char *data,
			    size_t n);

/* What an answer to a request for bytes has to be. */
struct weir__http_want {
	const char *shown; /* the URL, for the sentence */
	uint64_t from, to; /* the bytes that were asked for; @to is the last */
	bool open;         /* the object's size is not known yet */
	bool hub;          /* a hub answers, for the sentence */
	uint64_t total;    /* the size of the object, if it is known */
	/* The object's, or ""; the time matters if there is no ETag. */
	const char *etag, *modified;
};

/*
 * 0: the bytes that were asked for follow, fewer only if the object ends
 * before (@open). 1: the whole object follows, and has @a->length bytes
 * (@open). Otherwise < 0 with a sentence in @why; weir__http_answer_retry says
 * whether the same request may have a better answer later.
 */
int weir__http_answer_check(const struct weir__http_answer *a,
			    const struct weir__http_want *want,
			    char why[static WEIR__HTTP_WHY]);

/* An errno and the sentence for a status that is no success. */
int weir__http_answer_fail(const struct weir__http_answer *a, const char *shown,
			   bool hub, char why[static WEIR__HTTP_WHY]);

/* True if the host failed for now: it may answer the same request later. */
bool weir__http_answer_retry(const struct weir__http_answer *a);
/* True if it has too much to do. */
bool weir__http_answer_busy(const struct weir__http_answer *a);
/* True for 301, 302, 303, 307 and 308. */
bool weir__http_answer_moved(const struct weir__http_answer *a);
/* The code in an error of S3, as "SlowDown"; "" if there is none. */
void weir__http_answer_code(const struct weir__http_answer *a,
			    char code[static 64]);

#endif
