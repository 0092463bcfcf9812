/* SPDX-License-Identifier: MIT */
/*
 * The context of a device, and what results of the driver mean for it: a failed
 * call, failed work, or a lost device.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "cuda/cuda.h"

#define drv weir__cuda_drv
#define MAX_REFUSED 16u

void weir__cuda_lose(struct weir__cuda *c, CUresult result)
{
	char words[160];
	int none = 0;

	if (!atomic_compare_exchange_strong(&c->lost, &none, (int)result))
		return;
	/* At exit that is expected. */
	if (weir__cuda_ended(c))
		return;
	weir__cuda_describe_result((int32_t)result, words, sizeof(words));
	c->host->log(c->host->dev_root(c->dev), "%s is lost: %s",
		     c->host->dev_name(c->dev), words);
}

bool weir__cuda_ended(struct weir__cuda *c)
{
	return atomic_load(&c->lost) == CUDA_ERROR_DEINITIALIZED;
}

void weir__cuda_note(struct weir__cuda *c, CUresult result)
{
	if (weir__cuda_is_fatal(result) || result == CUDA_ERROR_DEINITIALIZED)
		weir__cuda_lose(c, result);
	else if (result == CUDA_ERROR_UNKNOWN)
		atomic_fetch_add(&c->unknown_errors, 1);
}

bool weir__cuda_unknown_error_since(struct weir__cuda *c, unsigned before)
{
	return atomic_load(&c->unknown_errors) != before;
}

int weir__cuda_result(struct weir__cuda *c, CUresult result)
{
	if (!result || (int)result != atomic_load(&c->lost))
		return weir__cuda_errno(result);
	return weir__cuda_ended(c) ? -ESHUTDOWN : -ENODEV;
}

int weir__cuda_fail(struct weir__cuda *c, CUresult result, const char *what,
		    ...)
{
	char text[200], words[160];
	va_list ap;

	va_start(ap, what);
	vsnprintf(text, sizeof(text), what, ap);
	va_end(ap);
	weir__cuda_note(c, result);
	weir__cuda_describe_result((int32_t)result, words, sizeof(words));
	return c->host->fail(weir__cuda_result(c, result), "%s: %s: %s",
			     c->host->dev_name(c->dev), text, words);
}

/*
 * A context that is no longer valid was reset by other code of the program. One
 * that is refused MAX_REFUSED times in a row is treated as lost too, since
 * threads that wait for its work would never return.
 */
static CUresult context_refused(struct weir__cuda *c, CUresult r)
{
	weir__cuda_note(c, r);
	if (r == CUDA_ERROR_INVALID_CONTEXT ||
	    atomic_fetch_add(&c->refused, 1) + 1 >= MAX_REFUSED)
		weir__cuda_lose(c, r);
	return r;
}

/* State of this thread between its first weir__cuda_relax and last restore. */
static _Thread_local struct {
	unsigned depth;
	bool exchanged;
	CUstreamCaptureMode mode; /* the thread's own */
} relaxed;

void weir__cuda_relax(void)
{
	if (relaxed.depth++ || !drv.cuThreadExchangeStreamCaptureMode)
		return;
	relaxed.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	relaxed.exchanged =
		!drv.cuThreadExchangeStreamCaptureMode(&relaxed.mode);
}

void weir__cuda_restore(void)
{
	if (--relaxed.depth || !relaxed.exchanged)
		return;
	relaxed.exchanged = false;
	drv.cuThreadExchangeStreamCaptureMode(&relaxed.mode);
}

static CUresult context_push_once(struct weir__cuda *c)
{
	CUresult r = (CUresult)atomic_load(&c->lost);

	if (r)
		return r;
	weir__cuda_relax();
	r = drv.cuCtxPushCurrent(c->context);
	if (r) {
		weir__cuda_restore();
		return context_refused(c, r);
	}
	if (atomic_load_explicit(&c->refused, memory_order_relaxed))
		atomic_store(&c->refused, 0);
	return r;
}

CUresult weir__cuda_push(struct weir__cuda *c)
{
	CUresult r = context_push_once(c);

	/* Retry: otherwise one failure would leak what is being freed. */
	return r ? context_push_once(c) : r;
}

int weir__cuda_enter(struct weir__cuda *c)
{
	CUresult r = weir__cuda_push(c);
	char words[160];

	if (!r)
		return 0;
	if (!atomic_load(&c->lost))
		return weir__cuda_fail(c, r, "cuCtxPushCurrent");
	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	return c->host->fail(weir__cuda_ended(c) ? -ESHUTDOWN : -ENODEV,
			     "%s is lost: %s", c->host->dev_name(c->dev),
			     words);
}

void weir__cuda_leave(void)
{
	CUcontext was = NULL;

	/* A context that stays pushed would be the caller's current one. */
	if (drv.cuCtxPopCurrent(&was) && !was)
		drv.cuCtxPopCurrent(&was);
	weir__cuda_restore();
}
