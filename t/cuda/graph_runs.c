/* SPDX-License-Identifier: MIT */
#include "cuda/graph_runs.h"

struct weir *weir;
struct weir_dev *cuda;
struct weir_sched *sched;
struct weir_graph *g;
bool pinned; /* sched is the test's own */

struct model m;

/* One of its own for each test: it keeps compiled graphs, with their counts. */
static void sched_make(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;

	weir_sched_free(sched);
	must(weir_sched_new(&cuda, 1, &o, &sched));
}

void begin_as(const char *params)
{
	weir = open_cuda();
	if (params)
		must(weir_dev_configure(weir, params, &cuda));
	else
		cuda = gpu(weir);
	must(weir_graph_new(&g));
	sched = NULL;
}

void end(void)
{
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_close(weir);
}

struct weir_node *input(const char *name, enum weir_dtype dtype, int64_t rows,
			int64_t columns)
{
	const int64_t shape[] = { rows, columns };

	return weir_graph_input(g, name, dtype, 2, shape);
}

void run_make(struct weir_node *out)
{
	if (!pinned)
		sched_make();
	weir_graph_output(g, out);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &m.exec));
	must(weir_run_new(m.exec, &m.run));
	m.y = out;
}

void run_free(void)
{
	weir_run_free(m.run);
	weir_exec_free(m.exec);
	weir_graph_reset(g);
	m.run = NULL;
	m.exec = NULL;
}

/* y = ((table[ids] * x) + x) * 2 */
void model_make(bool indices)
{
	const int64_t one = 1;
	struct weir_node *row;

	m.x = input("x", WEIR_DTYPE_F32, 1, N);
	m.table = input("table", WEIR_DTYPE_F32, 4, N);
	m.ids = weir_graph_input(g, "ids", WEIR_DTYPE_I32, 1, &one);
	row = indices ? weir_get_rows(g, m.table, m.ids) : weir_sqr(g, m.table);
	run_make(weir_scale(g, weir_add(g, weir_mul(g, row, m.x), m.x), 2, 0));
}

void set(struct weir_node *node, size_t n, float value)
{
	float v[17 * N];

	for (size_t i = 0; i < n; i++)
		v[i] = value;
	must(weir_run_input(m.run, node, v, n * sizeof(float)));
}

void model_set(float x, int32_t id)
{
	set(m.x, N, x);
	set(m.table, 4 * N, 3);
	must(weir_run_input(m.run, m.ids, &id, sizeof(id)));
}

int run_once(void)
{
	must(weir_run_start(m.run));
	return weir_run_wait(m.run, -1);
}

float result(void)
{
	struct weir_tensor t;
	float v;

	must(weir_run_output(m.run, m.y, &t));
	must(weir_tensor_get(&t, 0, &v, sizeof(v)));
	return v;
}

struct weir_lane lane(void)
{
	struct weir_lane l = { .size = sizeof(l) };

	must(weir_exec_lane(m.exec, 0, &l));
	return l;
}
