/* SPDX-License-Identifier: MIT */
/*
 * Parking of weights on several devices, and on devices that are lost before,
 * during and after a call. Each runs in a process of its own, which prints the
 * step that failed.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "nomem.h"
#include "sample.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define OUT_OF_MEMORY 2 /* a CUresult */
#define LOST 719        /* a CUresult */

static char path[] = "/var/tmp/weir-cuda-park-ends-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", MIB, 4 },
	{ "b", "U8", 3 * MIB + 17, 1 },
	{ "c", "F32", 1001, 4 },
};

static struct weir *weir;

/* A step that fails is printed, and ends the process. */
#define step(what)                                                   \
	do {                                                         \
		if (!(what)) {                                       \
			diag("line %d: %s: %s\n%s", __LINE__, #what, \
			     weir_error(), cuda_log);                \
			_exit(1);                                    \
		}                                                    \
	} while (0)

static void ends_well(void (*fn)(void), const char *what)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		weir = open_cuda();
		fn();
		weir_close(weir);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "%s", what);
}

static struct weir_buft *memory_of(const char *name, enum weir_mem kind)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	must(weir_dev_find(weir, name, &dev));
	must(weir_dev_buft(dev, kind, &buft));
	return buft;
}

static void select_into(struct weir_plan *p, const char *glob,
			struct weir_buft *buft)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;

	o.buf_flags = WEIR_BUF_PARKABLE;
	must(weir_plan_add(p, glob, buft, &o));
}

/* a is on CUDA0, b on CUDA1, c in host memory. */
static struct weir_weights *load_spread(void)
{
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	must(weir_model_open(weir, path, NULL, &m));
	must(weir_plan_new(m, &p));
	select_into(p, "a", memory_of("CUDA0", WEIR_MEM_DEVICE));
	select_into(p, "b", memory_of("CUDA1", WEIR_MEM_DEVICE));
	select_into(p, "c", memory_of("CPU", WEIR_MEM_HUGE));
	must(weir_load_start(p, NULL, &l));
	must(weir_load_wait(l, -1));
	must(weir_load_weights(l, &w));
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	return w;
}

static int state_of(struct weir_weights *w)
{
	struct weir_park_info info = { .size = sizeof(info) };

	must(weir_weights_park_info(w, &info));
	return (int)info.state;
}

static uint64_t free_on(const char *name, enum weir_mem kind)
{
	uint64_t avail, total;

	must(weir_buft_memory(memory_of(name, kind), &avail, &total));
	return avail;
}

/* Freed memory is released by a thread. */
static bool all_released(void)
{
	struct fakecuda_counts c;

	for (int i = 0; i < 20000; i++) {
		fake.counts(&c);
		if (!c.device_bytes && !c.live[FAKECUDA_ADDRESSES])
			return true;
		usleep(1000);
	}
	return false;
}

static void spread_by(const struct weir_park_opts *o)
{
	struct weir_weights *w = load_spread();
	uint64_t free0 = free_on("CUDA0", WEIR_MEM_DEVICE);
	uint64_t free1 = free_on("CUDA1", WEIR_MEM_DEVICE);
	struct weir_event *event;

	must(weir_event_new(weir, 0, &event));
	step(weir_weights_park(w, o) == 0);
	step(free_on("CUDA0", WEIR_MEM_DEVICE) >= free0 + 4 * MIB);
	step(free_on("CUDA1", WEIR_MEM_DEVICE) >= free1 + 3 * MIB);
	step(!weir_tensor_data(weir_weights_get(w, 2)));
	/*
	 * The second device has no memory, even if other memory is freed
	 * meanwhile: the first is released again.
	 */
	fake.arm("cuMemCreate", 2, FAKECUDA_FROM_THEN_ON, OUT_OF_MEMORY);
	step(weir_weights_unpark(w, NULL) == -ENOMEM);
	fake.disarm();
	step(state_of(w) == WEIR_PARK_PARKED);
	step(free_on("CUDA0", WEIR_MEM_DEVICE) >= free0 + 4 * MIB);
	step(weir_weights_unpark(w, event) == 0);
	step(weir_event_wait(event, -1) == 0);
	step(sample_wrong(w, 1) == 0);
	step(free_on("CUDA0", WEIR_MEM_DEVICE) == free0);
	step(state_of(w) == WEIR_PARK_RESIDENT);
	weir_event_free(event);
	weir_weights_free(w);
	step(all_released());
}

