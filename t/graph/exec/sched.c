/* SPDX-License-Identifier: MIT */
/*
 * Schedulers: options, plans that are kept, the budget, the order of freeing.
 */
#include <errno.h>
#include <pthread.h>

#include "files.h"
#include "gdev.h"
#include "streams.h"

static struct weir *weir;
static struct weir_dev *dev;

/* A graph with one input of @n, whose results need @n floats. */
static struct weir_graph *graph_of(int n)
{
	struct weir_graph *g;
	struct weir_node *x;

	must(weir_graph_new(&g));
	x = gdev_input(g, "x", n);
	weir_graph_output(g, weir_add(g, x, x));
	return g;
}

static uint64_t times_of(const struct weir_exec *s)
{
	struct weir_exec_info info = { .size = sizeof(info) };

	must(weir_exec_info(s, &info));
	return info.times;
}

/* Run it on ones. */
static bool doubles(struct weir_exec *s, const struct weir_graph *g)
{
	const struct weir_node *x = weir_graph_node(g, 0);
	const size_t n = (size_t)weir_node_tensor(x)->shape[0];
	float *ones = malloc(n * sizeof(float));
	struct weir_tensor t;
	struct weir_run *run;
	bool well;

	if (!ones)
		bail("malloc");
	for (size_t i = 0; i < n; i++)
		ones[i] = 1;
	must(weir_run_new(s, &run));
	must(weir_run_input(run, x, ones, n * sizeof(float)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	must(weir_run_output(run, weir_graph_node(g, 1), &t));
	well = gdev_value(&t) == 2;
	weir_run_free(run);
	free(ones);
	return well;
}

static void options(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_dev *two[2] = { dev, dev };
	struct weir_sched *sched;

	is_err(weir_sched_new(two, 2, NULL, &sched), -EINVAL,
	       "GDEV0 is listed twice",
	       "a device that is listed twice is refused");
	is_err(weir_sched_new(two, 0, NULL, &sched), -EINVAL, "no device",
	       "a scheduler needs a device");
	o.copies = 100000;
	is_err(weir_sched_new(&dev, 1, &o, &sched), -EINVAL, "copies 100000",
	       "too many copies are refused");
	weir_sched_free(NULL);
	weir_exec_free(NULL);
	weir_run_free(NULL);
	ok(true, "NULL is freed");
}

static void taken_again(void)
{
	struct weir_graph *g = graph_of(16), *same = graph_of(16);
	struct weir_exec *a, *b;
	struct weir_sched *sched;

	must(weir_sched_new(&dev, 1, NULL, &sched));
	gdev_reset();
	must(weir_exec_new(sched, g, &a));
	must(weir_exec_new(sched, same, &b));
	is_int(gdev.prepares, 1, "an equal graph is not prepared again");
	is_int(times_of(b), 2,
	       "an executable graph counts how often it was taken");
	weir_exec_free(a);
	weir_exec_free(b);
	is_int(gdev.releases, 0,
	       "a plan is kept when its executable graphs are freed");
	must(weir_exec_new(sched, g, &a));
	is_int(gdev.prepares, 1, "a plan that was kept is taken again");
	weir_exec_free(a);
	for (int n = 17; n < 17 + 20; n++) {
		struct weir_graph *other = graph_of(n);

		must(weir_exec_new(sched, other, &a));
		weir_exec_free(a);
		weir_graph_free(other);
	}
	is_int(gdev.prepares - gdev.releases, 8, "the last few plans are kept");
	must(weir_exec_new(sched, g, &a));
	is_int(gdev.prepares, 22, "a plan that is not kept is made again");
	weir_sched_free(sched);
	is_int(gdev.prepares - gdev.releases, 1,
	       "a scheduler that is freed frees the plans that it keeps");
	is_int(times_of(a), 1,
	       "an executable graph works after its scheduler was freed");
	weir_exec_free(a);
	is_int(gdev.prepares - gdev.releases, 0,
	       "the last executable graph of a scheduler that was freed frees its plan");
	weir_graph_free(g);
	weir_graph_free(same);
}

static void kept_bytes(void)
{
	struct weir_graph *g[3];
	struct weir_exec *s;
	struct weir_sched *sched;

	gdev_reset();
	must(weir_sched_new(&dev, 1, NULL, &sched));
	/* Input and result of each need 2 * 12 MiB. */
	for (int i = 0; i < 3; i++) {
		g[i] = graph_of((3 << 20) + i);
		must(weir_exec_new(sched, g[i], &s));
		weir_exec_free(s);
	}
	is_int(gdev.releases, 1, "plans are kept up to 64 MiB");
	must(weir_exec_new(sched, g[1], &s));
	is_int(gdev.prepares, 3, "the plans that were used last are kept");
	weir_exec_free(s);
	weir_sched_free(sched);
	for (int i = 0; i < 3; i++)
		weir_graph_free(g[i]);
}

static void budget(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_graph *small = graph_of(16), *big = graph_of(256);
	struct weir_graph *huge = graph_of(512);
	struct weir_exec *s, *other, *none;
	struct weir_sched *sched;

	/* Input and result of small need 128 bytes, those of big 2048. */
	gdev_reset();
	o.budget = 2048 + 100;
	gdev.measured = gdev.workspace = 64;
	must(weir_sched_new(&dev, 1, &o, &sched));
	is_err(weir_exec_new(sched, huge, &none), -ENOMEM,
	       "needs 4160 bytes on GDEV0; executable graphs in use have 0 of the budget of 2148",
	       "a graph over the budget is refused with both numbers");
	is_int(gdev.allocs, 0, "nothing was allocated for it");
	must(weir_exec_new(sched, small, &s));
	is_err(weir_exec_new(sched, big, &none), -ENOMEM,
	       "needs 2112 bytes on GDEV0; executable graphs in use have 192 of",
	       "executable graphs in use count towards the budget");
	must(weir_exec_new(sched, small, &other));
	is_int(times_of(other), 2,
	       "a graph that was refused leaves the other executable graphs");
	ok(doubles(other, small),
	   "an executable graph computes after another graph was refused");
	weir_exec_free(other);
	weir_exec_free(s);
	must(weir_exec_new(sched, big, &s));
	is_int(gdev.releases, 1,
	       "a plan that is only kept is freed for another");
	weir_exec_free(s);
	gdev.measured = 0;
	gdev.workspace = 4096;
	is_err(weir_exec_new(sched, small, &s), -ENOMEM, "needs 4096 bytes",
	       "a workspace that was not measured counts towards the budget");
	gdev_reset();
	weir_sched_free(sched);
	weir_graph_free(small);
	weir_graph_free(big);
	weir_graph_free(huge);
}

/* An executable graph that another thread makes. */
struct maker {
	pthread_t thread;
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_exec *s;
	int r;
	bool quiet; /* the call has set no sentence */
};

static void *maker_main(void *arg)
{
	struct maker *m = arg;

	m->r = weir_exec_new(m->sched, m->g, &m->s);
	m->quiet = !weir_error()[0];
	if (m->r < 0)
		diag("%s", weir_error());
	return NULL;
}

static void maker_start(struct maker *m)
{
	if (pthread_create(&m->thread, NULL, maker_main, m))
		bail("pthread_create");
}

/*
 * Two threads make executable graphs while the plan of @kept is only kept, and
 * its memory is freed slowly for the first of them.
 */
static void while_freed(const struct weir_sched_opts *o,
			struct weir_graph *kept, struct weir_graph *first,
			struct weir_graph *second, const char *what)
{
	struct maker m[2] = { { .g = first }, { .g = second } };
	struct weir_exec *s;
	struct weir_sched *sched;
	unsigned supports;

	gdev_reset();
	must(weir_sched_new(&dev, 1, o, &sched));
	m[0].sched = m[1].sched = sched;
	must(weir_exec_new(sched, kept, &s));
	weir_exec_free(s);
	gdev.hold_release = true;
	maker_start(&m[0]);
	sem_wait(&gdev.held);
	supports = gdev.supports;
	maker_start(&m[1]);
	while (gdev.supports == supports)
		usleep(1000);
	usleep(20000); /* until it asks for the bytes */
	sem_post(&gdev.go);
	for (int i = 0; i < 2; i++)
		pthread_join(m[i].thread, NULL);
	is_int(m[0].r, 0, "a plan that is only kept makes room for %s", what);
	is_int(m[1].r, 0, "%s are made while a kept plan is freed for others",
	       what);
	ok(m[0].quiet && m[1].quiet,
	   "threads whose %s are made after all have no sentence", what);
	for (int i = 0; i < 2; i++)
		if (m[i].r == 0)
			weir_exec_free(m[i].s);
	weir_sched_free(sched);
}

/* A graph with @n bytes of a file, from byte @at on, as a constant leaf. */
static struct weir_graph *graph_fed(struct weir_file *file, uint64_t at,
				    uint64_t n)
{
	const int64_t shape = (int64_t)(n / sizeof(float));
	struct weir_tensor t;
	struct weir_graph *g;

	must(weir_graph_new(&g));
	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &shape));
	weir_graph_output(g,
			  weir_sqr(g, weir_graph_leaf_file(g, &t, file, at)));
	must(weir_graph_error(g, NULL));
	return g;
}

