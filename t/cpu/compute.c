/* SPDX-License-Identifier: MIT */
/*
 * Segments on the CPU, through its table of functions and its queue: ranges,
 * parts, stop, errors, two runs of one segment at once.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "dev/dev.h"
#include "streams.h"

#define NODES 12
#define WIDE 100000 /* elements, which are enough for several parts */
#define BEYOND 4096 /* bytes after a workspace */

static struct weir_dev *dev;
static const struct weir_backend_compute_ops *ops;

/* A segment of additions: node i makes value[i + 1] of value[i], plus 1. */
struct chain {
	struct weir_backend_node node[NODES];
	const struct weir_backend_node *list[NODES];
	struct weir_operand src[NODES][2];
	struct weir_op_call call[NODES];
	float *value[NODES + 1], one;
	int64_t columns;
	void *prepared, *workspace;
	size_t room;
};

static struct weir_operand vector(float *p, int64_t n)
{
	return (struct weir_operand){ .data = p,
				      .dtype = WEIR_DTYPE_F32,
				      .ndim = 1,
				      .shape = { n },
				      .stride = { sizeof(*p) } };
}

static struct chain *chain_new(int64_t columns)
{
	struct chain *c = calloc(1, sizeof(*c));

	if (!c)
		bail("no memory");
	c->one = 1;
	c->columns = columns;
	for (unsigned i = 0; i <= NODES; i++) {
		c->value[i] = calloc((size_t)columns, sizeof(float));
		if (!c->value[i])
			bail("no memory");
	}
	for (unsigned i = 0; i < NODES; i++) {
		c->src[i][0] = vector(c->value[i], columns);
		c->src[i][1] = vector(&c->one, 1);
		c->node[i] = (struct weir_backend_node){
			.size = sizeof(c->node[i]),
			.op = WEIR_OP_ADD,
			.n_src = 2,
			.index = i,
			.name = "step",
			.dst = vector(c->value[i + 1], columns),
			.src = c->src[i],
		};
		c->list[i] = &c->node[i];
	}
	return c;
}

/* Node @i calls @fn, with at most @parts parts. */
static void chain_call(struct chain *c, unsigned i, weir_call_fn *fn, void *arg,
		       uint32_t parts)
{
	c->call[i] = (struct weir_op_call){ .fn = fn,
					    .arg = arg,
					    .dtype = WEIR_DTYPE_F32,
					    .ndim = 1,
					    .shape = { c->columns },
					    .parts = parts };
	c->node[i].op = WEIR_OP_CALL;
	c->node[i].params = &c->call[i];
	c->node[i].params_size = sizeof(c->call[i]);
	c->node[i].name = "own";
}

static void chain_prepare(struct chain *c, uint32_t threads)
{
	struct weir_threads t = { .size = sizeof(t), .count = threads };

	must(weir_dev_set_threads(dev, &t));
	must(ops->prepare(dev, c->list, NODES, NULL, &c->prepared, &c->room));
	c->workspace = malloc(c->room + BEYOND);
	if (!c->workspace)
		bail("no memory");
	memset(c->workspace, 0xff, c->room + BEYOND);
}

/* True if no run has written after the workspace. */
static bool beyond_is_clean(const struct chain *c)
{
	const unsigned char *p = c->workspace;
	bool clean = true;

	for (size_t i = 0; i < BEYOND; i++)
		clean = clean && p[c->room + i] == 0xff;
	return clean;
}

static void chain_free(struct chain *c)
{
	if (c->prepared)
		ops->release(dev, c->prepared);
	for (unsigned i = 0; i <= NODES; i++)
		free(c->value[i]);
	free(c->workspace);
	free(c);
}

/*
 * True if the nodes before @n have run once, and no later ones. Clears the
 * values.
 */
static bool has_run(struct chain *c, unsigned n)
{
	bool is = true;

	for (unsigned i = 1; i <= NODES; i++)
		for (int64_t k = 0; k < c->columns; k++) {
			is = is && c->value[i][k] == (i <= n ? (float)i : 0);
			c->value[i][k] = 0;
		}
	return is;
}

/* Run a work on a queue, and wait for it. */
struct job {
	struct weir_backend_work work;
	struct weir_backend_compute compute;
	sem_t done;
	int res;
};

static void job_done(struct weir_backend_work *work, int res, int32_t native)
{
	struct job *job = (struct job *)work;

	(void)native;
	job->res = res;
	sem_post(&job->done);
}

