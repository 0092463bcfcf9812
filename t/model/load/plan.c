/* SPDX-License-Identifier: MIT */
/*
 * Plans: names, many selections, estimates, empty tensors. In host memory, or
 * that of the device WEIR_T_DEVICE.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "plans.h"

/* All into one buffer, beginning with the last tensor of the file. */
static void each_tensor_may_have_a_put(void)
{
	const uint64_t step = device ? kind_align : 16;
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_buf *buf;
	int chosen = 0;

	n_tensors = 0;
	while (n_tensors < MAX_TENSORS)
		add_tensor("U8", 1, 1 + some(16));
	m = model();
	buf = buffer(MAX_TENSORS * step);
	p = new_plan(m);
	for (size_t i = n_tensors; i-- > 0;)
		chosen += plan_add(p, names[i], buf, i * step, 0);
	is_int(chosen, MAX_TENSORS,
	       "a plan may have a selection for each of %u tensors",
	       MAX_TENSORS);
	ok(loads(p),
	   "a plan with a selection for each tensor loads their bytes");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* A sparse file of two tensors of @bytes each and an empty tensor. */
static struct weir_model *hollow(uint64_t bytes)
{
	struct weir_model *m;
	char text[512];
	uint64_t len;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	bytes &= ~(uint64_t)63;
	len = (uint64_t)sprintf(
		text,
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[0,%llu]},"
		"\"b\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]},"
		"\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
		(unsigned long long)bytes, (unsigned long long)bytes,
		(unsigned long long)bytes, (unsigned long long)bytes,
		(unsigned long long)(2 * bytes));
	if (fd < 0 || write(fd, &len, 8) != 8 ||
	    write(fd, text, len) != (ssize_t)len ||
	    ftruncate(fd, (off_t)(8 + len + 2 * bytes)) < 0)
		bail("%s: %s", path, strerror(errno));
	close(fd);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

static void estimates_share_one_memory(void)
{
	struct weir_buft *plain = memory_of("CPU", WEIR_MEM_PLAIN);
	struct weir_buft *huge = memory_of("CPU", WEIR_MEM_HUGE);
	struct weir_estimate e[2] = { { .size = sizeof(e[0]) } };
	uint64_t free_bytes, total;
	struct weir_dev *cpu;
	struct weir_plan *p;
	struct weir_model *m;

	if (weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_memory(cpu, &free_bytes, &total) < 0)
		bail("%s", weir_error());
	m = hollow(free_bytes / 10 * 6);
	p = new_plan(m);
	if (weir_plan_add(p, "a", plain, NULL) < 0)
		bail("%s", weir_error());
	is_int(weir_plan_estimate(p, e, 2) == 1 && e[0].fits, 1,
	       "six tenths of the free memory fit");
	if (weir_plan_add(p, NULL, huge, NULL) < 0)
		bail("%s", weir_error());
	is_int(weir_plan_estimate(p, e, 2), 2,
	       "an estimate of two kinds has two entries");
	is_int(e[0].fits + e[1].fits, 0,
	       "two kinds of one memory do not fit where only one of them would");
	is_int(e[0].tensors + e[1].tensors, 3,
	       "an estimate counts empty tensors");
	weir_plan_free(p);
	weir_model_close(m);
}

static void estimates_count_bytes_and_tensors(void)
{
	struct weir_estimate e = { .size = sizeof(e) };
	struct weir_model *m = hollow(64);
	struct weir_plan *p = new_plan(m);
	struct weir_buf *buf = buffer(1000);

	plan_add(p, "[ae]", buf, 0, 0);
	plan_add(p, "b", NULL, 0, 0);
	is_int(weir_plan_estimate(p, &e, 1), 1,
	       "an estimate of one kind has one entry");
	ok(e.bytes >= 64 && e.bytes < 64 + 4096,
	   "an estimate has the bytes to allocate");
	is_int(e.given, 64,
	       "an estimate has the bytes in the caller's buffers");
	is_int(e.tensors, 3,
	       "an estimate counts the tensors of all selections");
	e.size = 0;
	is_err(weir_plan_estimate(p, &e, 1), -EINVAL,
	       "weir_plan_estimate: ", "an estimate without a size is refused");
	weir_plan_free(p);
	weir_model_close(m);
	weir_buf_free(buf);
}

/* Empty tensors have other dimensions that no memory could hold. */
static void empty_tensors_are_loaded(void)
{
	static const char text[] =
		"{\"a\":{\"dtype\":\"F64\",\"shape\":[3,4611686018427387904,0],\"data_offsets\":[0,0]},"
		"\"b\":{\"dtype\":\"F4\",\"shape\":[0,18446744073709551615,7],\"data_offsets\":[0,0]}}";
	uint64_t len = sizeof(text) - 1;
	struct weir_tensor view;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, &len, 8) != 8 ||
	    write(fd, text, len) != (ssize_t)len)
		bail("%s: %s", path, strerror(errno));
	close(fd);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	plan_add(p, NULL, NULL, 0, 0);
	w = load(p, NULL);
	ok(w, "empty tensors are loaded whatever their other dimensions are");
	is_int(w ? weir_weights_get(w, 0)->shape[1] : 0,
	       INT64_C(4611686018427387904),
	       "an empty tensor keeps its dimensions");
	is_int(w ? weir_tensor_view(weir_weights_get(w, 0), 0, 1, 2, &view) : 1,
	       0, "an empty tensor has views");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

