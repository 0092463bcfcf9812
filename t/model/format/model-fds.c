/* SPDX-License-Identifier: MIT */
/* Models whose files the program has opened: weir_model_open_fds. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir.h>

#include "core/sys.h"
#include "files.h"
#include "sample.h"
#include "tap.h"

static const struct sample_tensor first[] = {
	{ "b", "U8", 300000, 1 },
	{ "a", "F32", 500000, 4 },
};
static const struct sample_tensor second[] = {
	{ "0", "F16", 70001, 2 },
};
static struct weir *root;

/* In place of the library's: what opening through /proc fails with. */
static int refusal;
int __wrap_weir__sys_open(const char *path, int flags, unsigned mode);
int __real_weir__sys_open(const char *path, int flags, unsigned mode);
int __wrap_weir__sys_open(const char *path, int flags, unsigned mode)
{
	if (refusal && !strncmp(path, "/proc/self/fd/", 14))
		return refusal;
	return __real_weir__sys_open(path, flags, mode);
}

static int open_file(const char *name, int flags)
{
	int fd = open(files_path(name), flags | O_CLOEXEC);

	if (fd < 0)
		bail("%s: %s", name, strerror(errno));
	return fd;
}

/* Open a model of one file, @fd, named "given", and close it. */
static int try_fd(int fd)
{
	const struct weir_model_fd one = { .fd = fd, .name = "given" };
	struct weir_model *m = NULL;
	int r = weir_model_open_fds(root, &one, 1, NULL, &m);

	weir_model_close(m);
	return r;
}

/* All tensors of the model arrive and have their bytes. Closes it. */
static bool loads(struct weir_model *m, uint32_t flags,
		  struct weir_load_report *ret_report)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_weights *w = NULL;
	struct weir_load *l = NULL;
	struct weir_plan *p = NULL;
	struct weir_buft *plain;
	struct weir_dev *cpu;
	bool held;

	o.flags = flags;
	held = !weir_dev_find(root, "CPU", &cpu) &&
	       !weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) &&
	       !weir_plan_new(m, &p) &&
	       weir_plan_add(p, NULL, plain, NULL) > 0 &&
	       !weir_load_start(p, &o, &l) && !weir_load_weights(l, &w) &&
	       !weir_load_wait(l, -1) && !sample_wrong(w, 1);
	if (!held)
		diag("%s", weir_error());
	if (ret_report && l)
		held = held && !weir_load_report(l, ret_report);
	weir_weights_free(w);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	return held;
}

static struct weir_model *must_open(const struct weir_model_fd *fds, unsigned n)
{
	struct weir_model *m;