static void spread(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;

	spread_by(NULL);
	o.folder = "/var/tmp";
	spread_by(&o);
	o.folder = NULL;
	o.flags = WEIR_PARK_CONSTANT;
	spread_by(&o);
}

/* Work is queued in streams, and in a child of fork(2) nothing is parked. */
static void queued(void)
{
	struct weir_weights *w = load_spread();
	const struct weir_tensor *a = weir_weights_get(w, 0);
	struct weir_tensor view = *a;
	struct weir_stream *s = gpu_stream(weir, "queue", 0);
	unsigned char byte = 0;
	int status = -1;
	pid_t pid;

	fake.set("LATENCY", "3000");
	for (unsigned i = 0; i < 20; i++)
		must(weir_stream_fill(s, a, i * 100, 100, (uint8_t)(i + 1)));
	pid = fork();
	if (!pid)
		_exit(weir_weights_park(w, NULL) == -EPERM ? 0 : 1);
	waitpid(pid, &status, 0);
	step(status == 0);
	step(weir_weights_park(w, NULL) == 0);
	step(weir_stream_get(s, &view, 0, &byte, 1) == -ENODATA);
	step(weir_weights_park(w, NULL) == -EALREADY);
	step(weir_weights_unpark(w, NULL) == 0);
	step(weir_weights_unpark(w, NULL) == -EALREADY);
	must(weir_tensor_get(&view, 1999, &byte, 1));
	step(byte == 20);
	weir_stream_free(s);
	weir_weights_free(w);
}

static void lose_first(void)
{
	fake.arm("*", 1, FAKECUDA_STICKY, LOST);
	(void)weir_buft_memory(memory_of("CUDA0", WEIR_MEM_DEVICE),
			       &(uint64_t){ 0 }, &(uint64_t){ 0 });
}

static void lost_before(void)
{
	struct weir_weights *w = load_spread();

	lose_first();
	step(weir_weights_park(w, NULL) < 0);
	step(state_of(w) == WEIR_PARK_RESIDENT);
	step(strstr(weir_error(), "CUDA0"));
	weir_weights_free(w);
}

/* Half of a copy to the host is done: the others stay, the call says why. */
static void lost_in_park(void)
{
	struct weir_weights *w = load_spread();
	struct weir_tensor b = *weir_weights_get(w, 1);
	char byte;

	fake.arm("cuMemcpyDtoHAsync", 1, FAKECUDA_LOST, LOST);
	step(weir_weights_park(w, NULL) == -ENODEV);
	step(strstr(weir_error(), "CUDA"));
	step(state_of(w) == WEIR_PARK_RESIDENT);
	step(weir_tensor_data(weir_weights_get(w, 2)));
	step(weir_tensor_get(&b, 0, &byte, 1) == 0 ||
	     weir_tensor_get(weir_weights_get(w, 0), 0, &byte, 1) == 0);
	weir_weights_free(w);
}

/* The memory of the first device is released when the second is lost. */
static void lost_in_release_by(uint32_t flags)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = load_spread();

	o.flags = flags;
	fake.arm("cuMemUnmap", 2, FAKECUDA_STICKY, LOST);
	step(weir_weights_park(w, &o) < 0);
	step(strstr(weir_error(), "CUDA1"));
	/* They can neither be parked nor be whole again. */
	step(state_of(w) == WEIR_PARK_FAILED);
	step(weir_weights_unpark(w, NULL) == -ENODEV);
	step(state_of(w) == WEIR_PARK_FAILED);
	weir_weights_free(w);
}

static void lost_in_release(void)
{
	lost_in_release_by(0);
}

static void lost_in_release_constant(void)
{
	lost_in_release_by(WEIR_PARK_CONSTANT);
}

enum {
	NO_FAILURE = 0, /* exit statuses; 1 is that of step() */
	FAILURE = 2,
};

/* The @n-th allocation of the call fails too, often on the way back. */
static int lost_without_memory(unsigned n)
{
	unsigned long before = fake.struck();
	struct weir_weights *w = load_spread();
	bool failed;
	int r;

	fake.arm("cuMemUnmap", 2, FAKECUDA_STICKY, LOST);
	nomem_begin(n);
	r = weir_weights_park(w, NULL);
	failed = nomem_end();
	step(r < 0);
	step(state_of(w) ==
	     (fake.struck() != before ? WEIR_PARK_FAILED : WEIR_PARK_RESIDENT));
	weir_weights_free(w);
	return failed ? FAILURE : NO_FAILURE;
}

