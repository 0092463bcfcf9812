/* SPDX-License-Identifier: MIT */
#include "rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

char rows_path[] = "/var/tmp/weir-rows-XXXXXX";
unsigned char *rows_content;

void rows_file_make(void)
{
	int fd = mkstemp(rows_path);

	if (fd < 0)
		skip_all("%s cannot be made", rows_path);
	rows_content = malloc(ROWS_FILE);
	for (size_t i = 0; i < ROWS_FILE; i++)
		rows_content[i] = (unsigned char)(i * 2654435761u >> 13);
	for (size_t at = 0; at < ROWS_FILE;)
		at += (size_t)write(fd, rows_content + at, ROWS_FILE - at);
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static void widen(void *dst, const void *src, size_t n)
{
	unsigned char *to = dst;
	const unsigned char *from = src;

	for (size_t i = 0; i < n; i++, to += 4, from += 2) {
		to[0] = (unsigned char)(from[0] ^ 0x5a);
		to[1] = from[1];
		to[2] = from[0];
		to[3] = (unsigned char)(from[0] + from[1]);
	}
}

static void narrow(void *dst, const void *src, size_t n)
{
	unsigned char *to = dst;
	const unsigned char *from = src;

	for (size_t i = 0; i < n; i++, to += 2, from += 4) {
		to[0] = (unsigned char)(from[0] + 3 * from[2]);
		to[1] = (unsigned char)(from[1] ^ from[3]);
	}
}

const struct weir_backend_convert rows_widen = { .run = widen,
						 .src_bytes = 2,
						 .dst_bytes = 4 };
const struct weir_backend_convert rows_narrow = { .run = narrow,
						  .src_bytes = 4,
						  .dst_bytes = 2 };

static uint64_t n_rows(const struct weir__extent *e)
{
	return e->rows > 1 ? e->rows : 1;
}

/* Bytes of a row in the file. */
static uint64_t row_bytes(const struct weir__extent *e)
{
	return e->rows > 1 ? e->width : e->len;
}

static uint64_t row_out(const struct weir__extent *e)
{
	const struct weir_backend_convert *c = e->convert;

	return c ? row_bytes(e) / c->src_bytes * c->dst_bytes : row_bytes(e);
}

static void on_chunk(struct weir__job *job, size_t ext, uint64_t lo,
		     uint64_t hi, const struct weir__outcome *outcome,
		     enum weir__chunk_way way)
{
	struct rows_job *j = job->arg;
	const struct weir__extent *e = &job->ext[ext];
	uint64_t pitch = e->rows > 1 ? e->file_pitch : 0;

	pthread_mutex_lock(&j->lock);
	j->reported += hi - lo;
	if (outcome->end != WEIR__DONE)
		j->outcome = *outcome;
	else
		j->good += hi - lo;
	if (way == WEIR__CHUNK_BUFFERED)
		j->buffered += hi - lo;
	if (pitch)
		j->odd |= lo % pitch || (hi < e->len && hi % pitch);
	else
		j->odd |= lo % e->convert->src_bytes != 0;
	for (uint64_t at = lo; pitch && at < hi; at += pitch)
		j->seen[at / pitch]++;
	pthread_mutex_unlock(&j->lock);
}

static void on_done(struct weir__job *job)
{
	struct rows_job *j = job->arg;

	pthread_mutex_lock(&j->lock);
	j->dones++;
	pthread_cond_signal(&j->cond);
	pthread_mutex_unlock(&j->lock);
}

int rows_start(struct rows_job *j, struct weir__engine *eng,
	       const struct weir__extent *ext)
{
	int r;

	memset(j, 0, sizeof(*j));
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->cond, NULL);
	j->ext = *ext;
	if (ext->rows > 1)
		j->ext.len = (ext->rows - 1) * ext->file_pitch + ext->width;
	j->seen = calloc(n_rows(ext), sizeof(*j->seen));
	j->job.ext = &j->ext;
	j->job.n_ext = 1;
	j->job.chunk_done = on_chunk;
	j->job.done = on_done;
	j->job.arg = j;
	r = weir__job_start(eng, &j->job);
	if (r < 0)
		rows_job_free(j);
	return r;
}

void rows_wait(struct rows_job *j)
{
	pthread_mutex_lock(&j->lock);
	while (!j->dones)
		pthread_cond_wait(&j->cond, &j->lock);
	pthread_mutex_unlock(&j->lock);
}

void rows_job_free(struct rows_job *j)
{
	free(j->seen);
	j->seen = NULL;
}

bool rows_once(const struct rows_job *j)
{
	for (uint64_t k = 0; j->ext.rows > 1 && k < j->ext.rows; k++)
		if (j->seen[k] != 1)
			return false;
	return j->reported == j->ext.len && j->dones == 1 && !j->odd;
}

size_t rows_room(const struct weir__extent *e)
{
	return (n_rows(e) - 1) * e->mem_pitch + row_out(e);
}

void rows_expect(const struct weir__extent *e, unsigned char *to)
{
	for (uint64_t k = 0; k < n_rows(e); k++) {
		const unsigned char *from =
			rows_content + e->off + k * e->file_pitch;
		unsigned char *row = to + k * e->mem_pitch;

		if (e->convert)
			e->convert->run(row, from,
					row_bytes(e) / e->convert->src_bytes);
		else
			memcpy(row, from, row_bytes(e));
	}
}
