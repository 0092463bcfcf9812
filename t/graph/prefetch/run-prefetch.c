/* SPDX-License-Identifier: MIT */
/* Runs whose weights are in files, with all of them kept, some or none. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/ops.h>

#include "files.h"
#include "leaf.h"
#include "nomem.h"
#include "streams.h"

#define N 128
#define LAYERS 12
#define BYTES ((uint64_t)N * N * 4) /* bytes of a layer's weight */
#define NEED (BYTES + 4096)
#define TICK 20000 /* us: times of files have changed */

static struct weir *weir;
static struct weir_file *file;
static float *numbers; /* the contents of the file */
static float x[N], want[N];
static struct weir_event *arrived; /* event of placed weights, or NULL */

/* What one budget needs. */
struct engine {
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_node *in, *out;
	struct weir_exec *exec;
	struct weir_run *run;
};

static struct weir_node *weight(struct weir_graph *g, int i,
				struct weir_buf *buf)
{
	const int64_t shape[] = { N, N };
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 2, shape));
	if (!buf)
		return weir_graph_leaf_file(g, &t, file, (uint64_t)i * BYTES);
	must(weir_tensor_place(&t, buf, (uint64_t)i * BYTES));
	return weir_graph_constant(g, weir_graph_leaf(g, &t, arrived));
}

/* Layers of products, the last of which has the first layer's weight again. */
static void build(struct engine *e, int layers, struct weir_buf *buf)
{
	const int64_t shape[] = { 1, N };
	struct weir_node *y;

	e->g = graph_new();
	e->in = weir_graph_input(e->g, "x", WEIR_DTYPE_F32, 2, shape);
	y = e->in;
	for (int i = 0; i < layers; i++) {
		y = weir_mul_mat(e->g, weight(e->g, i, buf), y);
		weir_node_set_name(y, "product");
		y = weir_rms_norm(e->g, y, 1e-5f);
		weir_node_set_name(y, "norm");
	}
	e->out = weir_graph_output(e->g, y);
	must(weir_graph_error(e->g, NULL));
}

static void begin(struct engine *e, uint64_t weights, uint32_t copies,
		  int layers, struct weir_buf *buf)
{
	struct weir_dev *dev = cpu_of(weir);
	struct weir_sched_opts o = { .size = sizeof(o), .copies = copies };

	o.weights = &weights;
	must(weir_sched_new(&dev, 1, &o, &e->sched));
	build(e, layers, buf);
	must(weir_exec_new(e->sched, e->g, &e->exec));
	must(weir_run_new(e->exec, &e->run));
	must(weir_run_input(e->run, e->in, x, sizeof(x)));
}

static void end(struct engine *e)
{
	weir_run_free(e->run);
	weir_exec_free(e->exec);
	weir_graph_free(e->g);
	weir_sched_free(e->sched);
}

static bool right(struct engine *e, struct weir_run *run, const float *y)
{
	struct weir_tensor t;
	float got[N];

	if (weir_run_wait(run, -1) < 0) {
		diag("%s", weir_error());
		return false;
	}
	must(weir_run_output(run, e->out, &t));
	must(weir_tensor_get(&t, 0, got, sizeof(got)));
	return !memcmp(got, y, sizeof(got));
}

static bool runs(struct engine *e, unsigned n)
{
	bool held = true;

	while (n-- && held) {
		must(weir_run_start(e->run));
		held = right(e, e->run, want);
	}
	return held;
}

static struct weir_run_report report_of(struct weir_run *run)
{
	struct weir_run_report report = { .size = sizeof(report) };

	must(weir_run_report(run, &report));
	return report;
}

/* The result with all weights in memory of the program. */
static void reference(void)
{
	struct weir_tensor t = bytes(weir, LAYERS * BYTES);
	struct weir_buf *buf = t.buf;
	struct engine e;

	must(weir_tensor_set(&t, 0, numbers, LAYERS * BYTES));
	begin(&e, 0, 1, LAYERS, buf);
	must(weir_run_start(e.run));
	must(weir_run_wait(e.run, -1));
	must(weir_run_output(e.run, e.out, &t));
	must(weir_tensor_get(&t, 0, want, sizeof(want)));
	end(&e);
	weir_buf_free(buf);
}

static void budgets(void)
{
	bool held = true;

	for (unsigned k = 1; k <= LAYERS && held; k++) {
		struct engine e;

		begin(&e, k * NEED, 1, LAYERS, NULL);
		held = runs(&e, 5);
		if (!held)
			diag("with %u of %u layers", k, LAYERS);
		end(&e);
	}
	ok(held,
	   "results have the same bits with any number of bytes for weights");
}

