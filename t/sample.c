/* SPDX-License-Identifier: MIT */
#include "sample.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

unsigned char sample_byte(uint64_t off, unsigned salt)
{
	uint64_t x = (off + salt * 977) * 0x9e3779b97f4a7c15u;

	return (unsigned char)(x >> 37);
}

static char *header(const struct sample_tensor *t, const char *const *shapes,
		    size_t n, unsigned shift, size_t *ret_len,
		    uint64_t *ret_bytes)
{
	char *text = malloc(64 + 240 * n), *at = text, count[24];
	uint64_t end = 0;

	*at++ = '{';
	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = t[i].count * t[i].size;

		sprintf(count, "%llu", (unsigned long long)t[i].count);
		at += sprintf(
			at,
			"%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
			i ? "," : "", t[i].name, t[i].dtype,
			shapes && *shapes[i] ? shapes[i] : count,
			(unsigned long long)end,
			(unsigned long long)(end + bytes));
		end += bytes;
	}
	*at++ = '}';
	while ((size_t)(at - text + 8) % 64 != shift)
		*at++ = ' ';
	*ret_len = (size_t)(at - text);
	*ret_bytes = end;
	return text;
}

void sample_write(const char *path, const struct sample_tensor *t, size_t n,
		  unsigned shift, unsigned salt)
{
	sample_write_shapes(path, t, NULL, n, shift, salt);
}

void sample_write_shapes(const char *path, const struct sample_tensor *t,
			 const char *const *shapes, size_t n, unsigned shift,
			 unsigned salt)
{
	size_t len, done = 0;
	uint64_t bytes;
	char *text = header(t, shapes, n, shift, &len, &bytes);
	unsigned char *all = malloc(8 + len + bytes);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (int i = 0; i < 8; i++)
		all[i] = (unsigned char)(len >> 8 * i);
	memcpy(all + 8, text, len);
	for (uint64_t i = 8 + len; i < 8 + len + bytes; i++)
		all[i] = sample_byte(i, salt);
	while (fd >= 0 && done < 8 + len + bytes) {
		ssize_t r = write(fd, all + done, 8 + len + bytes - done);

		if (r <= 0)
			break;
		done += (size_t)r;
	}
	if (fd < 0 || done < 8 + len + bytes)
		bail("%s cannot be written", path);
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	free(all);
	free(text);
}

bool sample_holds(const struct weir_weights *w, size_t i, unsigned salt)
{
	struct weir_entry e = { .size = sizeof(e) };
	const struct weir_tensor *t = weir_weights_get(w, i);
	const unsigned char *p = weir_tensor_data(t);
	unsigned char *copy = NULL;
	bool good = true;

	if (weir_weights_entry(w, i, &e) < 0)
		return false;
	if (!p) {
		/* Host code cannot read the memory of a device. */
		p = copy = malloc(e.bytes);
		good = weir_tensor_get(t, 0, copy, e.bytes) == 0;
	}
	for (uint64_t k = 0; good && k < e.bytes; k++)
		good = p[k] == sample_byte(e.offset + k, salt);
	free(copy);
	return good;
}

size_t sample_wrong(const struct weir_weights *w, unsigned salt)
{
	size_t wrong = 0;

	for (size_t i = 0; i < weir_weights_count(w); i++)
		wrong += !sample_holds(w, i, salt);
	return wrong;
}

struct weir_load *sample_load(struct weir *weir, const char *path,
			      uint64_t bytes, struct weir_buft *to,
			      struct weir_event *ev)
{
	const struct sample_tensor tensor = { "a", "F32", bytes / 4, 4 };
	struct weir_load_opts opts = WEIR_LOAD_OPTS_INIT;
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;

	sample_write(path, &tensor, 1, 8, 1);
	opts.flags = WEIR_LOAD_UNCHECKED; /* the file is removed */
	if (weir_model_open(weir, path, NULL, &model) < 0 ||
	    weir_plan_new(model, &plan) < 0 ||
	    weir_plan_add(plan, NULL, to, NULL) < 0 ||
	    weir_load_start(plan, &opts, &load) < 0 ||
	    weir_load_record(load, 0, ev) < 0)
		bail("%s", weir_error());
	weir_plan_free(plan);
	weir_model_close(model);
	unlink(path);
	return load;
}

int sample_load_way(struct weir *weir, const char *path, uint32_t way,
		    unsigned salt, int64_t timeout)
{
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;
	struct weir_buft *plain;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;
	struct weir_dev *cpu;
	int r;

	put.way = way;
	if (weir_dev_find(weir, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) < 0 ||
	    weir_model_open(weir, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 ||
	    weir_plan_add(p, NULL, plain, &put) < 0 ||
	    weir_load_start(p, NULL, &l) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	r = weir_load_wait(l, timeout);
	if (!r && sample_wrong(w, salt))
		r = 1;
	weir_load_free(l);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	return r;
}
