/* SPDX-License-Identifier: MIT */
/*
 * Graphs on the CPU whose leaves are tensors of a load that is running: they
 * are computed as far as the tensors have arrived.
 */
#include "paused.h"

#define N 4 /* tensors a to d */

static _Atomic unsigned calls;

/* The sum of the first byte of the last source, and of the first source. */
static int add_byte(void *arg, const struct weir_operand *dst,
		    const struct weir_operand *src, unsigned n, unsigned part,
		    unsigned parts)
{
	float sum = ((const unsigned char *)src[n - 1].data)[0];

	(void)arg;
	(void)part;
	(void)parts;
	if (n > 1)
		sum += *(const float *)src[0].data;
	*(float *)dst->data = sum;
	calls++;
	return 0;
}

struct loading {
	struct weir_load *load;
	struct weir_weights *weights;
	struct weir_event *event[N];
	struct weir_graph *g;
	struct weir_node *out;
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
	float want;
};

static void loading_graph(struct loading *l)
{
	static const char *const name[N] = { "a", "b", "c", "d" };
	struct weir_op_call call = { .fn = add_byte,
				     .dtype = WEIR_DTYPE_F32,
				     .ndim = 1,
				     .shape = { 1 },
				     .parts = 1 };
	struct weir_node *src[2] = { NULL, NULL };

	must(weir_graph_new(&l->g));
	for (int i = 0; i < N; i++) {
		const struct weir_tensor *t =
			weir_weights_find(l->weights, name[i]);
		size_t k = 0;

		while (weir_weights_get(l->weights, k) != t)
			k++;
		must(weir_event_new(root, 0, &l->event[i]));
		must(weir_load_record(l->load, k, l->event[i]));
		src[1] = weir_graph_leaf(l->g, t, l->event[i]);
		src[0] = weir_call(l->g, &call, i ? src : src + 1, i ? 2 : 1);
		l->want += sample_byte((uint64_t)offset_of(name[i]), 1);
	}
	l->out = weir_graph_output(l->g, src[0]);
}

/* Reads from tensor c on wait. */
static struct loading loading_start(void)
{
	struct loading l = { 0 };
	struct weir_dev *cpu;

	calls = 0;
	atomic_store(&paused_from, offset_of("c"));
	l.load = start_all();
	must(weir_load_weights(l.load, &l.weights));
	loading_graph(&l);
	must(weir_dev_find(root, "CPU", &cpu));
	must(weir_sched_new(&cpu, 1, NULL, &l.sched));
	must(weir_exec_new(l.sched, l.g, &l.exec));
	must(weir_run_new(l.exec, &l.run));
	must(weir_run_start(l.run));
	return l;
}

static void loading_end(struct loading *l)
{
	atomic_store(&paused_from, INT64_MAX);
	weir_run_free(l->run);
	weir_exec_free(l->exec);
	weir_sched_free(l->sched);
	weir_graph_free(l->g);
	for (int i = 0; i < N; i++)
		weir_event_free(l->event[i]);
	weir_weights_free(l->weights);
	weir_load_free(l->load);
}

static void wait_calls(unsigned n)
{
	for (int ms = 0; ms < 20000 && calls < n; ms++)
		usleep(1000);
}

static void computes_meanwhile(void)
{
	struct loading l = loading_start();
	struct weir_run_report report = { .size = sizeof(report) };
	struct weir_tensor t;

	wait_calls(2);
	is_int(calls, 2, "layers are computed while later ones are still read");
	is_err(weir_run_wait(l.run, 0), -ETIMEDOUT, "",
	       "a run waits for tensors of a load");
	atomic_store(&paused_from, INT64_MAX);
	is_int(weir_run_wait(l.run, -1), 0,
	       "a run ends well when the load has ended");
	must(weir_run_output(l.run, l.out, &t));
	ok(*(float *)weir_tensor_data(&t) == l.want,
	   "a run reads the bytes that the load has put there");
	must(weir_run_start(l.run));
	must(weir_run_wait(l.run, -1));
	must(weir_run_report(l.run, &report));
	ok(report.works == 1 && !report.waits,
	   "a run of weights that have arrived is one work");
	loading_end(&l);
}

/* The file becomes shorter while tensors are read. */
static void failing_load(void)
{
	struct loading l = loading_start();

	wait_calls(2);
	if (truncate(path, offset_of("c")))
		bail("truncate");
	atomic_store(&paused_from, INT64_MAX);
	is_int(weir_run_wait(l.run, -1), -ECANCELED,
	       "a run ends when its load fails");
	has_str(weir_error(), "model.safetensors",
		"a run whose load has failed has the sentence of the load");
	is_int(calls, 2, "nothing is computed of tensors that never arrive");
	must(weir_run_start(l.run));
	is_int(weir_run_wait(l.run, -1), -ECANCELED,
	       "a run fails again as long as its tensors have not arrived");
	diag("%s", weir_error());
	loading_end(&l);
}

int main(void)
{
	paused_begin(9);
	sample_write(path, few, FEW, 8, 1);
	open_root(WEIR_IO_SYNC, 0);
	computes_meanwhile();
	failing_load();
	weir_close(root);
	return paused_end();
}