static void frees_slowly(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_graph *g[3] = { graph_of(256), graph_of(128),
				    graph_of(16) };
	static const unsigned char bytes[6 * 4096];
	struct weir_file *file;
	uint64_t weights = 4 * 4096;

	o.budget = 2048 + 100;
	while_freed(&o, g[0], g[1], g[2], "results");
	for (int i = 0; i < 3; i++)
		weir_graph_free(g[i]);
	o.budget = 0;
	o.weights = &weights;
	files_bytes("leaves.bin", bytes, sizeof(bytes));
	must(weir_file_open(weir, files_path("leaves.bin"), NULL, &file));
	g[0] = graph_fed(file, 0, 4 * 4096);
	g[1] = graph_fed(file, 4 * 4096, 4096);
	g[2] = graph_fed(file, 5 * 4096, 4096);
	while_freed(&o, g[0], g[1], g[2], "weights");
	for (int i = 0; i < 3; i++)
		weir_graph_free(g[i]);
	weir_file_close(file);
}

/* 2^54 bytes in 1024 copies: 2^64. */
static void too_many_bytes(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_exec_info e = { .size = sizeof(e) };
	struct weir_dev *cpu = cpu_of(weir);
	struct weir_sched *sched;
	struct weir_graph *g;
	int64_t n = (int64_t)1 << 52;

	o.copies = 1024;
	must(weir_sched_new(&cpu, 1, &o, &sched));
	must(weir_graph_new(&g));
	weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &n);
	is_err(weir_sched_estimate(sched, g, &e), -EOVERFLOW,
	       "inputs of 1024 copies, are over 2^63 - 1 bytes",
	       "copies of an input that are over 2^63 - 1 bytes are refused");
	weir_graph_reset(g);
	weir_graph_output(
		g,
		weir_sqr(g, weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &n)));
	o.copies = 1;
	weir_sched_free(sched);
	must(weir_sched_new(&cpu, 1, &o, &sched));
	is_err(weir_sched_estimate(sched, g, &e), -EOVERFLOW,
	       "a tensor of over 2^48 elements",
	       "an operation on a tensor of 2^52 elements is refused");
	weir_graph_free(g);
	weir_sched_free(sched);
}