	if (weir_model_open_fds(root, fds, n, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

static struct weir_model *model_of(int fd)
{
	return must_open(&(struct weir_model_fd){ .fd = fd, .name = "given" },
			 1);
}

static void one_file(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	unsigned before = files_open();
	int fd = open_file("first", O_RDONLY);
	struct weir_model *m = model_of(fd);

	close(fd);
	weir_model_info(m, &info);
	is_str(info.path, "given", "a model of open files has the given name");
	ok(info.shards == 1 && info.count == 2,
	   "a model of one open file has its tensors");
	ok(loads(m, 0, NULL),
	   "tensors load after the program has closed its descriptor");
	is_int(files_open(), before, "a closed model leaves no descriptor");
}

/* A descriptor with @flags is used, and stays as it is. */
static void nothing_changes(int flags, const char *name)
{
	int fd = open_file("first", flags), is;
	struct weir_model *m;
	bool held;

	if (lseek(fd, 12345, SEEK_SET) != 12345)
		bail("lseek");
	is = fcntl(fd, F_GETFL);
	m = model_of(fd);
	held = loads(m, 0, NULL);
	ok(held, "a file that is open with %s loads", name);
	ok(lseek(fd, 0, SEEK_CUR) == 12345 && fcntl(fd, F_GETFL) == is,
	   "offset and flags of a descriptor with %s do not change", name);
	close(fd);
}

static void several_files(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model_fd fds[2] = {
		{ .fd = open_file("second", O_RDONLY), .name = "x/two" },
		{ .fd = open_file("first", O_RDONLY) },
	};
	struct weir_model *m = must_open(fds, 2);
	char number[32];

	weir_model_info(m, &info);
	ok(info.shards == 2 && info.count == 3,
	   "a model of two open files has the tensors of both");
	weir_model_tensor(m, 0, &e);
	ok(e.shard == 0 && !strcmp(e.name, "0"),
	   "the shards have the order of the descriptors");
	ok(loads(m, 0, NULL), "the tensors of two open files load");
	close(fds[0].fd);
	fds[0] = fds[1];
	snprintf(number, sizeof(number), "descriptor %d", fds[1].fd);
	is_err(weir_model_open_fds(root, fds, 2, NULL, &m), -EBADMSG,
	       "tensor 'b' is also in", "a tensor in two files is refused");
	has_str(weir_error(), number,
		"a descriptor without a name is called by its number");
	close(fds[1].fd);
}

/* The bytes of @name in memory, sealed against writes. */
static int in_memory(const char *name)
{
	static char bytes[4u << 20];
	int from = open_file(name, O_RDONLY);
	int fd = memfd_create("weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t n = read(from, bytes, sizeof(bytes));

	if (fd < 0 || n < 0 || write(fd, bytes, (size_t)n) != n ||
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		bail("memfd");
	close(from);
	return fd;
}

static void files_without_a_path(void)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	int fd = in_memory("first");

	ok(loads(model_of(fd), 0, &rep), "a sealed memory file loads");
	has_str(rep.note, "given: no direct reads: the file system keeps",
		"the report names the memory file that has no direct reads");
	close(fd);
	sample_write(files_path("gone"), first, 2, 8, 1);
	fd = open_file("gone", O_RDONLY);
	unlink(files_path("gone"));
	ok(loads(model_of(fd), 0, NULL), "a removed file loads");
	close(fd);
}

static void bad_descriptors(void)
{
	const struct {
		int flags;
		const char *name;
		int err;
		const char *part, *what;
	} bad[] = {
		{ O_WRONLY, "first", -EBADF, "for writing only",
		  "a descriptor that is open for writing only" },
		{ O_PATH, "first", -EBADF, "O_PATH",
		  "a descriptor that is open with O_PATH" },
		{ O_RDONLY, "", -EISDIR, "given: is a directory",
		  "a descriptor of a directory" },
		{ O_RDONLY, "text", -EBADMSG,
		  "given: this is text, not a model",
		  "a descriptor of a file that is no model" },
	};
	struct weir_model *m;
	int fd, pipes[2];

	files_text("text", "none");
	for (int i = 0; i < 4; i++) {
		fd = open_file(bad[i].name, bad[i].flags);
		is_err(try_fd(fd), bad[i].err, bad[i].part, "%s is refused",
		       bad[i].what);
		close(fd);
	}
	if (pipe(pipes) < 0)
		bail("pipe");
	is_err(try_fd(pipes[0]), -EINVAL, "not a regular file but a pipe",
	       "a descriptor of a pipe is refused");
	close(pipes[0]);
	close(pipes[1]);
	is_err(try_fd(pipes[0]), -EBADF, "given: descriptor ",
	       "a descriptor that is closed is refused");
	is_err(try_fd(-1), -EBADF, "descriptor -1",
	       "a negative descriptor is refused");
	is_err(weir_model_open_fds(root, &(struct weir_model_fd){ 0 }, 0, NULL,
				   &m),
	       -EINVAL, "0 files", "a model of no files is refused");
}

static void unknown_flags(void)
{
	struct weir_model_opts o = WEIR_MODEL_OPTS_INIT;
	struct weir_model *m;

	o.flags = 0x80;
	is_err(weir_model_open_fds(root, &(struct weir_model_fd){ 0 }, 1, &o,
				   &m),
	       -EINVAL, "unknown flags 0x80", "unknown flags are refused");
	is_err(weir_model_open_fds(root,
				   &(struct weir_model_fd){ .reserved = 1 }, 1,
				   NULL, &m),
	       -EINVAL, "reserved member is 1",
	       "a reserved member that is not 0 is refused");
}

/* A sandbox: files cannot be opened again, or there is no /proc. */
static void no_reopening(int err, const char *why)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	unsigned before = files_open();
	int fd = open_file("first", O_RDONLY);
	struct weir_model *m;

	refusal = err;
	m = model_of(fd);
	close(fd);
	ok(loads(m, 0, &rep), "a file loads that is not opened again: %s", why);
	has_str(rep.note, why,
		"the report says why there are no direct reads: %s", why);
	is_int(files_open(), before,
	       "the duplicate of a descriptor is closed: %s", why);
	fd = open_file("first", O_RDONLY | O_NONBLOCK);
	is_err(try_fd(fd), -EINVAL, "O_NONBLOCK, and the file cannot be",
	       "O_NONBLOCK is refused where files are not opened again: %s",
	       why);
	close(fd);
	refusal = 0;
}

int main(void)
{
	plan(36);
	files_begin();
	sample_write(files_path("first"), first, 2, 8, 1);
	sample_write(files_path("second"), second, 1, 8, 1);
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	weir_io_info(root, &(struct weir_io_info){
				   .size = sizeof(struct weir_io_info) });
	one_file();
	nothing_changes(O_RDONLY, "O_RDONLY");
	nothing_changes(O_RDWR | O_NONBLOCK, "O_NONBLOCK");
	nothing_changes(O_RDONLY | O_DIRECT, "O_DIRECT");
	several_files();
	files_without_a_path();
	bad_descriptors();
	unknown_flags();
	no_reopening(-EACCES, "EACCES");
	no_reopening(-ENOENT, "is /proc mounted?");
	weir_close(root);
	return done_testing();
}