static void job_start(struct job *job, void *queue, struct chain *c,
		      size_t first, size_t n)
{
	job->work = (struct weir_backend_work){ .kind = WEIR_WORK_COMPUTE,
						.arg = &job->compute,
						.done = job_done };
	job->compute.prepared = c->prepared;
	if (!job->compute.workspace)
		job->compute.workspace = c->workspace;
	if (!job->compute.size)
		job->compute.size = sizeof(job->compute);
	job->compute.first = first;
	job->compute.n = n;
	sem_init(&job->done, 0, 0);
	must(dev->backend->queue->submit(queue, &job->work));
}

static int job_wait(struct job *job)
{
	while (sem_wait(&job->done) < 0)
		;
	sem_destroy(&job->done);
	return job->res;
}

static void *queue_open(void)
{
	void *queue;

	must(dev->backend->queue->open(dev, 0, "test", &queue));
	return queue;
}

/* Run the nodes [@first, @first + @n) on a queue. */
static int chain_run(struct job *job, struct chain *c, size_t first, size_t n)
{
	void *queue = queue_open();
	int r;

	job_start(job, queue, c, first, n);
	r = job_wait(job);
	dev->backend->queue->close(queue);
	return r;
}

static void all_nodes(void)
{
	static const uint32_t threads[] = { 1, 2, 3, 7 };
	static const int64_t columns[] = { 5, WIDE };

	for (unsigned i = 0; i < 8; i++) {
		struct chain *c = chain_new(columns[i % 2]);
		struct job job = { .res = 0 };

		chain_prepare(c, threads[i / 2]);
		is_int(chain_run(&job, c, 0, NODES), 0,
		       "a run of all nodes succeeds with %u threads",
		       threads[i / 2]);
		ok(has_run(c, NODES), "nodes of %lld elements run in order",
		   (long long)columns[i % 2]);
		chain_free(c);
	}
}

static void ranges(void)
{
	struct chain *c = chain_new(5);
	struct job job = { .res = 0 };
	bool right = true;

	chain_prepare(c, 3);
	for (unsigned n = 0; n <= NODES; n++)
		for (unsigned cut = 0; cut <= n; cut++) {
			right = chain_run(&job, c, 0, cut) == 0 && right;
			right = chain_run(&job, c, cut, n - cut) == 0 && right;
			right = has_run(c, n) && right;
		}
	ok(right, "two ranges that meet run each node of both once");
	is_int(chain_run(&job, c, NODES, 0), 0, "an empty range succeeds");
	chain_free(c);
}

struct counts {
	_Atomic unsigned calls, parts[64];
};

static int count_part(void *arg, const struct weir_operand *dst,
		      const struct weir_operand *src, unsigned n, unsigned part,
		      unsigned parts)
{
	struct counts *counts = arg;
	float *d = dst->data;
	const float *a = src[0].data;

	(void)n;
	atomic_fetch_add(&counts->parts[part], 1);
	atomic_fetch_add(&counts->calls, 1);
	for (int64_t i = part; i < dst->shape[0]; i += parts)
		d[i] = a[i] + 1;
	return 0;
}

static void parts(void)
{
	struct chain *c = chain_new(100);
	struct counts one = { 0 }, all = { 0 };
	struct job job = { .res = 0 };

	chain_call(c, 3, count_part, &one, 2);
	chain_call(c, 4, count_part, &all, 0);
	chain_call(c, 5, count_part, &all, 0);
	chain_prepare(c, 4);
	is_int(chain_run(&job, c, 0, NODES), 0, "calls may be among the nodes");
	ok(has_run(c, NODES), "nodes of one part and of several run in order");
	is_int(one.calls, 2, "a call has at most the parts that it allows");
	is_int(all.calls, 8, "else a call has a part for each thread");
	ok(all.parts[0] == 2 && all.parts[3] == 2, "each part runs once");
	chain_free(c);
}

