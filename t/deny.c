/* SPDX-License-Identifier: MIT */
/*
 * deny CALL[,CALL...] ERRNO CMD...: run a command whose system calls CALL, by
 * number or by name, fail with ERRNO. Status 99: no such filter can be
 * installed here.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_CALLS 64
#define CANNOT 99

static const struct {
	const char *name;
	long nr;
} calls[] = {
	{ "io_uring_setup", SYS_io_uring_setup },
	{ "io_uring_enter", SYS_io_uring_enter },
	{ "io_uring_register", SYS_io_uring_register },
	{ "cachestat", 451 },
	{ "preadv2", SYS_preadv2 },
	{ "statx", SYS_statx },
	{ "mlock", SYS_mlock },
	{ "mlock2", SYS_mlock2 },
	{ "madvise", SYS_madvise },
	{ "mbind", SYS_mbind },
	{ "eventfd2", SYS_eventfd2 },
	{ "sysinfo", SYS_sysinfo },
};

static const struct {
	const char *name;
	int err;
} errors[] = {
	{ "EPERM", EPERM },   { "ENOSYS", ENOSYS },
	{ "EINVAL", EINVAL }, { "ENOMEM", ENOMEM },
	{ "EAGAIN", EAGAIN }, { "EOPNOTSUPP", EOPNOTSUPP },
	{ "EMFILE", EMFILE },
};

static long number(const char *s)
{
	char *end;
	long n = strtol(s, &end, 10);

	return *s && !*end && n >= 0 ? n : -1;
}

static long call_number(const char *s)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].name, s))
			return calls[i].nr;
	return number(s);
}

static long error_number(const char *s)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (!strcmp(errors[i].name, s))
			return errors[i].err;
	return number(s);
}

static int install(const long *nr, unsigned short n, unsigned err)
{
	struct sock_filter code[MAX_CALLS + 3];
	struct sock_fprog prog = { .filter = code };
	unsigned short at = 0;

	code[at++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned short i = 0; i < n; i++, at++)
		code[at] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr[i],
			(unsigned char)(n - i), 0);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						  SECCOMP_RET_ALLOW);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						  SECCOMP_RET_ERRNO | err);
	prog.len = at;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static unsigned short parse(char *list, long *ret_nr)
{
	unsigned short n = 0;
	char *save, *word = strtok_r(list, ",", &save);

	for (; word && n < MAX_CALLS; word = strtok_r(NULL, ",", &save)) {
		ret_nr[n] = call_number(word);
		if (ret_nr[n++] < 0) {
			fprintf(stderr, "deny: no system call '%s'\n", word);
			exit(CANNOT);
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	long nr[MAX_CALLS], err = argc > 3 ? error_number(argv[2]) : -1;
	unsigned short n;

	if (err <= 0) {
		fputs("usage: deny CALL[,CALL...] ERRNO CMD...\n", stderr);
		return CANNOT;
	}
	n = parse(argv[1], nr);
	if (install(nr, n, (unsigned)err) < 0) {
		perror("deny: seccomp");
		return CANNOT;
	}
	execvp(argv[3], argv + 3);
	perror(argv[3]);
	return 127;
}
