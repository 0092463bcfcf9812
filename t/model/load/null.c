/* SPDX-License-Identifier: MIT */
/* Calls that take an array and its length refuse NULL for an array. */
#include "plans.h"

static struct weir_tensor floats(void)
{
	return (struct weir_tensor){ .dtype = WEIR_DTYPE_F32,
				     .ndim = 1,
				     .shape = { 4 } };
}

static void tensors_are_needed(struct weir_buft *buft)
{
	struct weir_tensors_info info = { .size = sizeof(info) };
	struct weir_tensor t = floats();
	struct weir_buf *buf;
	uint64_t end;
	char bytes[4];

	is_err(weir_tensors_alloc(buft, NULL, 2, &buf), -EINVAL,
	       "2 tensors, but the array is NULL",
	       "weir_tensors_alloc refuses no array of 2 tensors");
	is_err(weir_tensors_measure(buft, NULL, 2, &info), -EINVAL,
	       "2 tensors, but the array is NULL",
	       "weir_tensors_measure refuses no array of 2 tensors");
	is_int(weir_tensors_measure(buft, NULL, 0, &info), 0,
	       "an array of 0 tensors may be NULL");
	if (weir_tensors_alloc(buft, &t, 1, &buf) < 0)
		bail("%s", weir_error());
	is_err(weir_tensors_place(buf, 0, NULL, 2, &end), -EINVAL,
	       "2 tensors, but the array is NULL",
	       "weir_tensors_place refuses no array of 2 tensors");
	is_err(weir_tensor_set(&t, 0, NULL, 4), -EINVAL, "NULL",
	       "weir_tensor_set refuses no bytes");
	is_err(weir_tensor_get(&t, 0, NULL, 4), -EINVAL, "NULL",
	       "weir_tensor_get refuses no room for bytes");
	is_err(weir_convert(WEIR_DTYPE_F16, NULL, WEIR_DTYPE_F32, bytes, 1),
	       -EINVAL, "NULL", "weir_convert refuses no room for elements");
	is_err(weir_convert(WEIR_DTYPE_F16, bytes, WEIR_DTYPE_F32, NULL, 1),
	       -EINVAL, "NULL", "weir_convert refuses no elements");
	weir_buf_free(buf);
}

static void buffers_are_needed(void)
{
	struct weir_buf *none = NULL, *buf;

	is_err(weir_buf_join(NULL, 1, &buf), -EINVAL, "no buffers to join",
	       "weir_buf_join refuses no array of 1 buffer");
	is_err(weir_buf_join(&none, 1, &buf), -EINVAL, "NULL",
	       "weir_buf_join refuses an array without a buffer");
}

static void streams_need_bytes(struct weir_dev *dev, struct weir_buft *buft)
{
	struct weir_tensor t = floats();
	struct weir_stream *stream;
	struct weir_buf *buf;

	if (weir_tensors_alloc(buft, &t, 1, &buf) < 0 ||
	    weir_stream_new(dev, NULL, &stream) < 0)
		bail("%s", weir_error());
	is_err(weir_stream_set(stream, &t, 0, NULL, 4), -EINVAL,
	       "4 bytes at address (nil)", "weir_stream_set refuses no bytes");
	is_err(weir_stream_get(stream, &t, 0, NULL, 4), -EINVAL,
	       "4 bytes at address (nil)",
	       "weir_stream_get refuses no room for bytes");
	weir_stream_free(stream);
	weir_buf_free(buf);
}

static void plans_need_targets(void)
{
	struct weir_model *m;
	struct weir_plan *p;

	n_tensors = 0;
	add_tensor("F32", 4, 10);
	m = model();
	p = new_plan(m);
	is_err(weir_plan_add_tensors(p, NULL, 1), -EINVAL,
	       "1 targets, but the array is NULL",
	       "weir_plan_add_tensors refuses no array of 1 target");
	is_int(weir_plan_add_tensors(p, NULL, 0), 0,
	       "an array of 0 targets may be NULL");
	plan_add(p, NULL, NULL, 0, 0);
	is_err(weir_plan_estimate(p, NULL, 1), -EINVAL,
	       "1 estimates, but the array is NULL",
	       "weir_plan_estimate refuses no array of 1 estimate");
	is_int(weir_plan_estimate(p, NULL, 0), 1,
	       "an array of 0 estimates may be NULL");
	weir_plan_free(p);
	weir_model_close(m);
}

static void placements_need_items(struct weir_buft *buft)
{
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_lifetime item = { .upper = 1, .bytes = 16 };
	struct weir_placement *p;
	struct weir_buf *buf = NULL;

	is_err(weir_placement_new(NULL, 1, NULL, &p), -EINVAL,
	       "1 items, but no list of them",
	       "weir_placement_new refuses no array of 1 item");
	o.n_memories = 2;
	is_err(weir_placement_new(&item, 1, &o, &p), -EINVAL,
	       "2 memories, but no list of them",
	       "weir_placement_new refuses no array of 2 memories");
	if (weir_placement_new(&item, 1, NULL, &p) < 0 ||
	    weir_placement_alloc(p, &buft, &buf) < 0)
		bail("%s", weir_error());
	is_err(weir_placement_apply(p, &buf, NULL, 1), -EINVAL,
	       "0 tensors for 1 items",
	       "weir_placement_apply refuses no array of 1 tensor");
	weir_buf_free(buf);
	weir_placement_free(p);
}

static void graphs_need_sources(void)
{
	struct weir_graph *g;

	if (weir_graph_new(&g) < 0)
		bail("%s", weir_error());
	ok(!weir_graph_op(g, WEIR_OP_ADD, NULL, 0, NULL, 2) &&
		   strstr(weir_error(), "NULL"),
	   "weir_graph_op refuses no array of 2 sources");
	weir_graph_free(g);
	if (weir_graph_new(&g) < 0)
		bail("%s", weir_error());
	ok(!weir_graph_op(g, WEIR_OP_SCALE, NULL, 8, NULL, 1) &&
		   strstr(weir_error(), "NULL"),
	   "weir_graph_op refuses no parameters of 8 bytes");
	weir_graph_free(g);
}

static void schedulers_need_devices(void)
{
	struct weir_dev *none = NULL;
	struct weir_sched *sched;

	is_err(weir_sched_new(&none, 1, NULL, &sched), -EINVAL, "NULL",
	       "weir_sched_new refuses an array without a device");
}

int main(void)
{
	struct weir_dev *cpu;

	plans_begin(8 + 2 + 2 + 4 + 3 + 2 + 1);
	tensors_are_needed(kind);
	buffers_are_needed();
	if (weir_dev_find(root, "CPU", &cpu) < 0)
		bail("%s", weir_error());
	streams_need_bytes(cpu, kind);
	plans_need_targets();
	placements_need_items(kind);
	graphs_need_sources();
	schedulers_need_devices();
	return plans_end();
}
