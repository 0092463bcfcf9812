/* SPDX-License-Identifier: MIT */
/* On which CPUs the threads of the library run. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

static char path[] = "/var/tmp/weir-affinity-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", 3000000, 4 },
	{ "b", "U8", 77777, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static cpu_set_t all, one; /* CPUs that the process may use; the first of
			      them */
static unsigned first;
static pthread_t main_thread;
static _Atomic bool unknown; /* sched_getaffinity(2) is refused */
/* Threads that went to @all, and how many of them would handle signals. */
static _Atomic unsigned spread, open_to_signals;

/* In place of the C library's. */
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	sigset_t blocked;

	if (!pthread_equal(pthread_self(), main_thread) &&
	    CPU_EQUAL(set, &all)) {
		spread++;
		pthread_sigmask(SIG_BLOCK, NULL, &blocked);
		open_to_signals += !sigismember(&blocked, SIGTERM);
	}
	return (int)syscall(SYS_sched_setaffinity, pid, size, set);
}

/*
 * The threads of this process whose names begin with @name, and how many of
 * them may not run on exactly @want. With none of this name: -1.
 */
static int elsewhere(const char *name, const cpu_set_t *want)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned seen = 0, wrong = 0;
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		char file[300], text[32] = "";
		cpu_set_t has;
		FILE *f;

		snprintf(file, sizeof(file), "/proc/self/task/%.20s/comm",
			 d->d_name);
		f = fopen(file, "r");
		if (!f)
			continue;
		(void)!fgets(text, sizeof(text), f);
		fclose(f);
		if (strncmp(text, name, strlen(name)) ||
		    sched_getaffinity(atoi(d->d_name), sizeof(has), &has) < 0)
			continue;
		seen++;
		wrong += !CPU_EQUAL(&has, want);
	}
	closedir(dir);
	return seen ? (int)wrong : -1;
}

/* In place of the C library's. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (unknown) {
		errno = EPERM;
		return -1;
	}
	memset(set, 0, size);
	return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
}

static struct weir *open_root(const char *io_cpus, uint32_t io)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	o.io = io;
	o.io_cpus = io_cpus;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	return root;
}

static void load(struct weir *root, uint32_t way)
{
	if (sample_load_way(root, path, way, 3, -1))
		bail("%s", weir_error());
}

/* Start the thread of the CPU's queue. */
static struct weir_stream *compute(struct weir *root)
{
	const int64_t bytes = 4096;
	struct weir_buft *plain;
	struct weir_stream *s;
	struct weir_tensor t;
	struct weir_buf *buf;

	if (weir_stream_new(weir_dev_get(root, 0), NULL, &s) < 0 ||
	    weir_dev_buft(weir_dev_get(root, 0), WEIR_MEM_PLAIN, &plain) < 0 ||
	    weir_buf_alloc(plain, (size_t)bytes, NULL, &buf) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &bytes) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0 ||
	    weir_stream_fill(s, &t, 0, (size_t)bytes, 7) < 0 ||
	    weir_stream_sync(s, -1) < 0)
		bail("%s", weir_error());
	weir_buf_free(buf);
	return s;
}

static void pinned(void)
{
	struct weir *root;
	struct weir_stream *s;
	cpu_set_t now;

	sched_setaffinity(0, sizeof(one), &one);
	root = open_root(NULL, WEIR_IO_SYNC);
	load(root, WEIR_WAY_DIRECT);
	load(root, WEIR_WAY_BUFFERED);
	s = compute(root);
	is_int(elsewhere("weir-io", &all), 0,
	       "a reactor runs on all CPUs of the process, whoever starts it");
	is_int(elsewhere("weir-rd", &all), 0,
	       "readers run on all CPUs of the process, whoever starts them");
	is_int(elsewhere("weir-cp", &all), 0,
	       "copiers run on all CPUs of the process, whoever starts them");
	is_int(elsewhere("weir/", &all), 0,
	       "a thread of the CPU device runs on all CPUs, whoever starts it");
	sched_getaffinity(0, sizeof(now), &now);
	ok(CPU_EQUAL(&now, &one),
	   "the calling thread stays where the program has pinned it");
	weir_stream_free(s);
	weir_close(root);
	sched_setaffinity(0, sizeof(all), &all);
}

