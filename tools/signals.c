/* SPDX-License-Identifier: MIT */
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* After the first signal the process ends within this, seconds. */
#define PATIENCE 5u

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
enum {
	SIGNALS = sizeof(signals) / sizeof(signals[0])
};

static volatile sig_atomic_t caught;
static void (*volatile tidy_up)(void);
static struct sigaction before[SIGNALS];

/* In a handler. If @sig is blocked there, it ends us when that returns. */
static void end(int sig)
{
	if (tidy_up)
		tidy_up();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void on_signal(int sig)
{
	if (__atomic_exchange_n(&caught, sig, __ATOMIC_SEQ_CST))
		end(sig);
	else
		alarm(PATIENCE);
}

static void on_alarm(int sig)
{
	(void)sig;
	end(caught);
}

void signals_hold(void (*tidy)(void))
{
	struct sigaction sa = { .sa_handler = on_signal };

	tidy_up = tidy;
	sigemptyset(&sa.sa_mask);
	sa.sa_flags = SA_RESTART;
	signal(SIGALRM, on_alarm);
	for (size_t i = 0; i < SIGNALS; i++) {
		sigaction(signals[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
}

bool signals_caught(void)
{
	return caught != 0;
}

void signals_release(void)
{
	for (size_t i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
	tidy_up = NULL;
	if (!caught)
		return;
	signal(caught, SIG_DFL);
	raise(caught);
}