static struct weir_node *leaf_of(struct weir_graph *g, enum weir_dtype dtype,
				 unsigned ndim, const int64_t *shape)
{
	struct weir_tensor t;

	must(weir_tensor_init(&t, dtype, ndim, shape));
	return weir_graph_leaf(g, &t, NULL);
}

/* What is estimated of mul_mat_id with one row of @k elements for @n ids. */
static int mul_mat_id_of(int64_t matrices, int64_t n, int64_t k)
{
	const int64_t a[] = { matrices, 8, k }, b[] = { 1, 1, k };
	const int64_t ids[] = { 1, n };
	struct weir_exec_info e = { .size = sizeof(e) };
	struct weir_dev *cpu = cpu_of(weir);
	struct weir_sched *sched;
	struct weir_graph *g;
	int r;

	must(weir_sched_new(&cpu, 1, NULL, &sched));
	must(weir_graph_new(&g));
	weir_graph_output(g,
			  weir_mul_mat_id(g, leaf_of(g, WEIR_DTYPE_F16, 3, a),
					  leaf_of(g, WEIR_DTYPE_F16, 3, b),
					  leaf_of(g, WEIR_DTYPE_I32, 2, ids)));
	must(weir_graph_error(g, NULL));
	r = weir_sched_estimate(sched, g, &e);
	weir_graph_free(g);
	weir_sched_free(sched);
	return r;
}