/* Choose tensor @i of @m as a target in @buf. */
static void choose_target(struct weir_plan *p, struct weir_model *m, size_t i,
			  struct weir_buf *buf)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_tensor dst;
	struct weir_target t = { .size = sizeof(t), .tensor = i, .dst = &dst };

	if (weir_model_tensor(m, i, &e) < 0 ||
	    weir_tensor_init(&dst, e.dtype, e.ndim, e.shape) < 0 ||
	    weir_tensor_place(&dst, buf, i * 4096) < 0 ||
	    weir_plan_add_tensors(p, &t, 1) < 0)
		bail("%s", weir_error());
}

/* The bytes that a new plan of @m needs for all tensors; 0: it is not empty. */
static uint64_t bytes_of_new(struct weir_model *m)
{
	struct weir_estimate e = { .size = sizeof(e) };
	struct weir_plan *p = new_plan(m);
	bool empty = weir_plan_estimate(p, &e, 1) == 0 &&
		     plan_add(p, NULL, NULL, 0, 0) == (int)n_tensors;

	if (weir_plan_estimate(p, &e, 1) != 1 || !loads(p))
		empty = false;
	weir_plan_free(p);
	return empty ? e.bytes : 0;
}

/* The library uses the memory of a freed plan for the next one of the model. */
static void new_plans_are_empty(void)
{
	struct weir_plan *p, *other;
	struct weir_buf *buf;
	struct weir_model *m;
	uint64_t bytes;

	some_tensors(100, 400);
	m = model();
	buf = buffer(100 * 4096);
	bytes = bytes_of_new(m);
	if (!bytes)
		bail("the first plan of a model is not empty");
	p = new_plan(m);
	other = new_plan(m);
	if (weir_plan_set_align(p, 4096) < 0)
		bail("%s", weir_error());
	plan_add(p, "t7", NULL, 0, 0);
	plan_add(p, "t9*", buf, 0, 0);
	choose_target(p, m, 7, buf);
	choose_target(p, m, 3, buf);
	choose_target(p, m, 3, buf);
	weir_plan_free(p);
	is_int(bytes_of_new(m), bytes,
	       "a new plan is empty after one with selections, targets and an alignment");
	for (size_t i = n_tensors; i-- > 0;)
		plan_add(other, names[i], buf, i * 4096, 0);
	ok(loads(other), "a plan loads while others are freed and made");
	weir_plan_free(other);
	is_int(bytes_of_new(m), bytes,
	       "a new plan is empty after one of 100 selections");
	p = new_plan(m);
	other = new_plan(m);
	plan_add(p, NULL, NULL, 0, 0);
	weir_plan_free(p);
	weir_plan_free(other);
	is_int(bytes_of_new(m), bytes,
	       "a new plan is empty after one that had chosen all");
	weir_model_close(m);
	weir_buf_free(buf);
}

#define THREADS 4u
#define PLANS 50000u /* plans of each thread */

struct planner {
	pthread_t thread;
	struct weir_model *model;
	unsigned first; /* tensor; each plan begins with another one */
	unsigned wrong;
};

/*
 * Check that a selection of one tensor leaves the others, and nothing else, to
 * the next one.
 */
