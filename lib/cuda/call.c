/* SPDX-License-Identifier: MIT */
/*
 * Host functions on native streams: the driver calls them, in order with the
 * work that the program queues there. On a lost device the driver may never
 * call, or call after the work has ended: so flight and driver each have a
 * reference.
 */
#include "cuda/queue.h"

#include <errno.h>

#define drv weir__cuda_drv

struct weir__cuda_call {
	_Atomic unsigned refs; /* the flight's, the driver's */
	int (*fn)(void *arg);
	void *arg;
	_Atomic int res;
};

static void call_put(struct weir__cuda_call *call)
{
	if (atomic_fetch_sub(&call->refs, 1) == 1)
		weir__cuda_host.free(call);
}

static void CUDA_CB call_run(void *arg)
{
	struct weir__cuda_call *call = arg;

	atomic_store(&call->res, call->fn(call->arg));
	call_put(call);
}

CUresult weir__cuda_call_launch(struct weir__cuda_queue *q,
				const struct weir_backend_work *w,
				struct weir__cuda_call **ret_call)
{
	struct weir__cuda_call *call = weir__cuda_host.calloc(1, sizeof(*call));
	CUresult r;

	if (!call)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_init(&call->refs, 2);
	call->fn = w->call;
	call->arg = w->arg;
	r = drv.cuLaunchHostFunc(q->stream, call_run, call);
	if (r)
		weir__cuda_host.free(call);
	else
		*ret_call = call;
	return r;
}

int weir__cuda_call_end(struct weir__cuda_call *call)
{
	int res = atomic_load(&call->res);

	call_put(call);
	return res < 0 ? res : 0;
}
