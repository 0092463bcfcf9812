/* SPDX-License-Identifier: MIT */
/*
 * The files of a model as memory: a private mapping of each, made when it is
 * first needed. Tensors in it can be written to, which copies the pages.
 */
#include "dlpack.h"
#include "part.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/*
 * Map @file. NULL without an exception: it has to be read. Other threads may
 * run meanwhile, and map it, too. On a network file
 * system, or FUSE, an error would not be an exception but end the process.
 */
static struct glue_memory *map_file(struct glue_model *self,
				    struct weir_file *file,
				    const struct weir_file_info *info)
{
	struct weir_buft *buft = glue_buft(self->root, NULL, WEIR_MEM_PLAIN);
	struct glue_memory *memory = NULL;
	struct weir_buf *buf;

	if (buft && !info->network &&
	    weir_buf_map(buft, file, 0, info->bytes, &buf) >= 0) {
		memory = glue_memory_new(buf);
		weir_buf_free(buf);
	}
	PyErr_Clear();
	return memory;
}

static int fail_changed(const struct weir_file_info *info)
{
	char text[256];

	PyOS_snprintf(text, sizeof(text),
		      "%.160s: was written to or cut off since it was opened: "
		      "open it again",
		      info->path);
	glue_fail_text(-ESTALE, text);
	return -1;
}

/* The entry of @shard, or NULL: no memory for it. */
static struct glue_map *entry_of(struct glue_model *self, unsigned shard)
{
	size_t n = (size_t)shard + 1;
	struct glue_map *map;

	if (n > self->maps) {
		map = realloc(self->map, n * sizeof(*map));
		if (!map)
			return NULL;
		memset(map + self->maps, 0, (n - self->maps) * sizeof(*map));
		self->map = map;
		self->maps = n;
	}
	return &self->map[shard];
}

/* Keep @memory for @shard, unless another thread was faster. */
static void map_once(struct glue_model *self, unsigned shard,
		     struct glue_memory *memory)
{
	struct glue_map *map = &self->map[shard];

	if (map->tried) {
		Py_XDECREF(memory);
		return;
	}
	map->memory = memory;
	map->tried = true;
}

struct glue_memory *glue_map_of(struct glue_model *self,
				const struct weir_entry *e)
{
	struct glue_memory *memory = NULL;

	if (e->shard < self->maps)
		memory = self->map[e->shard].memory;
	if (!memory || e->offset > memory->bytes ||
	    e->bytes > memory->bytes - e->offset)
		return NULL;
	return memory;
}

int glue_map(struct glue_model *self, const struct weir_entry *e,
	     struct glue_memory **ret_memory)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file = weir_model_file(self->model, e->shard);
	struct glue_map *map;
	int r = file ? weir_file_info(file, &info) : -EINVAL;

	if (r < 0) {
		glue_fail(r);
		return -1;
	}
	/* Bytes of a page past the end of the file cannot be accessed. */
	if (info.changed)
		return fail_changed(&info);
	map = entry_of(self, e->shard);
	if (map && !map->tried)
		map_once(self, e->shard, map_file(self, file, &info));
	*ret_memory = glue_map_of(self, e);
	return *ret_memory != NULL;
}

void glue_maps_free(struct glue_model *self)
{
	for (size_t i = 0; i < self->maps; i++)
		Py_XDECREF(self->map[i].memory);
	free(self->map);
	self->map = NULL;
	self->maps = 0;
}

#define WINDOW 16 /* pages that one call of mincore(2) examines */
#define WINDOWS 64

bool glue_map_resident(const char *p, size_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = (uintptr_t)p & ~(page - 1);
	size_t pages = ((uintptr_t)p + n - begin + page - 1) / page;
	size_t windows = (pages + WINDOW - 1) / WINDOW;
	unsigned char in[WINDOW];
	size_t step = windows > WINDOWS ? windows / WINDOWS : 1;

	for (size_t w = 0; w < windows; w += step) {
		size_t left = pages - w * WINDOW;
		size_t count = left < WINDOW ? left : WINDOW;

		if (mincore((void *)(begin + w * WINDOW * page), count * page,
			    in) < 0)
			return false;
		for (size_t i = 0; i < count; i++)
			if (!(in[i] & 1))
				return false;
	}
	return true;
}

/* The kernel may cut a request to its read-ahead, which is at least this. */
#define REQUEST (128 << 10)

/*
 * Read [@p, @p + @n) of a mapping, and map its pages: first ask for all of it,
 * then wait. Linux before 5.14 only asks.
 */
static bool fetch(char *p, size_t n)
{
	for (size_t at = 0; at < n; at += REQUEST)
		madvise(p + at, n - at < REQUEST ? n - at : REQUEST,
			MADV_WILLNEED);
	return madvise(p, n, MADV_POPULATE_READ) == 0;
}

PyObject *glue_map_fetch(PyObject *o, PyObject *args)
{
	struct glue_memory *self = (struct glue_memory *)o;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned long long offset, bytes;
	bool r;

	if (!PyArg_ParseTuple(args, "KK:fetch", &offset, &bytes))
		return NULL;
	if (self->device_type != DLPACK_CPU || offset % page ||
	    offset > self->bytes || bytes > self->bytes - offset)
		return glue_fail_text(
			-EINVAL, "fetch: a part of a mapping from a page on");
	Py_BEGIN_ALLOW_THREADS r =
		fetch((char *)self->data + offset, (size_t)bytes);
	Py_END_ALLOW_THREADS return PyBool_FromLong(r);
}