static void reports(void)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_exec_info guess = { .size = sizeof(guess) };
	struct weir_run_report report;
	struct engine e;

	begin(&e, 6 * NEED, 1, LAYERS, NULL);
	must(weir_exec_info(e.exec, &info));
	is_int(info.kept + info.prefetched, LAYERS * BYTES,
	       "an executable graph has the bytes of weights that are kept and prefetched");
	ok(info.prefetch_buffer >= 3 * BYTES && info.kept >= 2 * BYTES,
	   "an executable graph has the bytes of its buffer");
	must(weir_sched_estimate(e.sched, e.g, &guess));
	ok(guess.kept == info.kept && guess.prefetched == info.prefetched &&
		   guess.prefetch_buffer == info.prefetch_buffer,
	   "an estimate has the same numbers");
	ok(info.imports == LAYERS && info.import_bytes == LAYERS * BYTES &&
		   guess.imports == info.imports &&
		   guess.import_bytes == info.import_bytes,
	   "an estimate counts the imports of weights, and their bytes");
	ok(runs(&e, 1), "a run with prefetched weights is right");
	report = report_of(e.run);
	is_int(report.prefetched, info.prefetched,
	       "a run reports the bytes prefetched for it");
	is_int(report.kept, info.kept, "a run reports the bytes that are kept");
	end(&e);
	begin(&e, 0, 1, LAYERS, NULL);
	ok(runs(&e, 2), "without a limit runs are right");
	is_int(report_of(e.run).prefetched, 0,
	       "without a limit nothing is prefetched");
	end(&e);
}

static void refused(void)
{
	struct weir_exec *exec;
	struct engine e;
	uint64_t weights = BYTES - 1;
	struct weir_dev *dev = cpu_of(weir);
	struct weir_sched_opts o = { .size = sizeof(o), .weights = &weights };

	must(weir_sched_new(&dev, 1, &o, &e.sched));
	build(&e, LAYERS, NULL);
	is_int(weir_exec_new(e.sched, e.g, &exec), -ENOMEM,
	       "a limit with no room for one weight is refused");
	has_str(weir_error(), "weights on CPU: step 0 needs 65536 bytes",
		"the refusal has the bytes that are needed");
	weir_graph_free(e.g);
	weir_sched_free(e.sched);
}

/* Copies of the inputs, whose runs are started at once. */
static void overlaps(void)
{
	struct weir_run *run[3];
	struct engine e;
	bool held = true;

	begin(&e, 4 * NEED, 3, LAYERS, NULL);
	run[0] = e.run;
	for (int i = 1; i < 3; i++) {
		must(weir_run_new(e.exec, &run[i]));
		must(weir_run_input(run[i], e.in, x, sizeof(x)));
	}
	for (int k = 0; k < 10; k++) {
		for (int i = 0; i < 3; i++)
			must(weir_run_start(run[i]));
		for (int i = 0; i < 3; i++)
			held = right(&e, run[i], want) && held;
	}
	ok(held, "three runs that are started at once are right");
	weir_run_free(run[1]);
	weir_run_free(run[2]);
	end(&e);
}

static void allocates_nothing(void)
{
	struct engine e;
	bool held;

	begin(&e, 6 * NEED, 1, LAYERS, NULL);
	held = runs(&e, 3);
	nomem_begin(1);
	for (int i = 0; i < 20 && held; i++)
		held = weir_run_start(e.run) == 0 &&
		       weir_run_wait(e.run, -1) == 0;
	ok(!nomem_end() && held, "a run that is prefetched allocates nothing");
	end(&e);
}

/* A short graph and a long one, in turn. */
static void plans(void)
{
	struct engine a, b;
	struct weir_tensor t;
	float first[N];
	bool held = true;

	begin(&a, 5 * NEED, 1, 4, NULL);
	must(weir_run_start(a.run));
	must(weir_run_wait(a.run, -1));
	must(weir_run_output(a.run, a.out, &t));
	must(weir_tensor_get(&t, 0, first, sizeof(first)));
	b.sched = a.sched;
	build(&b, LAYERS, NULL);
	must(weir_exec_new(b.sched, b.g, &b.exec));
	must(weir_run_new(b.exec, &b.run));
	must(weir_run_input(b.run, b.in, x, sizeof(x)));
	for (int i = 0; i < 10; i++) {
		must(weir_run_start(b.run));
		must(weir_run_start(a.run));
		held = right(&b, b.run, want) && right(&a, a.run, first) &&
		       held;
	}
	ok(held, "runs of two executable graphs take turns");
	weir_run_free(b.run);
	weir_exec_free(b.exec);
	weir_graph_free(b.g);
	end(&a);
}

static void parts(void)
{
	struct engine e;
	uint64_t n;
	bool held = true;

	begin(&e, 3 * NEED, 1, LAYERS, NULL);
	n = weir_graph_count(e.g);
	for (uint64_t i = 0; i < n; i += 5) {
		must(weir_run_start_part(e.run, i, i + 5 < n ? 5 : n - i));
		held = weir_run_wait(e.run, -1) == 0 && held;
	}
	ok(held && right(&e, e.run, want), "a run in parts is right");
	end(&e);
}

