/* SPDX-License-Identifier: MIT */
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

/* Seconds after the first signal until SIGALRM ends the process. */
#define PATIENCE 5u

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
enum {
	SIGNALS = sizeof(signals) / sizeof(signals[0])
};

/*
 * A signal so soon after the first is the same request: Ctrl-C in a terminal
 * reaches all processes, and a parent that it ends may pass it on.
 */
#define SAME_NS INT64_C(300000000)

static volatile sig_atomic_t caught, at_once;
static int64_t caught_at; /* CLOCK_MONOTONIC; 0: none was caught */
static void (*volatile tidy_up)(void);
static struct sigaction before[SIGNALS];

/*
 * Called in a handler. If @sig is blocked there, it ends the process when the
 * handler returns.
 */
static void end_process(int sig)
{
	if (tidy_up)
		tidy_up();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void on_signal(int sig)
{
	struct timespec ts;
	int64_t now, first = 0;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
	if (at_once) {
		caught = sig;
		end_process(sig);
	} else if (__atomic_compare_exchange_n(&caught_at, &first, now, false,
					       __ATOMIC_SEQ_CST,
					       __ATOMIC_SEQ_CST)) {
		caught = sig;
		alarm(PATIENCE);
	} else if (now - first > SAME_NS) {
		end_process(sig);
	}
}

static void on_alarm(int sig)
{
	(void)sig;
	end_process(caught);
}

void signals_catch(void (*tidy)(void))
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

void signals_end(void (*tidy)(void))
{
	at_once = 1;
	signals_catch(tidy);
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
	at_once = 0;
	if (!caught)
		return;
	/*
	 * A parent that reads these learns that all is removed. The process
	 * ends when the blocks of removed files are free, which takes longer.
	 */
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	signal(caught, SIG_DFL);
	raise(caught);
}