static void too_many_products(void)
{
	is_err(mul_mat_id_of(4, (int64_t)1 << 40, (int64_t)1 << 22), -EOVERFLOW,
	       "1099511627776 columns of 4194304 elements",
	       "mul_mat_id whose prepared columns need 2^64 bytes is refused");
	is_err(mul_mat_id_of((int64_t)1 << 60, 1, 0), -EOVERFLOW,
	       "for 1152921504606846976 matrices",
	       "mul_mat_id with 2^60 matrices of no columns is refused");
	is_int(mul_mat_id_of(4, 1 << 20, 32), 0,
	       "mul_mat_id with one row for 2^20 ids is planned");
}

static void orders_of_freeing(void)
{
	struct weir_graph *g = graph_of(16);
	float x[16] = { 1 };
	bool well = true;

	/*
	 * Each order of freeing scheduler, executable graph and run, which
	 * runs.
	 */
	for (int order = 0; order < 6; order++) {
		const int first = order / 2,
			  second = (first + 1 + order % 2) % 3;
		const int turns[] = { first, second, 3 - first - second };
		struct weir_exec *s;
		struct weir_sched *sched;
		struct weir_run *run;

		must(weir_sched_new(&dev, 1, NULL, &sched));
		must(weir_exec_new(sched, g, &s));
		must(weir_run_new(s, &run));
		must(weir_run_input(run, weir_graph_node(g, 0), x, sizeof(x)));
		gdev.hold_at = 1;
		must(weir_run_start(run));
		sem_wait(&gdev.held);
		for (int i = 0; i < 3; i++) {
			if (turns[i] == 0)
				weir_sched_free(sched);
			else if (turns[i] == 1)
				weir_exec_free(s);
			else
				weir_run_free(run);
		}
		well &= gdev.bytes > 0;
		sem_post(&gdev.go);
		for (int i = 0; i < 5000 && gdev.bytes; i++)
			usleep(1000);
		well &= gdev.bytes == 0;
	}
	ok(well,
	   "scheduler, executable graph and run are freed in any order while it runs");
	weir_graph_free(g);
}

static struct weir_sched *shared;

static void *make_many(void *arg)
{
	struct weir_graph *g = graph_of(16), *h = graph_of(32);
	float x[32] = { 3 };
	intptr_t wrong = 0;

	(void)arg;
	for (int i = 0; i < 100; i++) {
		struct weir_graph *which = i % 2 ? g : h;
		struct weir_exec *s;
		struct weir_tensor t;
		struct weir_run *run;

		must(weir_exec_new(shared, which, &s));
		if (weir_run_new(s, &run) == 0) {
			must(weir_run_input(run, weir_graph_node(which, 0), x,
					    i % 2 ? 64 : 128));
			must(weir_run_start(run));
			must(weir_run_wait(run, -1));
			must(weir_run_output(run, weir_graph_node(which, 1),
					     &t));
			wrong += gdev_value(&t) != 6;
			weir_run_free(run);
		}
		weir_exec_free(s);
	}
	weir_graph_free(g);
	weir_graph_free(h);
	return (void *)wrong;
}

static void threads(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	pthread_t thread[3];
	intptr_t wrong = 0;
	void *result;

	o.copies = 2;
	must(weir_sched_new(&dev, 1, &o, &shared));
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread[i], NULL, make_many, NULL))
			bail("pthread_create");
	for (int i = 0; i < 3; i++) {
		pthread_join(thread[i], &result);
		wrong += (intptr_t)result;
	}
	is_int(wrong, 0,
	       "several threads make and run executable graphs of a scheduler");
	weir_sched_free(shared);
}

int main(void)
{
	plan(0);
	files_begin();
	weir = gdev_open(&dev);
	options();
	taken_again();
	kept_bytes();
	budget();
	frees_slowly();
	too_many_bytes();
	too_many_products();
	orders_of_freeing();
	threads();
	weir_close(weir);
	is_int(gdev.bytes, 0, "all memory is given back");
	return done_testing();
}