static void *plan_often(void *arg)
{
	struct planner *self = arg;

	for (unsigned i = 0; i < PLANS; i++) {
		struct weir_plan *p = new_plan(self->model);
		size_t tensor = (self->first + i) % n_tensors;

		self->wrong += plan_add(p, names[tensor], NULL, 0, 0) != 1 ||
			       plan_add(p, "*", NULL, 0, 0) !=
				       (int)n_tensors - 1;
		weir_plan_free(p);
	}
	return NULL;
}

static void threads_make_plans_of_one_model(void)
{
	struct planner all[THREADS];
	struct weir_model *m;
	unsigned wrong = 0;

	some_tensors(50, 100);
	m = model();
	for (unsigned i = 0; i < THREADS; i++) {
		all[i] = (struct planner){ .model = m, .first = i * 11 };
		if (pthread_create(&all[i].thread, NULL, plan_often, &all[i]))
			bail("no thread");
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(all[i].thread, NULL);
		wrong += all[i].wrong;
	}
	is_int(wrong, 0, "threads make and free plans of one model at once");
	weir_model_close(m);
}

/* Free number @i of the four objects of a load. */
static void free_one(unsigned i, struct weir_model *m, struct weir_plan *p,
		     struct weir_load *l, struct weir_weights *w)
{
	if (i == 0)
		weir_model_close(m);
	else if (i == 1)
		weir_plan_free(p);
	else if (i == 2)
		weir_load_free(l);
	else
		weir_weights_free(w);
}

/* In each of the 24 orders, of loads that may not have ended. */
static void objects_are_freed_in_any_order(void)
{
	some_tensors(20, 3000);
	for (unsigned order = 0; order < 256; order++) {
		unsigned at[4], seen = 0;
		struct weir_weights *w;
		struct weir_model *m;
		struct weir_plan *p;
		struct weir_load *l;

		for (int i = 0; i < 4; i++)
			seen |= 1u << (at[i] = order >> 2 * i & 3);
		if (seen != 15)
			continue;
		m = model();
		p = new_plan(m);
		plan_add(p, NULL, NULL, 0, 0);
		if (weir_load_start(p, NULL, &l) < 0 ||
		    weir_load_weights(l, &w) < 0)
			bail("%s", weir_error());
		for (int i = 0; i < 4; i++)
			free_one(at[i], m, p, l, w);
	}
	ok(true, "model, plan, load and weights are freed in any order");
}

/* 0: in a child after fork the calls of a plan return -EPERM. */
static int in_child(void)
{
	struct weir_model *m;
	struct weir_plan *p, *other;
	int status = -1;
	pid_t pid;

	n_tensors = 0;
	add_tensor("U8", 1, 1);
	m = model();
	p = new_plan(m);
	pid = fork();
	if (!pid)
		_exit(weir_plan_new(m, &other) != -EPERM ||
		      weir_plan_add(p, NULL, kind, NULL) != -EPERM ||
		      weir_plan_estimate(p, NULL, 0) != -EPERM);
	waitpid(pid, &status, 0);
	weir_plan_free(p);
	weir_model_close(m);
	return status;
}

static void patterns_match_whole_names(void)
{
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	add_tensor("U8", 1, 1);
	strcpy(names[0], "a\\u0000b");
	add_tensor("U8", 1, 1);
	strcpy(names[1], "a[0]");
	m = model();
	p = new_plan(m);
	is_err(weir_plan_add(p, "a", kind, NULL), -ENOENT, "'a'",
	       "the part of a name before a NUL does not match");
	is_err(weir_plan_add(p, "?", kind, NULL), -ENOENT, "'?'",
	       "a pattern does not match the part of a name before a NUL");
	is_int(weir_plan_add(p, "a\\[0]", kind, NULL), 1,
	       "a pattern that quotes a bracket matches a name with one");
	is_int(weir_plan_add(p, "*", kind, NULL), 1,
	       "a star matches a name with a NUL");
	weir_plan_free(p);
	weir_model_close(m);
}

int main(void)
{
	plans_begin(2 + 9 + 3 + 4 + 4 + 1 + 1 + 1);
	each_tensor_may_have_a_put();
	estimates_share_one_memory();
	estimates_count_bytes_and_tensors();
	empty_tensors_are_loaded();
	patterns_match_whole_names();
	new_plans_are_empty();
	threads_make_plans_of_one_model();
	objects_are_freed_in_any_order();
	is_int(in_child(), 0,
	       "in a child after fork every call of a plan is refused");
	return plans_end();
}
