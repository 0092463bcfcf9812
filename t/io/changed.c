/* SPDX-License-Identifier: MIT */
/*
 * Files that others change while a load reads them. The test replaces pread(2),
 * so that a load waits until the change is made, and fstat(2), to have the
 * times of a file system that stores whole seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define BYTES (1u << 20)

static char dir[] = "/var/tmp/weir-changed-XXXXXX";
static char path[64], other[64];
static struct weir *root;
static _Atomic bool block, whole_seconds;
static _Atomic unsigned n_blocked;
static uint64_t failed; /* the number of the last failure */
static size_t wrong;    /* tensors of the last load that differ */

/* How the model is opened. */
enum by {
	PATH,
	RELATIVE,
	DESCRIPTOR
};

/* The library, too, calls these two in place of the C library's. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	bool chunk = n > 8192; /* not a read of /proc */

	if (chunk && atomic_load(&block))
		atomic_fetch_add(&n_blocked, 1);
	while (chunk && atomic_load(&block))
		usleep(1000);
	return syscall(SYS_pread64, fd, buf, n, off);
}

__attribute__((visibility("default"))) int fstat(int fd, struct stat *st)
{
	int r = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (!r && atomic_load(&whole_seconds))
		st->st_mtim.tv_nsec = st->st_ctim.tv_nsec = 0;
	return r;
}

static void write_sample(const char *to, unsigned salt)
{
	static const struct sample_tensor t = { "a", "F32", BYTES / 4, 4 };

	sample_write(to, &t, 1, 8, salt);
}

static int open_model(void)
{
	int fd = open(path, O_RDWR);

	if (fd < 0)
		bail("%s: %s", path, strerror(errno));
	return fd;
}

static void overwrite(int fd)
{
	if (pwrite(fd, "changed", 7, BYTES / 2) != 7)
		bail("pwrite: %s", strerror(errno));
}

static void write_to(void)
{
	int fd = open_model();

	overwrite(fd);
	close(fd);
}

static void put_time_back(int fd, const struct stat *st)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };

	if (futimens(fd, times) < 0)
		bail("futimens: %s", strerror(errno));
}

/* As touch -d, rsync and tar do. */
static void write_and_put_time_back(void)
{
	int fd = open_model();
	struct stat st;

	fstatat(fd, "", &st, AT_EMPTY_PATH);
	overwrite(fd);
	put_time_back(fd, &st);
	close(fd);
}

static void write_by_mapping(void)
{
	int fd = open_model();
	char *map = mmap(NULL, BYTES, PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		bail("mmap: %s", strerror(errno));
	memcpy(map + BYTES / 2, "changed", 7);
	munmap(map, BYTES);
	close(fd);
}

static void cut_and_restore(void)
{
	int fd = open_model();
	struct stat st;

	fstatat(fd, "", &st, AT_EMPTY_PATH);
	if (ftruncate(fd, BYTES / 2) < 0 || ftruncate(fd, st.st_size) < 0)
		bail("ftruncate: %s", strerror(errno));
	put_time_back(fd, &st);
	close(fd);
}

static void make_hole(void)
{
	int fd = open_model();

	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, BYTES / 2,
		      4096) < 0)
		overwrite(fd); /* not every file system can */
	close(fd);
}

static void rename_over(const char *from, const char *to)
{
	if (rename(from, to) < 0)
		bail("rename: %s", strerror(errno));
}

static void rename_it(void)
{
	rename_over(path, other);
}

static void link_it(void)
{
	if (link(path, other) < 0)
		bail("link: %s", strerror(errno));
}

static void remove_it(void)
{
	unlink(path);
}

/* As programs do that write a new file in the place of an old one. */
static void replace_it(void)
{
	write_sample(other, 2);
	rename_over(other, path);
}

static void rename_and_back(void)
{
	rename_it();
	rename_over(other, path);
}

static void write_and_rename(void)
{
	write_to();
	rename_it();
}

static void touch(void)
{
	int fd = open_model();
	struct stat st;

	fstatat(fd, "", &st, AT_EMPTY_PATH);
	put_time_back(fd, &st);
	close(fd);
}

/* Relative paths lead elsewhere after this. */
static void change_mode_and_folder(void)
{
	if (chmod(path, 0640) < 0 || chdir("/") < 0)
		bail("chdir: %s", strerror(errno));
}

static void change_mode(void)
{
	if (chmod(path, 0640) < 0)
		bail("chmod: %s", strerror(errno));
}

static void read_it(void)
{
	char byte;
	int fd = open_model();

	if (syscall(SYS_pread64, fd, &byte, 1, 100) != 1)
		bail("pread: %s", strerror(errno));
	close(fd);
}

static void nothing(void)
{
}

static struct weir_load *start(struct weir_model *m, uint32_t flags)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *plain;
	struct weir_plan *p;
	struct weir_dev *cpu;
	struct weir_load *l;

	o.flags = flags;
	put.way = WEIR_WAY_BUFFERED;
	if (weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) < 0 ||
	    weir_plan_new(m, &p) < 0 ||
	    weir_plan_add(p, NULL, plain, &put) < 0 ||
	    weir_load_start(p, &o, &l) < 0)
		bail("%s", weir_error());
	weir_plan_free(p);
	return l;
}