/* The greedy planner does not reach the bound of these items. */
static void searching(void)
{
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_lifetime items[12] = { { 0 } };
	struct weir_placement *p;

	for (int i = 0; i < 12; i++) {
		items[i].lower = i % 5;
		items[i].upper = i % 5 + 2 + i % 3;
		items[i].bytes = 10 + 7 * (uint64_t)i;
	}
	o.time_ns = -1;
	o.threads = 4;
	sched_setaffinity(0, sizeof(one), &one);
	spread = open_to_signals = 0;
	if (weir_placement_new(items, 12, &o, &p) < 0)
		bail("%s", weir_error());
	is_int(spread, 3,
	       "threads that search a placement run on all CPUs of the process");
	is_int(open_to_signals, 0,
	       "threads that search a placement handle no signals");
	weir_placement_free(p);
	sched_setaffinity(0, sizeof(all), &all);
}

static void chosen(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root;
	char list[16];

	snprintf(list, sizeof(list), "%u", first);
	root = open_root(list, WEIR_IO_SYNC);
	load(root, WEIR_WAY_DIRECT);
	load(root, WEIR_WAY_BUFFERED);
	weir_io_info(root, &info);
	is_int(info.copiers, 1,
	       "there are as many copiers as io_cpus has CPUs");
	is_int(elsewhere("weir-io", &one), 0, "a reactor runs on io_cpus");
	is_int(elsewhere("weir-rd", &one), 0, "readers run on io_cpus");
	is_int(elsewhere("weir-cp", &one), 0, "copiers run on io_cpus");
	weir_close(root);
	root = open_root(list, WEIR_IO_AUTO);
	load(root, WEIR_WAY_DIRECT);
	is_int(elsewhere("weir-io", &one), 0,
	       "a reactor with a ring runs on io_cpus");
	weir_close(root);
}

static void refused(const char *list, const char *part)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	o.io_cpus = list;
	is_err(weir_open(&o, &root), -EINVAL, part, "io_cpus '%s' is refused",
	       list);
}

/* Children of fork(2) may be confined by their program, without exec(3). */
static void forked(void)
{
	struct weir *root;
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		sched_setaffinity(0, sizeof(one), &one);
		root = open_root(NULL, WEIR_IO_SYNC);
		load(root, WEIR_WAY_DIRECT);
		_exit(elsewhere("weir-io", &one));
	}
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "in a child of fork the process may use what its first root's opener may");
}

/* A filter of system calls, or more CPUs than a set has. */
static void not_known(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		struct weir *root;
		char list[16];

		snprintf(list, sizeof(list), "%u", first);
		unknown = true;
		root = open_root(NULL, WEIR_IO_SYNC);
		load(root, WEIR_WAY_DIRECT);
		load(root, WEIR_WAY_BUFFERED);
		unknown = false;
		status = elsewhere("weir-io", &all) ||
			 elsewhere("weir-cp", &all);
		unknown = true;
		weir_close(root);
		root = open_root(list, WEIR_IO_SYNC);
		load(root, WEIR_WAY_DIRECT);
		unknown = false;
		_exit(status || elsewhere("weir-io", &one));
	}
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "if the affinity of the process cannot be read, threads run on io_cpus or stay on the CPUs of their creator");
}

int main(void)
{
	int fd = mkstemp(path);

	main_thread = pthread_self();
	plan(21);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	if (sched_getaffinity(0, sizeof(all), &all) < 0 || CPU_COUNT(&all) < 2)
		skip_all("the process may use one CPU only");
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_SET(first, &one);
	sample_write(path, tensors, N, 16, 3);
	forked();
	not_known();
	pinned();
	searching();
	chosen();
	refused("", "io_cpus is '', not a list of CPUs such as 0-3,8");
	refused("0-", "not a list");
	refused("3-1", "not a list");
	refused("0;1", "not a list");
	refused("0,", "not a list");
	refused("4095", "the process may use CPUs ");
	refused("4096", "not a list");
	unlink(path);
	return done_testing();
}
