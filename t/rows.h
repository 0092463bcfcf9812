/* SPDX-License-Identifier: MIT */
/* Jobs of one extent with rows or a conversion, for tests of the engine. */
#ifndef T_ROWS_H
#define T_ROWS_H

#include <pthread.h>

#include "io/engine.h"
#include "mem/convert.h"

/* Make a file of ROWS_FILE bytes, whose content is rows_content. */
#define ROWS_FILE ((size_t)(21u << 20) + 1234)
extern char rows_path[];
extern unsigned char *rows_content;
void rows_file_make(void);

/* Conversions of 2 bytes to 4, and of 4 to 2, which no dtype has. */
extern const struct weir_backend_convert rows_widen, rows_narrow;

struct rows_job {
	struct weir__job job;
	struct weir__extent ext;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned *seen; /* number of reports of each row */
	unsigned dones;
	uint64_t reported, good, buffered; /* bytes */
	bool odd;                     /* a chunk began or ended inside a row */
	struct weir__outcome outcome; /* the last that was not DONE */
};

/* Start a job of @ext. Returns as weir__job_start(). */
int rows_start(struct rows_job *j, struct weir__engine *eng,
	       const struct weir__extent *ext);
void rows_wait(struct rows_job *j);
void rows_job_free(struct rows_job *j);
/* True if each row was reported once. */
bool rows_once(const struct rows_job *j);
/* Bytes that @ext takes in memory, gaps included. */
size_t rows_room(const struct weir__extent *ext);
/* Write to @to what the memory of @ext has after the job. */
void rows_expect(const struct weir__extent *ext, unsigned char *to);

#endif
