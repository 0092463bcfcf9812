/* SPDX-License-Identifier: MIT */
/*
 * Virtual CPU devices (CPU:devices=N): their names, their parts of the CPUs,
 * and devices that compute in their own memory only (apart=1).
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "dev/dev.h"
#include "cpu/cpu.h"
#include "streams.h"

static struct weir_dev *dev_named(struct weir *weir, const char *name)
{
	struct weir_dev *dev;

	must(weir_dev_find(weir, name, &dev));
	return dev;
}

/* A root whose CPU has these parameters, and is in use. */
static struct weir *open_cpu(const char *params)
{
	struct weir *weir = open_root(0);
	struct weir_dev *dev;

	must(weir_dev_configure(weir, params, &dev));
	return weir;
}

static unsigned threads_of(struct weir *weir, const char *name)
{
	struct weir_dev *dev = dev_named(weir, name);

	must(weir__dev_use(dev));
	return weir__team_size(weir__cpu_of(dev)->team);
}

static struct weir_buft *plain_of(struct weir_dev *dev)
{
	struct weir_buft *buft;

	must(weir_dev_buft(dev, WEIR_MEM_PLAIN, &buft));
	return buft;
}

static void names(void)
{
	struct weir *weir = open_cpu("CPU:devices=3");
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_buft_info buft = { .size = sizeof(buft) };

	ok(weir_dev_get(weir, 1) == dev_named(weir, "CPU1") &&
		   weir_dev_get(weir, 2) == dev_named(weir, "CPU2"),
	   "CPU:devices=3 adds the devices CPU1 and CPU2");
	must(weir_dev_info(dev_named(weir, "CPU2"), &info));
	ok(info.type == WEIR_DEV_CPU && info.caps & WEIR_CAP_COMPUTE &&
		   !strcmp(info.backend, "CPU"),
	   "an added device is a CPU that computes");
	must(weir_buft_info(plain_of(dev_named(weir, "CPU2")), &buft));
	is_str(buft.name, "CPU2",
	       "the plain memory of an added device has the device's name");
	weir_close(weir);
}

static void parts_of_the_threads(void)
{
	struct weir *weir = open_cpu("CPU:threads=5,devices=3");

	ok(threads_of(weir, "CPU") == 2 && threads_of(weir, "CPU1") == 2 &&
		   threads_of(weir, "CPU2") == 1,
	   "three devices divide five threads as 2, 2 and 1");
	weir_close(weir);
}

static void parts_of_the_cpus(void)
{
	struct weir *alone = open_cpu("CPU"), *weir = open_cpu("CPU:devices=2");
	unsigned cpus = threads_of(alone, "CPU");

	is_int(threads_of(weir, "CPU") + threads_of(weir, "CPU1"),
	       cpus < 2 ? 2 : cpus,
	       "two devices have a thread for each CPU between them");
	weir_close(alone);
	weir_close(weir);
}

static void threads_of_one(void)
{
	struct weir *weir = open_cpu("CPU:devices=2,threads=2");
	struct weir_dev *dev;

	must(weir_dev_configure(weir, "CPU1:threads=3", &dev));
	ok(threads_of(weir, "CPU1") == 3 && threads_of(weir, "CPU") == 1,
	   "an added device may have threads of its own");
	weir_close(weir);
}

static void wrong_parameters(void)
{
	struct weir *weir = open_root(0);
	struct weir_dev *dev;

	is_err(weir_dev_configure(weir, "CPU:devices=0", &dev), -EINVAL,
	       "CPU: devices=0, from 1 to 16", "0 devices are refused");
	is_err(weir_dev_configure(weir, "CPU:devices=17", &dev), -EINVAL,
	       "CPU: devices=17, from 1 to 16", "17 devices are refused");
	is_err(weir_dev_configure(weir, "CPU:devices=2,apart=2", &dev), -EINVAL,
	       "CPU: apart=2, from 0 to 1", "apart is 0 or 1");
	is_int(weir_dev_count(weir), 1,
	       "parameters that are refused add no device");
	must(weir_dev_configure(weir, "CPU:devices=2", &dev));
	is_err(weir_dev_configure(weir, "CPU1:devices=2", &dev), -EINVAL,
	       "CPU1: unknown parameter 'devices'; there are: node=N, threads=N",
	       "an added device cannot be divided again");
	is_err(weir_dev_configure(weir, "CPU:devices=3", &dev), -EBUSY,
	       "'devices=2' already",
	       "a CPU that is in use cannot be divided in another way");
	weir_close(weir);
}

/* Two calls that wait for each other, for 10 seconds at most. */
struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned came;
};

static int meet(void *arg, const struct weir_operand *dst,
		const struct weir_operand *src, unsigned n, unsigned part,
		unsigned parts)
{
	struct meeting *m = arg;
	struct timespec end;
	int r = 0;

	(void)dst, (void)src, (void)n, (void)part, (void)parts;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 10;
	pthread_mutex_lock(&m->lock);
	m->came++;
	pthread_cond_broadcast(&m->changed);
	while (m->came < 2 && !r)
		r = pthread_cond_timedwait(&m->changed, &m->lock, &end);
	pthread_mutex_unlock(&m->lock);
	return -r;
}

static struct weir_run *start_meeting(struct weir_dev *dev, struct meeting *m)
{
	struct weir_op_call call = { .fn = meet,
				     .arg = m,
				     .dtype = WEIR_DTYPE_F32,
				     .ndim = 1,
				     .shape = { 1 },
				     .parts = 1 };
	struct weir_exec *exec;
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_run *run;

	must(weir_graph_new(&g));
	weir_graph_output(g, weir_graph_op(g, WEIR_OP_CALL, &call, sizeof(call),
					   NULL, 0));
	must(weir_sched_new(&dev, 1, NULL, &sched));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_start(run));
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	return run;
}

