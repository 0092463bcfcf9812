/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "testmod.h"
#include "tap.h"

static struct weir *weir;

static struct weir_dev *dev_of(const char *name)
{
	struct weir_dev *dev;

	if (weir_dev_find(weir, name, &dev) < 0)
		bail("%s", weir_error());
	return dev;
}

static void cpu(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_dev *dev = dev_of("CPU");
	uint64_t avail, total;

	ok(weir_dev_get(weir, 0) == dev, "the CPU is device 0");
	is_int(weir_dev_info(dev, &info), 0, "a device describes itself");
	ok(!strcmp(info.name, "CPU") && !strcmp(info.backend, "CPU") &&
		   info.type == WEIR_DEV_CPU && !info.module && !info.pci[0],
	   "the CPU is built in");
	ok(strlen(info.description) > 2,
	   "the CPU's description is the processor's name: %s",
	   info.description);
	ok(info.caps & WEIR_CAP_HOST_MEMORY && info.caps & WEIR_CAP_WRAP_HOST,
	   "the CPU works on the host's memory");
	is_int(weir_dev_memory(dev, &avail, &total), 0,
	       "the CPU reports its memory");
	ok(avail && avail < total, "some of the CPU's memory is in use");
	info.size = 16;
	info.description = "untouched";
	is_int(weir_dev_info(dev, &info), 0,
	       "a shorter struct weir_dev_info is accepted");
	is_str(info.description, "untouched",
	       "nothing is written past the end of a shorter one");
	info.size = 0;
	is_err(weir_dev_info(dev, &info), -EINVAL, ".size",
	       "a result without a size is refused");
}

static const struct {
	enum weir_mem kind;
	const char *name;
	uint32_t flags;
	size_t align;
} kinds[] = {
	{ WEIR_MEM_PLAIN, "CPU", WEIR_BUFT_HOST, 64 },
	{ WEIR_MEM_HUGE, "CPU_Huge", WEIR_BUFT_HOST, 64 },
	{ WEIR_MEM_LOCKED, "CPU_Locked", WEIR_BUFT_HOST | WEIR_BUFT_LOCKED,
	  64 },
	{ WEIR_MEM_MAPPED, "CPU_Mapped", WEIR_BUFT_HOST | WEIR_BUFT_READONLY,
	  1 },
};

static void memory(void)
{
	struct weir_buft_info info = { .size = sizeof(info) };
	struct weir_dev *dev = dev_of("CPU");
	struct weir_buft *buft, *own;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		weir_dev_buft(dev, kinds[i].kind, &buft);
		weir_buft_info(buft, &info);
		ok(!strcmp(info.name, kinds[i].name) && info.dev == dev &&
			   info.kind == kinds[i].kind &&
			   info.flags == kinds[i].flags &&
			   info.align == kinds[i].align && info.max == SIZE_MAX,
		   "the CPU has memory of kind %s", kinds[i].name);
	}
	weir_dev_buft(dev, WEIR_MEM_DEVICE, &own);
	weir_dev_buft(dev, WEIR_MEM_HUGE, &buft);
	ok(own == buft, "the CPU's own memory is that in huge pages");
	is_err(weir_dev_buft(dev, WEIR_MEM_PINNED, &buft), -EOPNOTSUPP,
	       "weir_dev_buft: CPU has no memory of kind PINNED",
	       "a kind of memory that a device lacks is refused");
	is_err(weir_dev_buft(dev, (enum weir_mem)8, &buft), -EINVAL,
	       "weir_dev_buft: 8 is no kind of memory",
	       "an unknown kind of memory is an invalid argument");
}

static void names(void)
{
	struct weir_dev *dev = NULL;

	is_err(weir_dev_find(weir, "CUDA7", &dev), -ENODEV,
	       "no device 'CUDA7'; there are: CPU, TEST0, TEST1",
	       "the error for an unknown device lists the devices");
	is_err(weir_dev_find(weir, "cpu", &dev), -ENODEV, "'cpu'",
	       "names of devices are case-sensitive");
	is_err(weir_dev_find(weir, "", &dev), -ENODEV, "''",
	       "an empty name is refused");
	ok(!dev, "a failure of weir_dev_find writes no result");
	is_int(weir_dev_count(weir), 3,
	       "weir_dev_count counts a module's devices");
	ok(weir_dev_get(weir, 2) == dev_of("TEST1"),
	   "weir_dev_get numbers devices from 0");
	ok(!weir_dev_get(weir, 3),
	   "weir_dev_get returns NULL past the last device");
}

static void types(void)
{
	struct weir_dev *dev = NULL;
	struct weir *no_modules;

	is_err(weir_dev_find_type(weir, WEIR_DEV_ACCEL, &dev), -ENODEV,
	       "no device of type ACCEL; there are: CPU, TEST0, TEST1",
	       "the error for a type without devices lists the devices");
	is_err(weir_dev_find_type(weir, (enum weir_dev_type)4, &dev), -EINVAL,
	       "4 is no type of device", "an unknown type is refused");
	ok(!dev, "a failure of weir_dev_find_type writes no result");
	weir_dev_find_type(weir, WEIR_DEV_GPU, &dev);
	ok(dev == dev_of("TEST0"), "the first device of a type is found");
	weir_dev_find_type(weir, WEIR_DEV_CPU, &dev);
	ok(dev == dev_of("CPU"), "the CPU is found by its type");
	weir_dev_best(weir, &dev);
	ok(dev == dev_of("TEST0"), "the best device is the first GPU");
	no_modules = open_with_modules("/nonexistent", 0);
	weir_dev_best(no_modules, &dev);
	ok(dev == weir_dev_get(no_modules, 0),
	   "the best device is the CPU where there is no GPU");
	weir_close(no_modules);
}

