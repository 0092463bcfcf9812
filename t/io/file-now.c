/* SPDX-License-Identifier: MIT */
/*
 * Files as they are when a call is made: leased by another process, grown or
 * truncated since they were opened, or cut off within a load. A process that
 * gets signals all the time.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "core/clock.h"
#include "files.h"
#include "sample.h"
#include "tap.h"

#define MS INT64_C(1000000)
#define EACH 1000000u /* bytes of a tensor */
#define COUNT 4u

static struct weir *root;
static struct weir_buft *mapped, *plain;

static struct weir_buft *memory_of(uint32_t kind)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	if (weir_dev_find(root, "CPU", &dev) < 0 ||
	    weir_dev_buft(dev, kind, &buft) < 0)
		bail("%s", weir_error());
	return buft;
}

static int fd_of(const char *name)
{
	int fd = open(files_path(name), O_RDWR | O_CREAT, 0600);

	if (fd < 0)
		bail("%s: %s", name, strerror(errno));
	return fd;
}

/*
 * Holds a lease of @type on the file, and gives it back when it is asked for.
 */
static pid_t lease(const char *name, int type, int *ready)
{
	pid_t pid = fork();
	sigset_t set;
	int sig, fd;
	char c = 'y';

	if (pid)
		return pid;
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = open(files_path(name), O_RDONLY);
	if (fcntl(fd, F_SETLEASE, type) < 0)
		c = 'n';
	if (write(ready[1], &c, 1) != 1 || c == 'n')
		_exit(1);
	alarm(120);
	sigwait(&set, &sig);
	usleep(50000);
	fcntl(fd, F_SETLEASE, F_UNLCK);
	_exit(0);
}

