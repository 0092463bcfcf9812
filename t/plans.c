/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/cuda.h>

#include "plans.h"

char dir[] = "/var/tmp/weir-place-XXXXXX";
char path[64];
struct weir *root;
const char *device;
struct weir_buft *kind;
size_t kind_align;

struct sample_tensor tensors[MAX_TENSORS];
char names[MAX_TENSORS][48];
size_t n_tensors;
static const char *shapes[MAX_TENSORS];
static uint64_t seed = 1;

uint64_t some(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

struct weir_buft *memory_of(const char *name, enum weir_mem which)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	if (weir_dev_find(root, name, &dev) < 0 ||
	    weir_dev_buft(dev, which, &buft) < 0)
		bail("%s", weir_error());
	return buft;
}

uint64_t address(struct weir_buf *buf)
{
	uint64_t at = (uintptr_t)weir_buf_data(buf);

	if (device && weir_cuda_buf_ptr(buf, &at) < 0)
		bail("%s", weir_error());
	return at;
}

struct weir_buf *buffer(size_t bytes)
{
	struct weir_buf *buf;

	if (weir_buf_alloc(kind, bytes, NULL, &buf) < 0 ||
	    weir_buf_clear(buf, 0xa5) < 0)
		bail("%s", weir_error());
	return buf;
}

void add_tensor(const char *dtype, unsigned size, uint64_t count)
{
	snprintf(names[n_tensors], sizeof(names[0]), "t%zu", n_tensors);
	tensors[n_tensors] =
		(struct sample_tensor){ names[n_tensors], dtype, count, size };
	shapes[n_tensors++] = "";
}

void add_shape(const char *dtype, unsigned size, uint64_t count,
	       const char *shape)
{
	add_tensor(dtype, size, count);
	shapes[n_tensors - 1] = shape;
}

void some_tensors(size_t n, uint64_t below)
{
	static const char *const dtypes[] = { "U8", "F16", "F32", "F64" };

	n_tensors = 0;
	while (n_tensors < n) {
		unsigned log = (unsigned)some(4);

		add_tensor(dtypes[log], 1u << log, some(below));
	}
}

uint64_t bytes_of(size_t i)
{
	return tensors[i].count * tensors[i].size;
}

struct weir_model *model(void)
{
	struct weir_model *m;

	sample_write_shapes(path, tensors, shapes, n_tensors,
			    8 * (unsigned)some(8), 1);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

struct weir_plan *new_plan(struct weir_model *m)
{
	struct weir_plan *p;

	if (weir_plan_new(m, &p) < 0)
		bail("%s", weir_error());
	return p;
}

int plan_add(struct weir_plan *p, const char *glob, struct weir_buf *buf,
	     uint64_t offset, uint64_t align)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	int r;

	o.buf = buf;
	o.offset = offset;
	o.align = align;
	o.way = some(2) ? WEIR_WAY_DIRECT : WEIR_WAY_AUTO;
	r = weir_plan_add(p, glob, kind, &o);
	if (r < 0)
		bail("%s", weir_error());
	return r;
}

struct weir_weights *load(struct weir_plan *p, struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_weights *w;
	struct weir_load *l;

	o.into = into;
	if (weir_load_start(p, &o, &l) < 0)
		return NULL;
	if (weir_load_wait(l, -1) < 0 || weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	weir_load_free(l);
	return w;
}

bool loads(struct weir_plan *p)
{
	struct weir_weights *w = load(p, NULL);
	bool good = w && sample_wrong(w, 1) == 0;

	if (!w)
		diag("%s", weir_error());
	weir_weights_free(w);
	return good;
}

void plans_begin(unsigned checks)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	device = getenv("WEIR_T_DEVICE");
	plan(checks);
	if (!mkdtemp(dir))
		skip_all("%s cannot be made", dir);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	kind = device ? memory_of(device, WEIR_MEM_DEVICE)
		      : memory_of("CPU", WEIR_MEM_HUGE);
	weir_buft_info(kind, &info);
	kind_align = info.align;
}

int plans_end(void)
{
	weir_close(root);
	unlink(path);
	rmdir(dir);
	return done_testing();
}
