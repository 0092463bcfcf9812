/* SPDX-License-Identifier: MIT */
/*
 * Mappings of files under a lease, and processes that want to change the files.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cached.h"
#include "io/file.h"
#include "io/lease.h"
#include "files.h"
#include "streams.h"

#define BYTES (1u << 20)

static struct weir *weir;
static unsigned char *bytes_of_file;

static struct weir_file *open_new(const char *name)
{
	struct weir_file *file;

	files_bytes(name, bytes_of_file, BYTES);
	must(weir_file_open(weir, files_path(name), NULL, &file));
	return file;
}

/* A lease, unless the file system has none. */
static struct weir_file *leased(const char *name)
{
	struct weir_file *file = open_new(name);

	weir__file_lease(file);
	return file;
}

static bool is_right(struct weir_file *file, uint64_t off, uint64_t n)
{
	const unsigned char *got = weir__lease_get(file, off, n);
	bool right = got && !memcmp(got, bytes_of_file + off, n);

	if (got)
		weir__lease_put(file);
	return right;
}

static bool is_gone(struct weir_file *file)
{
	const unsigned char *got = weir__lease_get(file, 0, 1);

	if (got)
		weir__lease_put(file);
	return !got;
}

/*
 * Until it can be opened, for 10 s: a lease that is not given up ends after 45.
 */
static bool opens_for_writing(const char *name)
{
	for (int ms = 0; ms < 10000; ms++) {
		int fd = open(files_path(name), O_WRONLY | O_NONBLOCK);

		if (fd >= 0) {
			close(fd);
			return true;
		}
		usleep(1000);
	}
	return false;
}

static void uses(void)
{
	struct weir_file *file = leased("used.bin");
	bool right = true;

	for (uint64_t off = 0; off < BYTES; off += 70001)
		right = right &&
			is_right(file, off,
				 BYTES - off < 9999 ? BYTES - off : 9999);
	ok(right, "bytes of a leased file are right");
	ok(!weir__lease_get(file, BYTES - 1, 2),
	   "bytes after the end of a leased file are refused");
	weir_file_close(file);
	ok(opens_for_writing("used.bin"), "a closed file has no lease");
}

static void *truncates(void *arg)
{
	return truncate(files_path(arg), 10) ? arg : NULL;
}

/* A thread that does not ask for it changes the file while it is used. */
static void truncated(void)
{
	struct weir_file *file = leased("cut.bin");
	const unsigned char *got = weir__lease_get(file, 0, BYTES);
	time_t begun = time(NULL);
	pthread_t thread;
	unsigned sum = 0;
	void *failed;

	pthread_create(&thread, NULL, truncates, "cut.bin");
	usleep(50000);
	for (unsigned i = 0; i < BYTES; i++)
		sum += got[i] == bytes_of_file[i];
	is_int(sum, BYTES, "a truncation waits for the end of a use");
	weir__lease_put(file);
	pthread_join(thread, &failed);
	ok(!failed && time(NULL) - begun < 30,
	   "a file is truncated after the use");
	ok(is_gone(file), "a file that was truncated has no lease any more");
	weir_file_close(file);
}

static void written(void)
{
	struct weir_file *file = leased("written.bin");
	const unsigned char *got = weir__lease_get(file, 0, 1);
	int fd = open(files_path("written.bin"), O_WRONLY | O_NONBLOCK);

	ok(got && fd < 0 && errno == EWOULDBLOCK,
	   "a file in use cannot be opened for writing");
	weir__lease_put(file);
	ok(opens_for_writing("written.bin"),
	   "a file that is used no longer can be opened for writing");
	ok(is_gone(file), "a file that was opened for writing has no lease");
	weir_file_close(file);
}

static void refused(void)
{
	struct weir_file *file = open_new("open.bin");
	int fd = open(files_path("open.bin"), O_RDWR);

	weir__file_lease(file);
	ok(is_gone(file), "a file that is open for writing is not leased");
	close(fd);
	weir_file_close(file);
	file = open_new("changed.bin");
	must(truncate(files_path("changed.bin"), 100));
	weir__file_lease(file);
	ok(is_gone(file), "a file that became shorter is not leased");
	weir_file_close(file);
	file = open_new("evicted.bin");
	weir__file_lease(file);
	cached = false;
	ok(!weir__lease_get(file, 0, BYTES),
	   "bytes that are not in the page cache are refused");
	cached = true;
	weir_file_close(file);
}

/* A program that takes SIGIO from a descriptor gets all of them. */
static void signals(void)
{
	struct weir_file *file = leased("signals.bin");
	struct signalfd_siginfo info;
	unsigned got = 0;
	sigset_t set, old;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	for (unsigned i = 0; i < 50; i++) {
		kill(getpid(), SIGIO);
		usleep(1000);
		got += read(fd, &info, sizeof(info)) == sizeof(info);
	}
	is_int(got, 50, "a program with a leased file gets its own SIGIO");
	/* While one is pending. */
	kill(getpid(), SIGIO);
	ok(opens_for_writing("signals.bin"),
	   "a lease is given up while a SIGIO of the program is pending");
	while (read(fd, &info, sizeof(info)) == sizeof(info))
		;
	close(fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	weir_file_close(file);
}

/* A child has all descriptors. */
static void forked(void)
{
	struct weir_file *file = leased("forked.bin");
	int fd[2];
	char c;
	pid_t child;

	must(pipe(fd));
	child = fork();
	if (!child) {
		close(fd[1]);
		(void)!read(fd[0], &c, 1);
		_exit(0);
	}
	close(fd[0]);
	weir_file_close(file);
	ok(opens_for_writing("forked.bin"),
	   "a closed file has no lease, though a child has its descriptors");
	close(fd[1]);
	waitpid(child, NULL, 0);
}

static struct weir_file *shared;
static _Atomic bool stop;

static void *uses_on(void *arg)
{
	unsigned long *wrong = arg;

	while (!atomic_load(&stop))
		if (!is_right(shared, 4096, 100000) && !is_gone(shared))
			++*wrong;
	return NULL;
}

/* Several threads use a file that is truncated. */
static void threads(void)
{
	unsigned long wrong[4] = { 0 }, all = 0;
	pthread_t thread[4];

	for (unsigned k = 0; k < 20; k++) {
		shared = leased("shared.bin");
		atomic_store(&stop, false);
		for (unsigned i = 0; i < 4; i++)
			pthread_create(&thread[i], NULL, uses_on, &wrong[i]);
		usleep(2000);
		all += truncates("shared.bin") != NULL;
		usleep(1000);
		atomic_store(&stop, true);
		for (unsigned i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
		all += !is_gone(shared);
		weir_file_close(shared);
	}
	for (unsigned i = 0; i < 4; i++)
		all += wrong[i];
	is_int(all, 0, "threads that use a file see its bytes, or no lease");
}

int main(void)
{
	struct weir_file *file;

	files_begin();
	weir = open_root(WEIR_IO_AUTO);
	bytes_of_file = malloc(BYTES);
	pattern(bytes_of_file, BYTES, 1);
	file = leased("try.bin");
	if (is_gone(file))
		skip_all("no lease of a file here");
	weir_file_close(file);
	plan(16);
	uses();
	truncated();
	written();
	refused();
	signals();
	forked();
	threads();
	weir_close(weir);
	free(bytes_of_file);
	return done_testing();
}