static void at_the_same_time(void)
{
	struct weir *weir = open_cpu("CPU:devices=2");
	struct meeting m = { PTHREAD_MUTEX_INITIALIZER,
			     PTHREAD_COND_INITIALIZER, 0 };
	struct weir_run *a = start_meeting(dev_named(weir, "CPU"), &m);
	struct weir_run *b = start_meeting(dev_named(weir, "CPU1"), &m);

	ok(weir_run_wait(a, -1) == 0 && weir_run_wait(b, -1) == 0,
	   "two devices compute at the same time, each with a team of its own");
	weir_run_free(a);
	weir_run_free(b);
	weir_close(weir);
}

/* An executable graph on @dev whose leaf is in memory of @owner. */
static int exec_of(struct weir_dev *dev, struct weir_dev *owner)
{
	struct weir_exec *exec = NULL;
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_buf *buf;
	struct weir_tensor t;
	int r;

	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 1, (int64_t[]){ 16 }));
	must(weir_buf_alloc(plain_of(owner), 64, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_graph_new(&g));
	weir_graph_output(g, weir_sqr(g, weir_graph_leaf(g, &t, NULL)));
	must(weir_sched_new(&dev, 1, NULL, &sched));
	r = weir_exec_new(sched, g, &exec);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	weir_buf_free(buf);
	return r;
}

static void memory_of_all(void)
{
	struct weir *weir = open_cpu("CPU:devices=2");

	is_int(exec_of(dev_named(weir, "CPU1"), dev_named(weir, "CPU")), 0,
	       "a device computes in the memory of another");
	weir_close(weir);
}

static void memory_apart(void)
{
	struct weir *weir = open_cpu("CPU:devices=2,apart=1");
	struct weir_dev *first = dev_named(weir, "CPU");
	struct weir_dev *second = dev_named(weir, "CPU1");

	is_int(exec_of(second, second), 0,
	       "with apart=1 a device computes in its own memory");
	is_err(exec_of(second, first), -EINVAL,
	       "is in memory of CPU, CPU1 computes",
	       "with apart=1 an added device does not use the memory of CPU");
	is_err(exec_of(first, second), -EINVAL,
	       "is in memory of CPU1, CPU computes",
	       "with apart=1 CPU does not use the memory of an added device");
	weir_close(weir);
}

/* An addition on @dev, prepared with these addresses. */
static int prepare(struct weir_dev *dev, void *dst, void *a, void *b)
{
	const struct weir_operand o = { .dtype = WEIR_DTYPE_F32,
					.ndim = 1,
					.shape = { 4 },
					.stride = { 4 } };
	struct weir_operand src[2] = { o, o };
	struct weir_backend_node node = { .size = sizeof(node),
					  .op = WEIR_OP_ADD,
					  .n_src = 2,
					  .index = 7,
					  .name = "sum",
					  .dst = o,
					  .src = src };
	const struct weir_backend_node *list = &node;
	void *prepared;
	size_t workspace;
	int r;

	node.dst.data = dst;
	src[0].data = a;
	src[1].data = b;
	must(weir__dev_use(dev));
	r = dev->backend->compute->prepare(dev, &list, 1, NULL, &prepared,
					   &workspace);
	if (!r)
		dev->backend->compute->release(dev, prepared);
	return r;
}

static void *memory_of(struct weir_dev *dev, struct weir_buf **buf)
{
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 1, (int64_t[]){ 16 }));
	must(weir_buf_alloc(plain_of(dev), 64, NULL, buf));
	must(weir_tensor_place(&t, *buf, 0));
	return weir_tensor_data(&t);
}

static void addresses_apart(void)
{
	struct weir *weir = open_cpu("CPU:devices=2,apart=1");
	struct weir_dev *dev = dev_named(weir, "CPU1");
	struct weir_buf *mine, *other, *wrapped;
	float *at = memory_of(dev, &mine), callers[4] = { 0 };
	float *away = memory_of(dev_named(weir, "CPU"), &other);

	is_int(prepare(dev, at + 8, at, at + 4), 0,
	       "a device that is apart prepares nodes in its own memory");
	is_err(prepare(dev, at, away, at), -EINVAL,
	       "CPU1 computes in its own memory only (apart=1): source 0 of node 7 sum is elsewhere",
	       "a device that is apart refuses sources in other memory");
	is_err(prepare(dev, away, at, at), -EINVAL,
	       "the result of node 7 sum is elsewhere",
	       "a device that is apart refuses results in other memory");
	is_err(prepare(dev, at, at, callers), -EINVAL, "source 1",
	       "a device that is apart refuses memory that it does not know");
	must(weir_buf_wrap(plain_of(dev), callers, sizeof(callers), NULL, NULL,
			   &wrapped));
	is_int(prepare(dev, at, at, callers), 0,
	       "a device that is apart uses memory of the program that it wraps");
	weir_buf_free(wrapped);
	is_err(prepare(dev, at, at, callers), -EINVAL, "source 1",
	       "memory that is not wrapped any more is refused");
	weir_buf_free(mine);
	is_err(prepare(dev, at, at, at), -EINVAL, "elsewhere",
	       "memory that was freed is refused");
	weir_buf_free(other);
	weir_close(weir);
}

int main(void)
{
	plan(3 + 1 + 1 + 1 + 6 + 1 + 1 + 3 + 7);
	names();
	parts_of_the_threads();
	parts_of_the_cpus();
	threads_of_one();
	wrong_parameters();
	at_the_same_time();
	memory_of_all();
	memory_apart();
	addresses_apart();
	return 0;
}