/* A function that stops the run that calls it. */
static int set_stop(void *arg, const struct weir_operand *dst,
		    const struct weir_operand *src, unsigned n, unsigned part,
		    unsigned parts)
{
	(void)dst;
	(void)src;
	(void)n;
	(void)part;
	(void)parts;
	__atomic_store_n((uint32_t *)arg, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void stops(void)
{
	static const uint32_t threads[] = { 1, 3 };

	for (unsigned k = 0; k < 4; k++) {
		bool ended = true, right = true;

		for (unsigned i = 0; i + 1 < NODES; i++) {
			struct chain *c = chain_new(k / 2 ? WIDE : 5);
			uint32_t stop = 0;
			struct job job = { .compute.stop = &stop };

			chain_call(c, i, set_stop, &stop, 1);
			chain_prepare(c, threads[k % 2]);
			ended = chain_run(&job, c, 0, NODES) == -ECANCELED &&
				ended;
			right = c->value[i + 2][0] == 0 && right;
			right = (!i || c->value[i][0] == (float)i) && right;
			chain_free(c);
		}
		ok(ended,
		   "a run that is stopped at any node ends with -ECANCELED (%u threads)",
		   threads[k % 2]);
		ok(right, "no node runs after a stop, and all before it");
	}
}

static void stopped_before(void)
{
	struct chain *c = chain_new(5);
	uint32_t stop = 1;
	struct job job = { .compute.stop = &stop };

	chain_prepare(c, 2);
	is_int(chain_run(&job, c, 0, NODES), -ECANCELED,
	       "a run that is stopped before it begins ends with -ECANCELED");
	ok(has_run(c, 0), "no node of it runs");
	stop = 0;
	is_int(chain_run(&job, c, 0, NODES), 0, "its segment can run again");
	ok(has_run(c, NODES), "then all nodes run");
	chain_free(c);
}

static int fail_part(void *arg, const struct weir_operand *dst,
		     const struct weir_operand *src, unsigned n, unsigned part,
		     unsigned parts)
{
	(void)dst;
	(void)src;
	(void)n;
	(void)part;
	(void)parts;
	return *(int *)arg;
}

static void fails(void)
{
	static const uint32_t threads[] = { 1, 3 };
	int err = -EDOM;

	for (unsigned k = 0; k < 4; k++) {
		bool ended = true, named = true, said = true, right = true;

		for (unsigned i = 0; i < NODES; i++) {
			struct chain *c = chain_new(k / 2 ? WIDE : 5);
			struct job job = { .res = 0 };

			chain_call(c, i, fail_part, &err, k % 2 ? 0 : 1);
			chain_prepare(c, threads[k % 2]);
			ended = chain_run(&job, c, 0, NODES) == err && ended;
			named = job.compute.failed == i && named;
			right = (i + 2 > NODES || c->value[i + 2][0] == 0) &&
				right;
			said = !strcmp(job.compute.why,
				       "the function returned -33") &&
			       said;
			chain_free(c);
		}
		ok(ended && named,
		   "a run ends with the error of its node, and its number");
		ok(said, "the node's name is in the sentence");
		ok(right, "no node runs after one that failed");
	}
}

static void odd_results(void)
{
	struct chain *c = chain_new(5);
	struct job job = { .res = 0 };
	int result = -1000000;

	chain_call(c, 1, fail_part, &result, 1);
	chain_prepare(c, 1);
	is_int(chain_run(&job, c, 0, NODES), -EIO,
	       "a call that returns no errno fails with -EIO");
	result = 7;
	is_int(chain_run(&job, c, 0, NODES), 0,
	       "a call that returns more than 0 succeeds");
	chain_free(c);
}

/* An index of get_rows; the table is value[0]. */
static void index_fails(void)
{
	struct chain *c = chain_new(4);
	struct job job = { .res = 0 };
	int32_t index[2] = { 1, 2 };

	c->src[5][0].ndim = c->node[5].dst.ndim = 2;
	for (unsigned i = 0; i < 2; i++) {
		c->src[5][0].shape[i] = c->node[5].dst.shape[i] = 2;
		c->src[5][0].stride[i] = c->node[5].dst.stride[i] = i ? 4 : 8;
	}
	c->src[5][1] = vector((float *)index, 2);
	c->src[5][1].dtype = WEIR_DTYPE_I32;
	c->node[5].op = WEIR_OP_GET_ROWS;
	c->node[5].name = "rows";
	chain_prepare(c, 2);
	is_int(chain_run(&job, c, 0, NODES), -EINVAL,
	       "an index that is out of range ends the run");
	is_int((int)job.compute.failed, 5, "the node that has it is named");
	is_str(job.compute.why, "index 2 at 1 is not one of 2 rows",
	       "the sentence has index and rows");
	chain_free(c);
}

static void two_at_once(void)
{
	struct chain *c = chain_new(WIDE);
	struct job a = { .res = 0 }, b = { .res = 0 };
	void *first = queue_open(), *second = queue_open();
	bool right = true;

	chain_prepare(c, 3);
	b.compute.workspace = malloc(c->room);
	if (!b.compute.workspace)
		bail("no memory");
	for (unsigned i = 0; i < 50; i++) {
		job_start(&a, first, c, 0, NODES / 2);
		job_start(&b, second, c, NODES / 2, NODES / 2);
		right = job_wait(&a) == 0 && right;
		right = job_wait(&b) == 0 && right;
	}
	ok(right, "two works with one segment may be under way at once");
	is_int((int)c->value[NODES / 2][WIDE - 1], NODES / 2,
	       "each has computed its nodes");
	dev->backend->queue->close(first);
	dev->backend->queue->close(second);
	free(b.compute.workspace);
	chain_free(c);
}

static void scratch(void)
{
	enum {
		ROWS = 1000,
		K = 40
	};
	static int32_t index[ROWS * K];
	struct weir_op_top_k top = { .k = K };
	struct chain *c = chain_new(WIDE);
	struct job job = { .res = 0 };
	bool right = true;

	c->src[0][0].ndim = c->node[0].dst.ndim = 2;
	c->src[0][0].shape[0] = c->node[0].dst.shape[0] = ROWS;
	c->src[0][0].shape[1] = c->src[0][0].stride[0] = WIDE / ROWS;
	c->src[0][0].stride[0] *= 4;
	c->src[0][0].stride[1] = c->node[0].dst.stride[1] = 4;
	c->node[0].dst.shape[1] = K;
	c->node[0].dst.stride[0] = K * 4;
	c->node[0].dst.dtype = WEIR_DTYPE_I32;
	c->node[0].dst.data = index;
	c->node[0].op = WEIR_OP_TOP_K;
	c->node[0].n_src = 1;
	c->node[0].params = &top;
	for (int i = 0; i < WIDE; i++)
		c->value[0][i] = (float)(i * 7 % (WIDE / ROWS));
	chain_prepare(c, 3);
	for (unsigned i = 0; i < 20; i++) {
		right = chain_run(&job, c, 0, 1) == 0 && right;
		for (int k = 0; k < ROWS * K; k++)
			right = index[k] * 7 % 100 == 99 - k % K && right;
		memset(index, 0, sizeof(index));
	}
	ok(right, "each thread has memory of its own for a node");
	ok(beyond_is_clean(c), "nothing is written after the workspace");
	chain_free(c);
}

static void other_threads(void)
{
	static const uint32_t threads[] = { 1, 2, 9 };
	struct chain *c = chain_new(WIDE);
	struct job job = { .res = 0 };

	chain_prepare(c, 4);
	for (unsigned i = 0; i < 3; i++) {
		struct weir_threads t = { .size = sizeof(t),
					  .count = threads[i] };

		must(weir_dev_set_threads(dev, &t));
		is_int(chain_run(&job, c, 0, NODES), 0,
		       "a segment for 4 threads runs with %u", threads[i]);
		ok(has_run(c, NODES), "it computes the same");
	}
	chain_free(c);
}

/*
 * Run as an older library does, whose struct weir_backend_compute ends with
 * stop.
 */
static void older_size(void)
{
	struct chain *c = chain_new(5);
	struct job job = { .compute.size = WEIR_BACKEND_END_OF(
				   struct weir_backend_compute, stop) };
	int err = -EDOM;

	job.compute.failed = 99;
	chain_call(c, 2, fail_part, &err, 1);
	chain_prepare(c, 2);
	is_int(chain_run(&job, c, 0, NODES), err,
	       "a work of an older library ends with its error");
	ok(job.compute.failed == 99 && !job.compute.why[0],
	   "nothing is written after its end");
	chain_free(c);
}

static void refusals(void)
{
	struct chain *c = chain_new(5);
	void *prepared;
	size_t room;

	is_int(ops->supports(dev, &c->node[0]), 0, "add is supported");
	c->src[0][1].dtype = WEIR_DTYPE_I32;
	is_err(ops->supports(dev, &c->node[0]), -EOPNOTSUPP,
	       "CPU: add 'step' (F32, I32): not floating-point",
	       "a dtype that no kernel has is refused by name");
	is_err(ops->prepare(dev, c->list, NODES, NULL, &prepared, &room),
	       -EOPNOTSUPP, "not floating-point",
	       "a segment with such a node is refused");
	c->node[1].op = 9999;
	is_err(ops->supports(dev, &c->node[1]), -EOPNOTSUPP,
	       "operation 9999 of 'step': no kernel",
	       "an operation without a kernel is refused");
	chain_free(c);
}

static void nothing(void)
{
	struct chain *c = chain_new(5);
	struct job job = { .res = 0 };
	void *prepared;
	size_t room;

	must(ops->prepare(dev, c->list, 0, NULL, &prepared, &room));
	c->prepared = prepared;
	c->workspace = malloc(room ? room : 1);
	is_int(chain_run(&job, c, 0, 0), 0, "a segment without nodes runs");
	chain_free(c);
}

int main(void)
{
	struct weir *weir;

	plan(69);
	weir = open_root(WEIR_IO_SYNC);
	dev = cpu_of(weir);
	must(weir__dev_use(dev));
	ops = dev->backend->compute;
	all_nodes();
	ranges();
	parts();
	stops();
	stopped_before();
	fails();
	odd_results();
	index_fails();
	two_at_once();
	scratch();
	other_threads();
	older_size();
	refusals();
	nothing();
	weir_close(weir);
	return done_testing();
}