static void params(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_dev *dev = NULL;

	is_err(weir_dev_configure(weir, "CPU:garbage=1", &dev), -EINVAL,
	       "unknown parameter 'garbage'; there are: node=N, threads=N",
	       "the error for an unknown parameter lists the known ones");
	is_err(weir_dev_configure(weir, "CPU:node", &dev), -EINVAL,
	       "'node' is not key=value",
	       "a parameter without a value is refused");
	is_err(weir_dev_configure(weir, "CPU:node=", &dev), -EINVAL,
	       "key=value", "a parameter with an empty value is refused");
	is_err(weir_dev_configure(weir, "CPU:node=0,", &dev), -EINVAL,
	       "key=value", "an empty parameter is refused");
	is_err(weir_dev_configure(weir, "CPU:node=x", &dev), -EINVAL,
	       "node=x is not a number", "a node that is no number is refused");
	is_err(weir_dev_configure(weir, "CPU:node=-1", &dev), -EINVAL,
	       "node=-1", "a negative node is refused");
	is_err(weir_dev_configure(weir, "CPU:node=9999", &dev), -EINVAL,
	       "no NUMA node 9999", "a node that does not exist is refused");
	is_err(weir_dev_configure(weir, "CPU:node=99999999999999999999", &dev),
	       -EINVAL, "no NUMA node", "a node that overflows is refused");
	is_err(weir_dev_configure(weir, "CPU:node=0,node=0", &dev), -EINVAL,
	       "twice", "a parameter that is given twice is refused");
	is_err(weir_dev_configure(weir, "CPU:threads=2x", &dev), -EINVAL,
	       "threads=2x is not a number",
	       "a number of threads that is no number is refused");
	is_err(weir_dev_configure(weir, "CPU:threads=0", &dev), -EINVAL,
	       "threads=0, from 1 to 1024", "0 threads are refused");
	is_err(weir_dev_configure(weir, "CPU:threads=1025", &dev), -EINVAL,
	       "threads=1025, from 1 to 1024", "1025 threads are refused");
	is_err(weir_dev_configure(weir, "CPU:threads=1,threads=1", &dev),
	       -EINVAL, "threads is given twice",
	       "a number of threads that is given twice is refused");
	is_err(weir_dev_configure(weir, "NONE:node=0", &dev), -ENODEV, "'NONE'",
	       "a device that does not exist cannot be configured");
	ok(!dev, "a failure of weir_dev_configure writes no result");
	is_int(weir_dev_configure(weir, "CPU:node=0", &dev), 0,
	       "a node that exists is accepted");
	weir_dev_info(dev, &info);
	is_int(info.node, 0, "a device reports the node that it was bound to");
	is_int(weir_dev_configure(weir, "CPU:node=0", &dev), 0,
	       "the same parameters are accepted again");
	is_int(weir_dev_configure(weir, "CPU", &dev), 0,
	       "a device that is configured is found without parameters");
	is_err(weir_dev_configure(weir, "CPU:node=1", &dev), -EBUSY,
	       "in use with parameters 'node=0' already, not 'node=1'",
	       "other parameters are refused when the device is in use");
	is_int(weir_dev_configure(weir, "TEST0:virtual=2", &dev), 0,
	       "a module gets the parameters of its devices");
}

static void threads_of_a_gpu(void)
{
	struct weir_threads threads = { .size = sizeof(threads) };

	is_err(weir_dev_set_threads(dev_of("TEST0"), &threads), -EOPNOTSUPP,
	       "TEST0: does not compute on threads of the host",
	       "threads of a device that computes elsewhere cannot be set");
}

static void on_node(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buft *buft;
	struct weir_buf *buf;

	weir_dev_buft(dev_of("CPU"), WEIR_MEM_PLAIN, &buft);
	if (weir_buf_alloc(buft, 4096, NULL, &buf) < 0)
		bail("%s", weir_error());
	weir_buf_info(buf, &info);
	if (info.node == 0)
		ok(true, "memory of a device that is bound to a node is on it");
	else
		has_str(info.why, "NUMA node 0",
			"memory that cannot be bound says why: %s", info.why);
	weir_buf_free(buf);
}

static void *find_often(void *arg)
{
	long failed = 0;

	(void)arg;
	for (int i = 0; i < 1000; i++) {
		struct weir_dev *dev;

		failed += weir_dev_find(weir, "TEST1", &dev) != 0;
		failed += weir_dev_count(weir) != 3;
	}
	return (void *)failed;
}

static void threads(void)
{
	pthread_t thread[4];
	long failed = 0;

	weir_close(weir);
	weir = open_with_good_module();
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, find_often, NULL))
			bail("pthread_create");
	for (int i = 0; i < 4; i++) {
		void *r;

		pthread_join(thread[i], &r);
		failed += (long)r;
	}
	is_int(failed, 0, "modules are found once by four threads at once");
}

int main(void)
{
	plan(11 + 6 + 7 + 7 + 21 + 1 + 1 + 1);
	weir = open_with_good_module();
	cpu();
	memory();
	names();
	types();
	params();
	on_node();
	threads_of_a_gpu();
	threads();
	weir_close(weir);
	return done_testing();
}
