/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "streams.h"

struct weir *open_root(uint32_t io)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;

	o.io = io;
	must(weir_open(&o, &weir));
	return weir;
}

struct weir_dev *cpu_of(struct weir *weir)
{
	struct weir_dev *dev;

	must(weir_dev_find(weir, "CPU", &dev));
	return dev;
}

struct weir_dev *dev_of(struct weir *weir)
{
	const char *name = getenv("WEIR_T_DEVICE");
	struct weir_dev *dev;

	must(weir_dev_find(weir, name && *name ? name : "CPU", &dev));
	return dev;
}

bool on_cpu(struct weir *weir)
{
	return dev_of(weir) == cpu_of(weir);
}

struct weir_stream *new_stream(struct weir *weir, const char *name)
{
	struct weir_stream_opts o = WEIR_STREAM_OPTS_INIT;
	struct weir_stream *s;

	o.name = name;
	must(weir_stream_new(dev_of(weir), &o, &s));
	return s;
}

struct weir_event *new_event(struct weir *weir, unsigned flags)
{
	struct weir_event *ev;

	must(weir_event_new(weir, flags, &ev));
	return ev;
}

struct weir_tensor bytes(struct weir *weir, size_t n)
{
	int64_t shape = (int64_t)n;
	struct weir_buft *plain;
	struct weir_tensor t;
	struct weir_buf *buf;

	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &plain));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(plain, n, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	memset(weir_tensor_data(&t), 0, n);
	return t;
}

void pattern(void *at, size_t n, unsigned seed)
{
	unsigned char *p = at;

	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)((i * 31 + (i >> 8) * 7 + seed) & 0xff);
}

bool is_pattern(const void *at, size_t n, unsigned seed)
{
	const unsigned char *p = at;

	for (size_t i = 0; i < n; i++)
		if (p[i] !=
		    (unsigned char)((i * 31 + (i >> 8) * 7 + seed) & 0xff))
			return false;
	return true;
}

int hold_until_released(void *arg)
{
	struct hold *hold = arg;

	sem_post(&hold->entered);
	while (sem_wait(&hold->released) < 0)
		;
	return hold->result;
}

void hold_init(struct hold *hold, int result)
{
	sem_init(&hold->entered, 0, 0);
	sem_init(&hold->released, 0, 0);
	hold->result = result;
}

void hold_stream(struct weir_stream *s, struct hold *hold)
{
	hold_init(hold, 0);
	must(weir_stream_call(s, hold_until_released, hold));
	sem_wait(&hold->entered);
}

void release_stream(struct hold *hold)
{
	sem_post(&hold->released);
}

int fail_with(void *arg)
{
	return *(int *)arg;
}

int count_up(void *arg)
{
	(*(int *)arg)++;
	return 0;
}

struct weir_file *temp_file(struct weir *weir, size_t n, unsigned seed)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	char path[] = "stream-test-XXXXXX";
	unsigned char *all = malloc(n ? n : 1);
	struct weir_file *file;
	int fd = mkstemp(path);

	pattern(all, n, seed);
	if (fd < 0 || write(fd, all, n) != (ssize_t)n || fsync(fd) < 0)
		bail("cannot write %s", path);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	free(all);
	o.flags = WEIR_FILE_WRITE;
	must(weir_file_open(weir, path, &o, &file));
	unlink(path);
	return file;
}
