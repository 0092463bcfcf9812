/* SPDX-License-Identifier: MIT */
/*
 * A ring that stops working while its reactor uses it, since a seccomp filter
 * is set: the engine goes on with threads. In a child, since the filter stays.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

enum {
	FINE,
	NO_RING,
	NO_FILTER,
	WRONG,
	FAILED,
	SILENT
};

static char path[] = "/var/tmp/weir-ring-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", 4000000, 4 },
	{ "b", "U8", 77777, 1 },
	{ "c", "F64", 3000000, 8 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

/* From now on no thread of this process enters a ring. */
static int forbid(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { 4, code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		       SECCOMP_FILTER_FLAG_TSYNC, &prog)
		       ? -1
		       : 0;
}

static int load(struct weir *root, unsigned *ret_io)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_buft *huge;
	struct weir_dev *cpu;
	struct weir_plan *p;
	struct weir_load *l;
	int r;

	put.way = WEIR_WAY_DIRECT;
	if (weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_model_open(root, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 ||
	    weir_plan_add(p, NULL, huge, &put) < 0 ||
	    weir_load_start(p, NULL, &l) < 0 || weir_load_weights(l, &w) < 0)
		return FAILED;
	r = weir_load_wait(l, 20000000000) < 0 ? FAILED
	    : sample_wrong(w, 3)               ? WRONG
					       : FINE;
	weir_load_report(l, &rep);
	*ret_io = rep.io;
	weir_load_free(l);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
	return r;
}

static int child(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root;
	unsigned io;
	int r;

	o.reactors = 2;
	o.chunk = 1u << 20;
	if (weir_open(&o, &root) < 0 || weir_io_info(root, &info) < 0)
		return FAILED;
	if (info.method != WEIR_IO_URING)
		return NO_RING;
	r = load(root, &io);
	if (!r && forbid() < 0)
		return NO_FILTER;
	for (int i = 0; i < 3 && !r; i++)
		r = load(root, &io);
	weir_io_info(root, &info);
	if (!r && (io != WEIR_IO_SYNC || !*info.why))
		r = SILENT;
	weir_close(root);
	return r;
}

int main(void)
{
	int fd = mkstemp(path), status = -1;
	pid_t pid;

	plan(1);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, N, 16, 3);
	pid = fork();
	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	unlink(path);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_RING)
		skip(1, "no ring here");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER)
		skip(1, "no seccomp filter can be set");
	else
		is_int(status, 0,
		       "when the ring fails, loads go on with threads, and weir_io_info says so");
	return done_testing();
}
