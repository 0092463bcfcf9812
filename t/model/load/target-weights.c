/* SPDX-License-Identifier: MIT */
/*
 * Plans and weights share targets: neither changes what the other has. In host
 * memory, or that of the device WEIR_T_DEVICE.
 */
#include <pthread.h>

#include "slices.h"
#include "plans.h"

#define MANY 3000u

/* Tensor @i of the model in KiB @i of @buf. */
static struct weir_tensor place(const struct weir_model *m, size_t i,
				struct weir_buf *buf)
{
	struct weir_entry e = entry_of(m, i);
	struct weir_tensor t;

	if (weir_tensor_init(&t, e.dtype, e.ndim, e.shape) < 0 ||
	    weir_tensor_place(&t, buf, i * 1024) < 0)
		bail("%s", weir_error());
	return t;
}

static int put_one(struct weir_plan *p, size_t i, const struct weir_tensor *dst)
{
	struct weir_target t = { .size = sizeof(t), .tensor = i, .dst = dst };

	return weir_plan_add_tensors(p, &t, 1);
}

static void weights_keep_the_targets_of_their_plan(void)
{
	struct weir_buf *buf = buffer(MANY * 1024);
	const struct weir_tensor *first;
	struct weir_tensor dst[MANY];
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	while (n_tensors < MANY)
		add_tensor("U8", 1, 1000);
	m = model();
	p = new_plan(m);
	for (size_t i = 0; i < MANY; i++)
		dst[i] = place(m, i, buf);
	if (put_one(p, 0, &dst[0]) < 0)
		bail("%s", weir_error());
	w = load(p, NULL);
	first = w ? weir_weights_get(w, 0) : NULL;
	for (size_t i = 1; i < MANY; i++)
		if (put_one(p, i, &dst[i]) < 0)
			bail("%s", weir_error());
	ok(w && weir_weights_count(w) == 1 && weir_weights_get(w, 0) == first,
	   "weights do not change when their plan gets more targets");
	weir_weights_free(w);
	w = load(p, NULL);
	is_int(w ? weir_weights_count(w) : 0, MANY,
	       "the next load of the plan has all its targets");
	weir_plan_free(p);
	weir_buf_free(buf);
	ok(w && !slice_differs(weir_weights_get(w, 0), m, 0, 0, 0) &&
		   !slice_differs(weir_weights_get(w, MANY - 1), m, MANY - 1, 0,
				  0),
	   "weights keep the buffers of targets after plan and program");
	weir_weights_free(w);
	weir_model_close(m);
}

/* In a thread: the name of the last tensor, then free the weights. */
static void *use_and_free(void *arg)
{
	struct weir_weights *w = arg;
	size_t last = weir_weights_count(w) - 1;
	bool right = !strcmp(weir_weights_get(w, last)->name, names[last]);

	weir_weights_free(w);
	return right ? arg : NULL;
}

static void a_plan_grows_while_weights_are_freed(void)
{
	enum {
		LOADS = 40
	};
	struct weir_buf *buf = buffer(LOADS * 1024);
	struct weir_tensor dst;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	pthread_t thread;
	size_t right = 0;
	void *used;

	n_tensors = 0;
	while (n_tensors < LOADS)
		add_tensor("U8", 1, 1000);
	m = model();
	p = new_plan(m);
	for (size_t i = 0; i < LOADS; i++) {
		dst = place(m, i, buf);
		if (put_one(p, i, &dst) < 0)
			bail("%s", weir_error());
		if (i && pthread_join(thread, &used) == 0)
			right += used != NULL;
		w = load(p, NULL);
		if (!w || pthread_create(&thread, NULL, use_and_free, w))
			bail("no load or no thread");
	}
	weir_plan_free(p);
	pthread_join(thread, &used);
	is_int(right + (used != NULL), LOADS,
	       "threads use and free weights while their plan gets targets");
	weir_buf_free(buf);
	weir_model_close(m);
}

int main(void)
{
	plans_begin(0);
	weights_keep_the_targets_of_their_plan();
	a_plan_grows_while_weights_are_freed();
	return plans_end();
}
