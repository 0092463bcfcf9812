/* SPDX-License-Identifier: MIT */
/* A signal ends the command even when it hangs. */
#include "../../tools/signals.h"

#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

static int tidied[2];

static void tidy(void)
{
	if (write(tidied[1], "t", 1) < 0)
		_exit(1);
}

/* Start a process that checks for no signal; it is running on return. */
static pid_t begin(void)
{
	int begun[2];
	pid_t pid;
	char c;

	if (pipe(begun) < 0 || pipe(tidied) < 0 || (pid = fork()) < 0)
		bail("no process");
	if (!pid) {
		alarm(0);
		/* Background jobs ignore SIGINT. */
		signal(SIGINT, SIG_DFL);
		signals_catch(tidy);
		if (write(begun[1], "b", 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(tidied[1]);
	if (read(begun[0], &c, 1) != 1)
		bail("no process");
	close(begun[0]);
	close(begun[1]);
	return pid;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) ==
		       0 &&
	       info.si_pid == pid;
}

/* Wait for @pid; the signal that ended it, or 0. */
static int end_of(pid_t pid)
{
	int status = 0;
	char c;

	waitpid(pid, &status, 0);
	ok(read(tidied[0], &c, 1) == 1,
	   "a process that a signal ends has tidied up");
	close(tidied[0]);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int main(void)
{
	int64_t begun;
	pid_t pid;

	plan(6);
	pid = begin();
	begun = now_ns();
	kill(pid, SIGTERM);
	is_int(end_of(pid), SIGTERM, "SIGTERM ends a process that hangs");
	begun = now_ns() - begun;
	ok(begun > 3000000000 && begun < 40000000000,
	   "a process has a few seconds to end by itself after SIGTERM");
	pid = begin();
	begun = now_ns();
	kill(pid, SIGTERM);
	kill(pid, SIGTERM);
	usleep(50000);
	kill(pid, SIGINT);
	usleep(100000);
	if (now_ns() - begun < 250000000)
		is_int(waitpid(pid, NULL, WNOHANG), 0,
		       "signals that come at once are one");
	else
		skip(1, "the machine is busy");
	/* Again and again: it may have had no CPU since the first signal. */
	for (int i = 0; i < 100 && !has_ended(pid); i++) {
		usleep(400000);
		kill(pid, SIGINT);
	}
	is_int(end_of(pid), SIGINT, "a second signal ends a process at once");
	return done_testing();
}
