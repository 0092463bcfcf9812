/* SPDX-License-Identifier: MIT */
#include "cuda/product_runs.h"

#include <math.h>
#include <string.h>

struct product p;
bool uneven;

static float a_value(int i)
{
	return (float)(i * 37 % 64 - 31) / 16;
}

static float b_value(int i)
{
	return (float)(i * 53 % 128 - 63) / 64;
}

void product_graph(void)
{
	const int64_t a[] = { M, K }, b[] = { N, K };

	must(weir_graph_new(&p.g));
	p.a = weir_graph_input(p.g, "a", WEIR_DTYPE_BF16, 2, a);
	p.b = weir_graph_input(p.g, "b", WEIR_DTYPE_F32, 2, b);
	p.y = weir_mul_mat(p.g, p.a, p.b);
	weir_node_set_name(p.y, "y");
	weir_graph_output(p.g, p.y);
	must(weir_graph_error(p.g, NULL));
}

void product_inputs(void)
{
	static uint16_t a[M * K];
	static float b[N * K];

	for (int i = 0; i < M * K; i++) {
		float v = a_value(i);
		uint32_t bits;

		memcpy(&bits, &v, sizeof(bits));
		a[i] = (uint16_t)(bits >> 16);
	}
	for (int i = 0; i < N * K; i++)
		b[i] = uneven ? ldexpf(b_value(i), i % 19 - 9) : b_value(i);
	must(weir_run_input(p.run, p.a, a, sizeof(a)));
	must(weir_run_input(p.run, p.b, b, sizeof(b)));
}

void begin(const char *device)
{
	memset(&p, 0, sizeof(p));
	p.weir = open_cuda();
	if (strchr(device, ':'))
		must(weir_dev_configure(p.weir, device, &p.dev));
	else
		must(weir_dev_find(p.weir, device, &p.dev));
	must(weir_sched_new(&p.dev, 1, NULL, &p.sched));
	product_graph();
	must(weir_exec_new(p.sched, p.g, &p.exec));
	must(weir_run_new(p.exec, &p.run));
	product_inputs();
}

void end(void)
{
	weir_run_free(p.run);
	weir_exec_free(p.exec);
	weir_sched_free(p.sched);
	weir_graph_free(p.g);
	weir_close(p.weir);
}

int run_once(void)
{
	must(weir_run_start(p.run));
	return weir_run_wait(p.run, -1);
}

void result_get(float y[N * M])
{
	struct weir_tensor t;

	must(weir_run_output(p.run, p.y, &t));
	must(weir_tensor_get(&t, 0, y, N * M * sizeof(*y)));
}

bool is_right(void)
{
	static float y[N * M];
	bool right = true;

	result_get(y);
	for (int n = 0; n < N; n++)
		for (int m = 0; m < M; m++) {
			double sum = 0;

			for (int k = 0; k < K; k++)
				sum += (double)a_value(m * K + k) *
				       (double)b_value(n * K + k);
			right = right && fabs(y[n * M + m] - sum) < 1e-3;
		}
	return right;
}

struct weir_lane lane(void)
{
	struct weir_lane l = { .size = sizeof(l) };

	must(weir_exec_lane(p.exec, 0, &l));
	return l;
}