static void each_without_memory(void)
{
	int status = -1;
	unsigned n = 0;

	do {
		pid_t pid = fork();

		n++;
		if (!pid) {
			weir = open_cuda();
			_exit(lost_without_memory(n));
		}
		waitpid(pid, &status, 0);
	} while (WIFEXITED(status) && WEXITSTATUS(status) == FAILURE);
	ok(status == 0 && n > 10,
	   "a device is lost while memory is released, and the host has none "
	   "(%u allocations)",
	   n - 1);
}

static void lost_while_parked(void)
{
	struct weir_weights *w = load_spread();

	must(weir_weights_park(w, NULL));
	lose_first();
	step(weir_weights_unpark(w, NULL) == -ENODEV);
	step(strstr(weir_error(), "CUDA0"));
	step(state_of(w) == WEIR_PARK_PARKED);
	step(weir_weights_park(w, NULL) == -EALREADY);
	weir_weights_free(w);
}

static void lost_in_unpark(void)
{
	struct weir_weights *w = load_spread();
	struct weir_event *event;

	must(weir_event_new(weir, 0, &event));
	must(weir_weights_park(w, NULL));
	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_LOST, LOST);
	/* The call itself fails if it is slower than the device is lost. */
	step(weir_weights_unpark(w, event) < 0 ||
	     weir_event_wait(event, 10 * SEC) < 0);
	step(state_of(w) != WEIR_PARK_RESIDENT);
	step(weir_weights_unpark(w, NULL) == -ENODEV);
	step(weir_weights_park(w, NULL) < 0);
	weir_event_free(event);
	weir_weights_free(w);
}

/* The same by the files of the model, and the call waits itself. */
static void lost_in_reading(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = load_spread();

	o.flags = WEIR_PARK_CONSTANT;
	must(weir_weights_park(w, &o));
	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_LOST, LOST);
	step(weir_weights_unpark(w, NULL) < 0);
	step(state_of(w) != WEIR_PARK_RESIDENT);
	step(weir_weights_unpark(w, NULL) == -ENODEV);
	weir_weights_free(w);
}

static void lost_after(void)
{
	struct weir_weights *w = load_spread();

	must(weir_weights_park(w, NULL));
	must(weir_weights_unpark(w, NULL));
	lose_first();
	step(state_of(w) == WEIR_PARK_RESIDENT);
	step(weir_weights_unpark(w, NULL) == -EALREADY);
	step(weir_weights_park(w, NULL) < 0);
	weir_weights_free(w);
}

/* A handle must not be used after a call that may have released it. */
static void released_once(void)
{
	struct weir_weights *w = load_spread();
	unsigned long calls = fake.calls("cuMemRelease");
	struct fakecuda_counts counts;

	must(weir_weights_park(w, NULL));
	fake.arm("cuMemRelease", 1, FAKECUDA_FROM_THEN_ON, 999);
	step(weir_weights_unpark(w, NULL) == 0);
	fake.disarm();
	step(fake.calls("cuMemRelease") == calls + 2);
	fake.counts(&counts);
	step(!counts.misuse);
	step(sample_wrong(w, 1) == 0);
	weir_weights_free(w);
}

int main(void)
{
	int fd;

	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	plan(12);
	fd = mkstemp(path);
	if (fd < 0)
		bail("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, 3, 0, 1);
	ends_well(spread, "weights on two devices and the host take turns");
	ends_well(queued, "queued work ends first, and children park nothing");
	ends_well(lost_before, "a lost device is not parked");
	ends_well(lost_in_park, "a device is lost while it is copied");
	ends_well(lost_in_release, "a device is lost while it is released");
	ends_well(lost_in_release_constant,
		  "a device is lost while weights of a file are released");
	each_without_memory();
	ends_well(lost_while_parked, "a device is lost while it is parked");
	ends_well(lost_in_unpark, "a device is lost while copies come back");
	ends_well(lost_in_reading, "a device is lost while files are read");
	ends_well(lost_after, "a device is lost when the weights are back");
	ends_well(released_once, "a release that fails is not repeated");
	unlink(path);
	return done_testing();
}
