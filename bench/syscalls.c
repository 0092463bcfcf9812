/* SPDX-License-Identifier: MIT */
/*
 * Counts the system calls of a replay, in a child that is traced by ptrace(2).
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "users.h"

#define MARK SYS_getppid /* begins and ends what is counted */

static __attribute__((noreturn)) void
child_main(const struct allocator *a, const struct calls *c, unsigned runs)
{
	struct user *u;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(1);
	raise(SIGSTOP);
	u = a->open(a, c, 1);
	a->replay(u, c, 0);
	syscall(MARK);
	for (unsigned i = 0; i < runs; i++)
		a->replay(u, c, 0);
	syscall(MARK);
	_exit(0);
}

/*
 * True if the stopped child is at the beginning of a call; *ret_nr gets its
 * number.
 */
static bool at_entry(pid_t child, uint64_t *ret_nr)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	*ret_nr = info.entry.nr;
	return true;
}

/* Between the marks; < 0: the child ended without them. */
static long count(pid_t child)
{
	unsigned marks = 0;
	uint64_t nr;
	long n = 0;
	int status;

	if (ptrace(PTRACE_SETOPTIONS, child, NULL,
		   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0)
		return -1;
	while (ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0 &&
	       waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		if (!at_entry(child, &nr))
			continue;
		if (nr == MARK)
			marks++;
		else
			n += marks == 1;
	}
	return marks == 2 ? n : -1;
}

long users_system_calls(const struct allocator *a, const struct calls *c,
			unsigned runs)
{
	pid_t child = fork();
	int status;
	long n = -1;

	if (child < 0)
		return -1;
	if (child == 0)
		child_main(a, c, runs);
	if (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
		n = count(child);
	return n;
}