static struct weir_model *fresh_model(enum by by)
{
	struct weir_model_fd file = { .name = NULL };
	struct weir_model *m;
	int r;

	unlink(other);
	unlink(path);
	write_sample(path, 1);
	if (by == DESCRIPTOR) {
		file.fd = open_model();
		r = weir_model_open_fds(root, &file, 1, NULL, &m);
		close(file.fd);
	} else {
		if (chdir(dir) < 0)
			bail("chdir: %s", strerror(errno));
		r = weir_model_open(root,
				    by == PATH ? path : strrchr(path, '/') + 1,
				    NULL, &m);
	}
	if (r < 0)
		bail("%s", weir_error());
	return m;
}

/* The result of a load during which @change is made. */
static int load_and(void (*change)(void), enum by by, uint32_t flags)
{
	struct weir_model *m = fresh_model(by);
	struct weir_weights *w;
	struct weir_failure f;
	struct weir_load *l;
	int r;

	atomic_store(&n_blocked, 0);
	atomic_store(&block, true);
	l = start(m, flags);
	while (!atomic_load(&n_blocked))
		usleep(1000);
	change();
	atomic_store(&block, false);
	r = weir_load_wait(l, -1);
	weir_load_error(l, WEIR_ALL, &f);
	failed = f.number;
	if (weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	wrong = sample_wrong(w, 1);
	weir_weights_free(w);
	weir_load_free(l);
	weir_model_close(m);
	return r;
}

#define NOT_BY_NAME "ctime changed while it was read, its name did not"

static const struct {
	void (*change)(void);
	const char *what, *says;
} changes[] = {
	{ write_to, "written to", "was written to" },
	{ write_and_put_time_back, "written to and its mtime set back",
	  NOT_BY_NAME },
	{ write_by_mapping, "written to through a mapping", "was written to" },
	{ cut_and_restore, "cut and made as long as it was", NOT_BY_NAME },
	{ make_hole, "given a hole", "was written to" },
	{ write_and_rename, "written to and renamed", "was written to" },
	/* The bytes stay the same, but the times do not show that. */
	{ touch, "given the mtime that it has", NOT_BY_NAME },
	{ rename_and_back, "renamed and renamed back", NOT_BY_NAME },
	{ change_mode, "given another mode", NOT_BY_NAME },
};
#define CHANGES (sizeof(changes) / sizeof(changes[0]))

static void changes_fail_the_load(void)
{
	for (size_t i = 0; i < CHANGES; i++) {
		is_err(load_and(changes[i].change, PATH, 0), -ESTALE,
		       changes[i].says, "a load fails if its file is %s",
		       changes[i].what);
		is_int(failed, 1,
		       "a load whose file is %s fails as a whole, not by a tensor",
		       changes[i].what);
		is_int(load_and(changes[i].change, PATH, WEIR_LOAD_UNCHECKED),
		       0,
		       "with WEIR_LOAD_UNCHECKED a load succeeds if its file is %s",
		       changes[i].what);
	}
	is_int(load_and(read_it, PATH, 0), 0,
	       "a load succeeds if others only read its file");
	is_int(load_and(nothing, PATH, 0), 0,
	       "a load succeeds if its file is left alone");
	is_err(load_and(change_mode_and_folder, RELATIVE, 0), -ESTALE,
	       NOT_BY_NAME,
	       "a folder that the program changes does not explain a ctime");
	is_err(load_and(change_mode, DESCRIPTOR, 0), -ESTALE, NOT_BY_NAME,
	       "a load by a descriptor fails if its file is given another mode");
}

/* The descriptor reads what it has read before. */
static const struct {
	void (*change)(void);
	const char *what;
} names[] = {
	{ rename_it, "renamed" },
	{ link_it, "linked" },
	{ remove_it, "removed" },
	{ replace_it, "replaced by rename" },
};
#define NAMES (sizeof(names) / sizeof(names[0]))

static void changes_of_names_are_accepted(void)
{
	static const char *const how[] = { "a path", "a relative path",
					   "a descriptor" };

	for (enum by by = PATH; by <= DESCRIPTOR; by++)
		for (size_t i = 0; i < NAMES; i++) {
			is_int(load_and(names[i].change, by, 0), 0,
			       "a load by %s succeeds if its file is %s",
			       how[by], names[i].what);
			is_int(wrong, 0, "and has the bytes of that file");
		}
}

/* A write right after opening, in the same second as the write before it. */
static void a_write_in_the_same_second_is_noticed(void)
{
	struct weir_model *m;
	struct weir_load *l;

	atomic_store(&whole_seconds, true);
	m = fresh_model(PATH);
	write_to();
	l = start(m, 0);
	is_err(weir_load_wait(l, -1), -ESTALE, "was written to",
	       "where times are whole seconds, a second write in the same second is noticed");
	weir_load_free(l);
	weir_model_close(m);
	atomic_store(&whole_seconds, false);
}

int main(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	plan(3 * CHANGES + 5 + 3 * 2 * NAMES);
	if (!mkdtemp(dir))
		skip_all("%s cannot be made", dir);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	o.io = WEIR_IO_SYNC;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	changes_fail_the_load();
	changes_of_names_are_accepted();
	a_write_in_the_same_second_is_noticed();
	weir_close(root);
	unlink(other);
	unlink(path);
	rmdir(dir);
	return done_testing();
}
