/* SPDX-License-Identifier: MIT */
/* Parking of weights in memory of CUDA devices, which is virtual memory. */
#include <stdlib.h>
#include <unistd.h>

#include "gpu.h"
#include "sample.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define OUT_OF_MEMORY 2 /* a CUresult */
#define UNKNOWN 999     /* a CUresult */

static char path[] = "/var/tmp/weir-cuda-park-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", MIB, 4 },
	{ "b", "U8", 3 * MIB + 17, 1 },
	{ "c", "F32", 1001, 4 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static struct weir *weir;

static struct weir_weights *load(uint32_t flags)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;

	o.buf_flags = flags;
	if (weir_load_all(weir, path, gpu_memory(weir, WEIR_MEM_DEVICE), &o,
			  &w) < 0)
		bail("%s", weir_error());
	return w;
}

static uint64_t address(const struct weir_tensor *t)
{
	uint64_t ptr;

	if (weir_cuda_buf_ptr(t->buf, &ptr) < 0)
		bail("%s", weir_error());
	return ptr + t->offset;
}

static uint64_t device_bytes(void)
{
	struct fakecuda_counts c;

	fake.counts(&c);
	return c.device_bytes;
}

/*
 * A thread frees the memory and the addresses of weights: no call of that is to
 * meet a fault that a test arms next.
 */
static void free_weights(struct weir_weights *w)
{
	struct fakecuda_counts c;

	weir_weights_free(w);
	for (int i = 0; i < 20000; i++) {
		fake.counts(&c);
		if (!c.device_bytes && !c.live[FAKECUDA_ADDRESSES])
			return;
		usleep(1000);
	}
	bail("weights that were freed have memory");
}

static int state_of(struct weir_weights *w)
{
	struct weir_park_info info = { .size = sizeof(info) };

	if (weir_weights_park_info(w, &info) < 0)
		bail("%s", weir_error());
	return (int)info.state;
}

static void round_trip(const char *what, const struct weir_park_opts *o)
{
	struct weir_weights *w = load(WEIR_BUF_PARKABLE | WEIR_BUF_STRICT);
	uint64_t at = address(weir_weights_get(w, 1)), before = device_bytes();
	struct weir_event *event;
	char byte;

	if (weir_event_new(weir, 0, &event) < 0)
		bail("%s", weir_error());
	is_int(weir_weights_park(w, o), 0, "%s: weights are parked", what);
	ok(device_bytes() + 7 * MIB < before, "%s: device memory is released",
	   what);
	is_err(weir_tensor_get(weir_weights_get(w, 1), 0, &byte, 1), -ENODATA,
	       "is parked", "%s: a read is refused", what);
	is_int(weir_weights_unpark(w, event), 0, "%s: they come back", what);
	is_int(sample_wrong(w, 1), 0, "%s: blocking reads wait for the bytes",
	       what);
	is_int(weir_event_wait(event, -1), 0, "%s: the event is done", what);
	ok(address(weir_weights_get(w, 1)) == at, "%s: at the same addresses",
	   what);
	weir_event_free(event);
	free_weights(w);
}

static void ways(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;

	round_trip("page-locked memory", NULL);
	o.folder = "/var/tmp";
	round_trip("a file", &o);
	o.folder = NULL;
	o.flags = WEIR_PARK_CONSTANT;
	round_trip("the model's files", &o);
}

static void faults(void)
{
	struct weir_weights *w = load(WEIR_BUF_PARKABLE);

	fake.arm("cuMemUnmap", 1, FAKECUDA_ONCE, UNKNOWN);
	ok(weir_weights_park(w, NULL) < 0, "memory that cannot be unmapped is "
					   "not parked");
	fake.disarm();
	is_int(state_of(w), WEIR_PARK_RESIDENT, "the weights are as before");
	is_int(sample_wrong(w, 1), 0, "and whole");
	is_int(weir_weights_park(w, NULL), 0, "they can be parked later");
	/* The call is repeated if other memory is freed meanwhile. */
	fake.arm("cuMemCreate", 1, FAKECUDA_FROM_THEN_ON, OUT_OF_MEMORY);
	is_err(weir_weights_unpark(w, NULL), -ENOMEM, "parked addresses",
	       "without device memory they do not come back");
	fake.disarm();
	is_int(state_of(w), WEIR_PARK_PARKED, "and stay parked");
	fake.arm("cuMemcpyHtoDAsync", 1, FAKECUDA_ONCE, UNKNOWN);
	ok(weir_weights_unpark(w, NULL) < 0, "a copy that fails is reported");
	fake.disarm();
	is_int(state_of(w), WEIR_PARK_PARKED, "and the weights stay parked");
	is_int(weir_weights_unpark(w, NULL), 0, "they come back later");
	is_int(sample_wrong(w, 1), 0, "whole");
	free_weights(w);
}

static void plain(void)
{
	struct weir_weights *w = load(0);

	is_err(weir_weights_park(w, NULL), -EOPNOTSUPP, "WEIR_BUF_PARKABLE",
	       "other device memory cannot be parked");
	free_weights(w);
	w = load(WEIR_BUF_PARKABLE);
	is_int(weir_weights_park(w, NULL), 0, "weights are parked");
	free_weights(w);
}

int main(void)
{
	int fd = mkstemp(path);

	plan(3 * 7 + 10 + 2 + 2);
	open_fake();
	close(fd);
	sample_write(path, tensors, N, 0, 1);
	weir = open_cuda();
	ways();
	faults();
	plain();
	weir_close(weir);
	all_given_back("at the end");
	unlink(path);
	return done_testing();
}