static void leased(int type, uint32_t flags, const char *what)
{
	struct weir_file_opts opts = WEIR_FILE_OPTS_INIT;
	struct weir_file *file = NULL;
	int ready[2];
	char c = 0;
	pid_t pid;

	opts.flags = flags;
	if (pipe(ready) < 0)
		bail("pipe");
	pid = lease("leased", type, ready);
	if (read(ready[0], &c, 1) == 1 && c == 'y') {
		is_int(weir_file_open(root, files_path("leased"), &opts, &file),
		       0, "%s waits until the lease is given back", what);
		if (file)
			weir_file_close(file);
	} else {
		skip(1, "this file cannot be leased");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
}

static void changed_size(void)
{
	struct weir_file_opts opts = WEIR_FILE_OPTS_INIT;
	struct weir_file *file;
	struct weir_buf *buf;
	int fd = fd_of("sized");

	opts.flags = WEIR_FILE_WRITE;
	if (weir_file_open(root, files_path("sized"), &opts, &file) < 0 ||
	    ftruncate(fd, 8192) < 0)
		bail("%s", weir_error());
	is_int(weir_buf_map(mapped, file, 4096, 4096, &buf), 0,
	       "bytes that a file got after it was opened can be mapped");
	weir_buf_free(buf);
	if (ftruncate(fd, 4096) < 0)
		bail("ftruncate");
	is_err(weir_buf_map(mapped, file, 0, 8192, &buf), -EINVAL,
	       "which has 4096",
	       "bytes that a file has lost since it was opened are refused");
	is_err(weir_buf_map(memory_of(WEIR_MEM_HUGE), file, 0, 4096, &buf),
	       -EINVAL, "neither of kind WEIR_MEM_MAPPED nor WEIR_MEM_PLAIN",
	       "memory of another kind maps no file");
	weir_file_close(file);
	close(fd);
}

static uint32_t is_changed(struct weir_file *file)
{
	struct weir_file_info info = { .size = sizeof(info) };

	if (weir_file_info(file, &info) < 0)
		bail("%s", weir_error());
	return info.changed;
}

/* What weir_file_info() says of a file that is written to, and cut off. */
static void changed_info(void)
{
	static const struct timespec long_ago[2] = { { 1, 0 }, { 1, 0 } };
	struct weir_file *file;
	int fd = fd_of("watched");

	if (ftruncate(fd, 4096) < 0 || futimens(fd, long_ago) < 0 ||
	    weir_file_open(root, files_path("watched"), NULL, &file) < 0)
		bail("%s", weir_error());
	is_int(is_changed(file), 0, "a file that was opened has not changed");
	if (pwrite(fd, "x", 1, 0) != 1)
		bail("pwrite");
	is_int(is_changed(file), 1, "a file that was written to has changed");
	if (ftruncate(fd, 1) < 0 || futimens(fd, long_ago) < 0)
		bail("ftruncate");
	is_int(is_changed(file), 1, "so has one that was cut off");
	weir_file_close(file);
	close(fd);
}

/* A private mapping of a file is memory that can be written to. */
static void private_map(void)
{
	struct weir_file *file;
	struct weir_buf *buf;
	char *data, got[8] = "";
	int fd = fd_of("private");

	if (pwrite(fd, "0123456789", 10, 4090) != 10 ||
	    weir_file_open(root, files_path("private"), NULL, &file) < 0 ||
	    weir_buf_map(plain, file, 4093, 7, &buf) < 0)
		bail("%s", weir_error());
	weir_file_close(file);
	data = weir_buf_data(buf);
	is_mem(data, "3456789", 7, "memory of kind PLAIN maps a file");
	memcpy(data, "abcdefg", 7);
	if (pread(fd, got, 7, 4093) != 7)
		bail("pread");
	is_mem(got, "3456789", 7, "a write to it does not change the file");
	is_mem(data, "abcdefg", 7, "the memory has what was written");
	weir_buf_free(buf);
	close(fd);
}

/* The last bytes of four tensors, which are read with the others, are gone. */
static void cut_off(void)
{
	static const struct sample_tensor tensor[COUNT] = {
		{ "a", "U8", EACH, 1 },
		{ "b", "U8", EACH, 1 },
		{ "c", "U8", EACH, 1 },
		{ "d", "U8", EACH, 1 },
	};
	struct weir_failure failure = { 0 };
	unsigned long long lo = 0, hi = 0;
	struct weir_event *ev;
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;
	const char *within;

	sample_write(files_path("cut.safetensors"), tensor, COUNT, 0, 1);
	if (weir_model_open(root, files_path("cut.safetensors"), NULL, &model) <
		    0 ||
	    weir_plan_new(model, &plan) < 0 ||
	    weir_plan_add(plan, NULL, plain, NULL) < 0)
		bail("%s", weir_error());
	files_truncate("cut.safetensors", COUNT * EACH - 4096);
	if (weir_event_new(root, 0, &ev) < 0 ||
	    weir_load_start(plan, NULL, &load) < 0 ||
	    weir_load_record(load, COUNT - 1, ev) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(load, -1), -ESTALE,
	       "a load of a file that was cut off fails");
	weir_event_error(ev, &failure);
	within = strstr(failure.text, "the file ended before all of bytes ");
	if (!within ||
	    sscanf(within, "the file ended before all of bytes %llu to %llu",
		   &lo, &hi) != 2)
		lo = hi = 0;
	if (!ok(lo < hi && hi > COUNT * EACH - 4096,
		"the sentence has the bytes that were read together"))
		diag("%s", failure.text);
	weir_event_free(ev);
	weir_load_free(load);
	weir_plan_free(plan);
	weir_model_close(model);
}

static void nothing(int sig)
{
	(void)sig;
}

static void signalled(void)
{
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction act = { .sa_handler = nothing }, was;
	int64_t begun = weir__now();

	sigaction(SIGALRM, &act, &was);
	setitimer(ITIMER_REAL, &often, NULL);
	weir__sleep(100 * MS);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &was, NULL);
	ok(weir__now() - begun >= 100 * MS,
	   "signals do not shorten the wait for the clock of a file system");
}

int main(void)
{
	plan(14);
	files_begin();
	files_text("leased", "content");
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	mapped = memory_of(WEIR_MEM_MAPPED);
	plain = memory_of(WEIR_MEM_PLAIN);
	leased(F_WRLCK, 0, "opening a file with a write lease");
	leased(F_RDLCK, WEIR_FILE_WRITE,
	       "opening a file with a read lease for writing");
	changed_size();
	changed_info();
	private_map();
	cut_off();
	signalled();
	weir_close(root);
	return done_testing();
}
