/* SPDX-License-Identifier: MIT */
/* Jobs of one extent with rows or a conversion, for tests of the engine. */
#ifndef T_ROWS_H
#define T_ROWS_H

#include <pthread.h>

#include "io/engine.h"
#include "mem/convert.h"

/* A file of ROWS_FILE bytes, and what it has. */
#define ROWS_FILE ((size_t)(21u << 20) + 1234)
extern char rows_path[];
extern unsigned char *rows_content;
void rows_file_make(void);

/* Of 2 bytes to 4, and of 4 to 2: not the conversion of any dtype. */
extern const struct weir_backend_convert rows_widen, rows_narrow;

struct rows_job {
	struct weir__job job;
	struct weir__extent ext;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned *seen; /* of each row: reports of it */
	unsigned dones;
	uint64_t reported, good, buffered; /* bytes */
	bool odd;                     /* a chunk began or ended inside a row */
	struct weir__outcome outcome; /* the last that was not DONE */
};

/* Start a job of @ext. 0, or what weir__job_start returned. */
int rows_start(struct rows_job *j, struct weir__engine *eng,
	       const struct weir__extent *ext);
void rows_wait(struct rows_job *j);
void rows_job_free(struct rows_job *j);
/* Each row was reported once. */
bool rows_once(const struct rows_job *j);
/* Bytes that @ext takes in memory, gaps included. */
size_t rows_room(const struct weir__extent *ext);
/* What @to, the memory of @ext, has after the job. */
void rows_expect(const struct weir__extent *ext, unsigned char *to);

#endif