static void cancels(void)
{
	struct engine e;
	bool held = true;

	begin(&e, 3 * NEED, 1, LAYERS, NULL);
	for (int i = 0; i < 30; i++) {
		must(weir_run_start(e.run));
		usleep((unsigned)i * 20);
		must(weir_run_cancel(e.run));
		weir_run_wait(e.run, -1);
		held = runs(&e, 1) && held;
	}
	ok(held, "a run after one that was cancelled is right");
	must(weir_run_start(e.run));
	end(&e);
}

static void fails(void)
{
	struct weir_file *whole = file;
	struct engine e;

	files_bytes("short.bin", numbers, LAYERS * BYTES);
	must(weir_file_open(weir, files_path("short.bin"), NULL, &file));
	begin(&e, 3 * NEED, 1, LAYERS, NULL);
	files_truncate("short.bin", 5 * BYTES);
	must(weir_run_start(e.run));
	is_err(weir_run_wait(e.run, -1), -ENODATA, "short.bin: ends before",
	       "a run whose file is too short fails with its sentence");
	has_str(weir_error(), "node 16",
		"the sentence of a file that is too short names the leaf's node");
	files_bytes("short.bin", numbers, LAYERS * BYTES);
	must(weir_run_start(e.run));
	is_err(weir_run_wait(e.run, -1), -ESTALE, "short.bin: ",
	       "a run after one that failed reads the file again");
	end(&e);
	weir_file_close(file);
	must(weir_file_open(weir, files_path("w.bin"), NULL, &file));
	begin(&e, 3 * NEED, 1, LAYERS, NULL);
	weir_file_close(file);
	ok(runs(&e, 2), "an executable graph keeps its file open");
	end(&e);
	file = whole;
}

/* Begin with a file of its own, which is written to after @before runs. */
static int changed(const char *name, uint64_t weights, unsigned before,
		   struct engine *e)
{
	struct weir_file *whole = file;
	bool held;
	int r;

	files_bytes(name, numbers, LAYERS * BYTES);
	must(weir_file_open(weir, files_path(name), NULL, &file));
	begin(e, weights, 1, LAYERS, NULL);
	held = runs(e, before);
	usleep(TICK);
	files_bytes(name, numbers, LAYERS * BYTES);
	must(weir_run_start(e->run));
	r = weir_run_wait(e->run, -1);
	weir_file_close(file);
	file = whole;
	return held ? r : -EPROTO;
}

static void files_change(void)
{
	struct engine e;

	is_err(changed("prefetched.bin", 3 * NEED, 2, &e), -ESTALE,
	       "prefetched.bin: was written to while it was read",
	       "a run fails if a file that it reads again has changed");
	must(weir_run_start(e.run));
	is_err(weir_run_wait(e.run, -1), -ESTALE,
	       "prefetched.bin: was written to",
	       "later runs over a file that has changed fail too");
	end(&e);
	is_err(changed("first.bin", LAYERS * NEED, 0, &e), -ESTALE,
	       "first.bin: was written to",
	       "a run fails if a file has changed from which it kept weights");
	must(weir_run_start(e.run));
	is_err(weir_run_wait(e.run, -1), -ESTALE, "first.bin: was written to",
	       "kept weights of a file that had changed fail later runs too");
	end(&e);
	ok(changed("kept.bin", LAYERS * NEED, 1, &e) == 0,
	   "a file may change once all of its weights are kept");
	end(&e);
}

/*
 * Two devices: the second computes the products, the first @norms or NULL.
 * Leaves are in memory of the first, which the second cannot use.
 */
struct apart {
	struct engine e;
	struct weir *root, *before;
	struct weir_buf *buf;
};

static void apart_begin(struct apart *a, const char *norms)
{
	const uint64_t limits[] = { 0, 4 * NEED };
	struct weir_sched_opts o = { .size = sizeof(o), .weights = limits };
	struct weir_dev *dev[2];
	struct weir_tensor t;

	a->root = open_root(WEIR_IO_AUTO);
	must(weir_dev_configure(a->root, "CPU:devices=2,apart=1", &dev[0]));
	must(weir_dev_find(a->root, "CPU1", &dev[1]));
	a->before = weir;
	weir = a->root;
	t = bytes(weir, LAYERS * BYTES);
	a->buf = t.buf;
	must(weir_tensor_set(&t, 0, numbers, LAYERS * BYTES));
	must(weir_sched_new(dev, 2, &o, &a->e.sched));
	must(weir_sched_pin(a->e.sched, "product*", dev[1]));
	if (norms)
		must(weir_sched_pin(a->e.sched, norms, dev[0]));
	build(&a->e, LAYERS, a->buf);
	must(weir_exec_new(a->e.sched, a->e.g, &a->e.exec));
	must(weir_run_new(a->e.exec, &a->e.run));
	must(weir_run_input(a->e.run, a->e.in, x, sizeof(x)));
}

