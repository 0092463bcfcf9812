/* SPDX-License-Identifier: MIT */
/* Failures on demand: those that are armed, and when they strike. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"

static unsigned long struck; /* under fc.lock */

/* Unused while mode is 0. Under fc.lock. */
static struct arm {
	char fn[64];
	unsigned nth, seen;
	int mode;
	CUresult code;
} arms[FC_ARMS_MAX];

/*
 * Codes that end a context: every later call of it returns the same code,
 * until it is destroyed.
 */
bool fc_sticky(CUresult code)
{
	switch (code) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
		return true;
	default:
		return false;
	}
}

/* "*" matches any call that creates, uses or frees an object. */
static bool matches(const struct arm *arm, const struct fc_site *site)
{
	if (!arm->mode)
		return false;
	if (strcmp(arm->fn, "*"))
		return !strcmp(arm->fn, site->name);
	return site->need != FC_FREE;
}

static bool strikes(struct arm *arm)
{
	arm->seen++;
	return arm->mode == FAKECUDA_FROM_THEN_ON ? arm->seen >= arm->nth
						  : arm->seen == arm->nth;
}

/* Called for each call, under fc.lock. */
struct fc_fault fc_strike(const struct fc_site *site)
{
	struct fc_fault fault = { 0 };
	size_t i;

	for (i = 0; i < FC_ARMS_MAX; i++) {
		if (!matches(&arms[i], site) || !strikes(&arms[i]) ||
		    fault.mode)
			continue;
		fault.mode = arms[i].mode;
		fault.code = arms[i].code;
		struck++;
		if (fault.mode != FAKECUDA_FROM_THEN_ON)
			arms[i].mode = 0;
	}
	return fault;
}

static int arm_locked(const char *fn, unsigned nth, int mode, int code)
{
	size_t i;

	for (i = 0; i < FC_ARMS_MAX; i++) {
		struct arm *arm = &arms[i];

		if (arm->mode)
			continue;
		snprintf(arm->fn, sizeof(arm->fn), "%s", fn);
		arm->nth = nth ? nth : 1;
		arm->seen = 0;
		arm->code = (CUresult)code;
		arm->mode = mode;
		return 0;
	}
	return -1;
}

int fakecuda_arm(const char *fn, unsigned nth, int mode, int code)
{
	int ret;

	if (mode < FAKECUDA_ONCE || mode > FAKECUDA_STALL)
		return -1;
	pthread_mutex_lock(&fc.lock);
	ret = arm_locked(fn, nth, mode, code);
	if (mode == FAKECUDA_HANG || mode == FAKECUDA_STALL)
		fc.released = false;
	pthread_mutex_unlock(&fc.lock);
	return ret;
}

unsigned long fakecuda_struck(void)
{
	unsigned long n;

	pthread_mutex_lock(&fc.lock);
	n = struck;
	pthread_mutex_unlock(&fc.lock);
	return n;
}

void fakecuda_disarm(void)
{
	pthread_mutex_lock(&fc.lock);
	memset(arms, 0, sizeof(arms));
	pthread_mutex_unlock(&fc.lock);
}

void fakecuda_release(void)
{
	pthread_mutex_lock(&fc.lock);
	fc.released = true;
	pthread_cond_broadcast(&fc.moved);
	pthread_mutex_unlock(&fc.lock);
}

static int mode_of(const char *word)
{
	static const char *const words[] = { "once", "from", "sticky", "hang",
					     "late", "lost", "stall" };
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(word, words[i]))
			return FAKECUDA_ONCE + (int)i;
	}
	return 0;
}

/* "FN:NTH:MODE:CODE,..."; called without a lock, by the only thread. */
void fc_arms_read(const char *text)
{
	char fn[64], mode[16];
	unsigned nth;
	int code;

	while (sscanf(text, "%63[^:]:%u:%15[^:]:%d", fn, &nth, mode, &code) ==
	       4) {
		if (!mode_of(mode) ||
		    arm_locked(fn, nth, mode_of(mode), code) < 0)
			break;
		text += strcspn(text, ",");
		if (!*text++)
			return;
	}
	fprintf(stderr, "fakecuda: FAKECUDA_ARM not understood at '%s'\n",
		text);
	abort();
}
