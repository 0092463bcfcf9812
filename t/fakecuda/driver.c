/* SPDX-License-Identifier: MIT */
/*
 * Every call begins and ends here: it is checked, counted, and made to fail if
 * a fault is armed. Also the driver as a whole: start, version, end.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fakecuda.h"

struct fc_state fc = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Runs when the library is opened; tests set variables before that. */
static void __attribute__((constructor)) start(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fc.moved, &attr);
	pthread_condattr_destroy(&attr);
	fc_options_read();
}

void fc_note(struct fc_call *call, const char *fmt, ...)
{
	va_list args;

	if (!fc_logging())
		return;
	va_start(args, fmt);
	vsnprintf(call->note, sizeof(call->note), fmt, args);
	va_end(args);
}

/*
 * Count a mistake of the caller. A correct program makes none: tests compare
 * the count with 0.
 */
CUresult fc_wrong(struct fc_call *call, CUresult result, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(call->note, sizeof(call->note), fmt, args);
	va_end(args);
	fc.count.misuse++;
	snprintf(fc.misuse, sizeof(fc.misuse), "%s: %s", call->site->name,
		 call->note);
	return result;
}

static CUresult admit_context(struct fc_call *call)
{
	call->ctx = fc_current();
	if (!call->ctx)
		return fc_wrong(call, CUDA_ERROR_INVALID_CONTEXT,
				"no context is current");
	if (!call->ctx->handle.live)
		return fc_wrong(call, CUDA_ERROR_CONTEXT_IS_DESTROYED,
				"the current context is destroyed");
	return fc_context_error(call->ctx);
}

/* A fault strikes the call itself if it queues nothing. */
static CUresult strike_call(struct fc_call *call)
{
	struct CUctx_st *ctx = fc_current();

	switch (call->fault.mode) {
	case FAKECUDA_HANG:
		while (!fc.released)
			pthread_cond_wait(&fc.moved, &fc.lock);
		break;
	case FAKECUDA_LATE:
		if (ctx && fc_sticky(call->fault.code))
			fc_context_fail(ctx, call->fault.code);
		else if (ctx)
			ctx->late = call->fault.code;
		break;
	case FAKECUDA_LOST:
		if (ctx)
			fc_device_lose(ctx->device, call->fault.code);
		return call->fault.code;
	}
	return CUDA_SUCCESS;
}

static CUresult strike(struct fc_call *call)
{
	call->fault = fc_strike(call->site);
	switch (call->fault.mode) {
	case 0:
		return CUDA_SUCCESS;
	case FAKECUDA_STALL:
		while (!fc.released)
			pthread_cond_wait(&fc.moved, &fc.lock);
		call->fault.mode = 0;
		return CUDA_SUCCESS;
	case FAKECUDA_STICKY:
		if (fc_current())
			fc_context_fail(fc_current(), call->fault.code);
		return call->fault.code;
	case FAKECUDA_ONCE:
	case FAKECUDA_FROM_THEN_ON:
		if (call->site->need & FC_DONE)
			return CUDA_SUCCESS; /* the call returns it */
		return call->fault.code;
	}
	return call->site->need & FC_QUEUE ? CUDA_SUCCESS : strike_call(call);
}

static CUresult admit(struct fc_call *call)
{
	unsigned need = call->site->need;
	CUresult result = CUDA_SUCCESS;

	if (need == FC_FREE)
		return CUDA_SUCCESS;
	if (fc.gone)
		return CUDA_ERROR_DEINITIALIZED;
	if (!fc.inited && !(need & FC_BARE))
		return fc_wrong(call, CUDA_ERROR_NOT_INITIALIZED,
				"before cuInit");
	if (fc_host_fn)
		return fc_wrong(call, CUDA_ERROR_NOT_PERMITTED,
				"called by a host function");
	if (need & FC_CTX)
		result = admit_context(call);
	if (result == CUDA_SUCCESS && need & FC_UNSAFE)
		result = fc_capture_admit();
	return result != CUDA_SUCCESS ? result : strike(call);
}

/* Take the time of FAKECUDA_CALL, without the lock. */
static void spend(void)
{
	uint64_t until = fc_now() + (uint64_t)(fc.opt.call * 1e3);

	pthread_mutex_unlock(&fc.lock);
	fc_sleep_until(until);
	pthread_mutex_lock(&fc.lock);
}

/* On success fc.lock is held until fc_leave. */
CUresult fc_enter(struct fc_call *call, struct fc_site *site)
{
	CUresult result;

	/* Like a real driver, unusable in a child of fork. */
	if (fc.pid && fc.pid != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	memset(call, 0, sizeof(*call));
	call->site = site;
	pthread_mutex_lock(&fc.lock);
	if (!site->linked) {
		site->linked = true;
		site->next = fc.sites;
		fc.sites = site;
	}
	site->calls++;
	if (fc.opt.call > 0)
		spend();
	result = admit(call);
	return result == CUDA_SUCCESS ? result : fc_leave(call, result);
}

CUresult fc_leave(struct fc_call *call, CUresult result)
{
	fc_log("%s %s= %d", call->site->name, call->note, (int)result);
	pthread_mutex_unlock(&fc.lock);
	return result;
}

/* Under fc.lock: with STRICT a program that made a mistake fails. */
static void judge(void)
{
	const struct fakecuda_counts *c = &fc.count;

	if (!fc.opt.strict || !(c->misuse + c->reused + c->findings))
		return;
	fflush(NULL);
	fprintf(stderr,
		"fakecuda: misuse %lu %s, reused %lu, findings %lu %s\n",
		c->misuse, fc.misuse, c->reused, c->findings, fc.finding);
	_exit(99);
}

/* Runs before the program's handlers and destructors, as a driver's does. */
static void at_exit(void)
{
	if (fc.pid != getpid())
		return;
	pthread_mutex_lock(&fc.lock);
	fc_report();
	judge();
	fc.gone = true;
	pthread_mutex_unlock(&fc.lock);
}

static CUresult init(struct fc_call *call, unsigned flags)
{
	if (flags)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "flags %#x",
				flags);
	if (!fc.opt.devices)
		return CUDA_ERROR_NO_DEVICE;
	if (fc.inited)
		return CUDA_SUCCESS;
	if (fc_devices_start() < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atexit(at_exit);
	fc.pid = getpid();
	fc.inited = true;
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	FC_ENTER("cuInit", FC_BARE);
	return fc_leave(&call, init(&call, flags));
}

CUresult cuDriverGetVersion(int *ret)
{
	FC_ENTER("cuDriverGetVersion", FC_BARE);
	if (!ret)
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	*ret = (int)fc.opt.version;
	return fc_leave(&call, CUDA_SUCCESS);
}
