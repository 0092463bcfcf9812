/* SPDX-License-Identifier: MIT */
/*
 * engine MODEL RANK RANKS: an engine that owns its memory. It computes the
 * place of each of its tensors in one block of memory, and loads exactly there:
 * the rows of its rank of matrices, vectors as F32, other tensors as in the
 * files. Prints each tensor as it arrives.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

enum {
	ALIGN = 64
};

struct engine {
	uint32_t rank, ranks;
	size_t n;
	struct weir_tensor *tensor; /* tensor i of the model, as it is here */
	struct weir_target *target;
	struct weir_slice rows; /* the slice of a matrix that this rank has */
	size_t bytes;
	struct weir_buf *buf; /* the engine's memory */
};

/* Choose the dtype, the shape and the place of tensor @i in the engine. */
static int add_tensor(struct engine *e, const struct weir_model *model,
		      size_t i)
{
	struct weir_entry in = { .size = sizeof(in) };
	struct weir_tensor *t = &e->tensor[i];
	size_t bytes;
	int ret = weir_model_tensor(model, i, &in);

	if (ret < 0)
		return ret;
	e->target[i].size = sizeof(e->target[i]);
	e->target[i].tensor = i;
	e->target[i].dst = t;
	if (in.ndim == 2 && in.shape[0] % e->ranks == 0) {
		e->target[i].slice = &e->rows;
		in.shape[0] /= e->ranks;
	}
	/* With 0 elements weir_convert() only says whether it can do it. */
	if (in.ndim == 1 &&
	    weir_convert(WEIR_DTYPE_F32, NULL, in.dtype, NULL, 0) == 0) {
		in.dtype = WEIR_DTYPE_F32;
		e->target[i].priority = 1; /* read vectors first */
	}
	if ((ret = weir_tensor_init(t, in.dtype, in.ndim, in.shape)) < 0 ||
	    (ret = weir_tensor_bytes(t, &bytes)) < 0)
		return ret;
	t->name = in.name;
	t->offset = e->bytes;
	e->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return 0;
}

/*
 * Make the memory of the engine, and a buffer of it. The library calls free()
 * when the last reference to the buffer is dropped, and so not while a read may
 * still write to the memory.
 */
static int wrap_memory(struct engine *e, struct weir *weir)
{
	void *memory = aligned_alloc(ALIGN, e->bytes + ALIGN);
	struct weir_buft *plain;
	int ret;

	if ((ret = weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN,
				 &plain)) < 0 ||
	    (ret = weir_buf_wrap(plain, memory, e->bytes, free, memory,
				 &e->buf)) < 0)
		free(memory);
	return ret;
}

/* Lay all tensors out, and place them in the memory. */
static int make_tensors(struct engine *e, struct weir *weir,
			const struct weir_model *model)
{
	int ret = 0;

	e->n = weir_model_count(model);
	e->tensor = calloc(e->n + 1, sizeof(*e->tensor));
	e->target = calloc(e->n + 1, sizeof(*e->target));
	e->rows.rank = e->rank;
	e->rows.ranks = e->ranks;
	if (!e->tensor || !e->target)
		return -ENOMEM;
	for (size_t i = 0; i < e->n && ret == 0; i++)
		ret = add_tensor(e, model, i);
	if (ret == 0)
		ret = wrap_memory(e, weir);
	for (size_t i = 0; i < e->n && ret == 0; i++)
		ret = weir_tensor_place(&e->tensor[i], e->buf,
					e->tensor[i].offset);
	return ret;
}

/* In a plan that has only targets, tensor i of the load is target i. */
static int load_tensors(struct engine *e, struct weir_model *model)
{
	struct weir_plan *plan = NULL;
	struct weir_load *load = NULL;
	size_t i;
	int ret;

	if ((ret = weir_plan_new(model, &plan)) == 0 &&
	    (ret = weir_plan_add_tensors(plan, e->target, e->n)) == 0 &&
	    (ret = weir_load_start(plan, NULL, &load)) == 0) {
		while (weir_load_next(load, -1, &i) == WEIR_NEXT_ARRIVED)
			printf("%-40s at %" PRIu64 "%s%s\n", e->tensor[i].name,
			       e->tensor[i].offset,
			       e->target[i].slice ? ", sliced" : "",
			       e->target[i].priority ? ", as F32" : "");
		ret = weir_load_wait(load, -1);
	}
	weir_load_free(load);
	weir_plan_free(plan);
	return ret;
}

static int run(struct weir *weir, struct engine *e, const char *path)
{
	struct weir_model *model = NULL;
	int ret;

	if ((ret = weir_model_open(weir, path, NULL, &model)) == 0 &&
	    (ret = make_tensors(e, weir, model)) == 0)
		ret = load_tensors(e, model);
	weir_model_close(model);
	weir_buf_free(e->buf);
	return ret;
}

int main(int argc, char **argv)
{
	struct engine e = { .n = 0 };
	struct weir *weir;
	int ret;

	if (argc == 4) {
		e.rank = (uint32_t)strtoul(argv[2], NULL, 10);
		e.ranks = (uint32_t)strtoul(argv[3], NULL, 10);
	}
	if (e.rank >= e.ranks) {
		fprintf(stderr, "usage: engine MODEL RANK RANKS\n");
		return 2;
	}
	ret = weir_open(NULL, &weir);
	if (ret == 0) {
		ret = run(weir, &e, argv[1]);
		if (ret < 0)
			fprintf(stderr, "%s\n", weir_error());
		weir_close(weir);
	}
	free(e.tensor);
	free(e.target);
	return ret < 0;
}