static void apart_end(struct apart *a)
{
	end(&a->e);
	weir_buf_free(a->buf);
	weir_close(a->root);
	weir = a->before;
}

static void placed_apart(void)
{
	struct weir_run_report report;
	struct apart a;

	apart_begin(&a, NULL);
	ok(runs(&a.e, 5),
	   "constant leaves in memory of another device are prefetched");
	report = report_of(a.e.run);
	ok(report.prefetched && report.kept &&
		   report.prefetched + report.kept == LAYERS * BYTES,
	   "of constant leaves in memory of another device %llu bytes are prefetched, the others kept",
	   (unsigned long long)report.prefetched);
	apart_end(&a);
}

static void event_of_another_root(void)
{
	struct weir *other = weir;
	struct apart a;
	int r;

	must(weir_event_new(other, 0, &arrived));
	apart_begin(&a, NULL);
	r = weir_run_start(a.e.run);
	if (r == 0)
		r = weir_run_wait(a.e.run, -1);
	is_int(r, -EINVAL,
	       "a leaf that is prefetched has an event of another root");
	has_str(weir_error(), "the event belongs to another root",
		"the refusal of an event of another root says so");
	apart_end(&a);
	weir_event_free(arrived);
	arrived = NULL;
}

/* The first start of a run over two devices, without memory at any point. */
static void starts_without_memory(void)
{
	unsigned n = 0, wrong = 0;
	bool failed;

	do {
		struct apart a;
		int r;

		apart_begin(&a, "norm");
		nomem_begin(++n);
		r = weir_run_start(a.e.run);
		failed = nomem_end();
		if (r == 0)
			weir_run_wait(a.e.run, -1);
		if (r < 0 && (r != -ENOMEM || report_of(a.e.run).prefetched)) {
			diag("allocation %u: %d", n, r);
			wrong++;
		}
		wrong += !runs(&a.e, 1);
		apart_end(&a);
	} while (failed && n < 100);
	ok(n > 5 && n < 100, "a first start fails without memory in %u ways",
	   n - 1);
	is_int(wrong, 0,
	       "a run that was not started for want of memory has been prefetched nothing, and is started again");
}

/*
 * Two runs of an executable graph with two copies, made without memory at any
 * point.
 */
static void execs_without_memory(void)
{
	unsigned n = 0, wrong = 0;
	bool failed;

	do {
		uint64_t weights = 4 * NEED;
		struct weir_sched_opts o = { .size = sizeof(o),
					     .copies = 2,
					     .weights = &weights };
		struct weir_dev *dev = cpu_of(weir);
		struct weir_run *second;
		struct engine e;
		int r;

		must(weir_sched_new(&dev, 1, &o, &e.sched));
		build(&e, LAYERS, NULL);
		nomem_begin(++n);
		r = weir_exec_new(e.sched, e.g, &e.exec);
		failed = nomem_end();
		if (r == 0) {
			must(weir_run_new(e.exec, &e.run));
			must(weir_run_new(e.exec, &second));
			must(weir_run_input(e.run, e.in, x, sizeof(x)));
			must(weir_run_input(second, e.in, x, sizeof(x)));
			must(weir_run_start(e.run));
			must(weir_run_start(second));
			wrong += !right(&e, e.run, want);
			wrong += !right(&e, second, want);
			weir_run_free(second);
			weir_run_free(e.run);
			weir_exec_free(e.exec);
		} else {
			wrong += r != -ENOMEM;
		}
		weir_graph_free(e.g);
		weir_sched_free(e.sched);
	} while (failed);
	is_int(wrong, 0,
	       "an executable graph made without memory at any point is refused or right");
}

int main(void)
{
	plan(33);
	files_begin();
	weir = open_root(WEIR_IO_AUTO);
	numbers = malloc(LAYERS * BYTES);
	for (unsigned i = 0; i < LAYERS * N * N; i++)
		numbers[i] = sinf((float)i);
	for (unsigned i = 0; i < N; i++)
		x[i] = cosf((float)i);
	files_bytes("w.bin", numbers, LAYERS * BYTES);
	must(weir_file_open(weir, files_path("w.bin"), NULL, &file));
	reference();
	budgets();
	reports();
	refused();
	overlaps();
	allocates_nothing();
	plans();
	parts();
	cancels();
	fails();
	files_change();
	placed_apart();
	event_of_another_root();
	starts_without_memory();
	execs_without_memory();
	weir_file_close(file);
	weir_close(weir);
	free(numbers);
	return done_testing();
}
