/* SPDX-License-Identifier: MIT */
/*
 * A save whose system calls fail, are short, or are the last of their process:
 * after each the earlier model or the new one is whole. The test replaces the
 * functions of the C library, so the method is sync.
 *
 * With WEIR_T_LARGE, tensors have 9 MiB, so a save has many more calls.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "tap.h"

#define EXPORT __attribute__((visibility("default")))
#define N_TENSORS 3

enum call {
	OPEN = 1,
	PWRITE = 2,
	RESERVE = 4,
	TRUNCATE = 8,
	SYNC = 16,
	RENAME = 32,
	UNLINK = 64,
	CHMOD = 128,
	LOCK = 256,
	ANY = 511
};

/* What happens at the @n-th call of the set @calls. */
static struct {
	unsigned calls;
	_Atomic unsigned n; /* counts down; 0: nothing happens any more */
	int err;            /* 0: the process is killed */
	bool direct;        /* only calls for files with O_DIRECT */
} fault;

/* True if the call fails, with errno set. */
static bool fails(enum call call, int fd)
{
	unsigned n = atomic_load(&fault.n);

	if (!(fault.calls & (unsigned)call) || !n)
		return false;
	if (fault.direct && !(fcntl(fd, F_GETFL) & O_DIRECT))
		return false;
	while (n && !atomic_compare_exchange_weak(&fault.n, &n, n - 1))
		;
	if (n != 1)
		return false;
	if (!fault.err)
		kill(getpid(), SIGKILL);
	errno = fault.err;
	return true;
}

static void set_fault(unsigned calls, unsigned n, int err, bool direct)
{
	fault.calls = calls;
	fault.err = err;
	fault.direct = direct;
	atomic_store(&fault.n, n);
}

/* Returns whether the call was made. */
static bool end_fault(void)
{
	return atomic_exchange(&fault.n, 0) == 0;
}

/*
 * A save is cancelled while its writes wait; then the close of a file without a
 * name waits, as it does while the file system frees many blocks.
 */
#define HELD_NS INT64_C(20000000000)
static _Atomic enum held {
	NOTHING,
	WRITES,
	CLOSES
} held;

static void wait_while(enum held what)
{
	while (atomic_load(&held) == what)
		usleep(100);
}

EXPORT int close(int fd)
{
	struct stat st;

	if (atomic_load(&held) && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    !st.st_nlink)
		wait_while(CLOSES);
	return (int)syscall(SYS_close, fd);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	unsigned mode = 0;
	va_list ap;

	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, unsigned);
		va_end(ap);
		if (fails(OPEN, -1))
			return -1;
	}
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

EXPORT ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
	wait_while(WRITES);
	if (fails(PWRITE, fd)) {
		if (errno)
			return -1;
		n = n > 4096 ? n / 2 : 1; /* err < 0: a short write */
	}
	return syscall(SYS_pwrite64, fd, buf, n, off);
}

EXPORT int fallocate(int fd, int mode, off_t off, off_t len)
{
	return fails(RESERVE, fd)
		       ? -1
		       : (int)syscall(SYS_fallocate, fd, mode, off, len);
}

EXPORT int ftruncate(int fd, off_t len)
{
	return fails(TRUNCATE, fd) ? -1 : (int)syscall(SYS_ftruncate, fd, len);
}

EXPORT int fsync(int fd)
{
	return fails(SYNC, fd) ? -1 : (int)syscall(SYS_fsync, fd);
}

EXPORT int renameat(int from, const char *a, int to, const char *b)
{
	return fails(RENAME, -1) ? -1
				 : (int)syscall(SYS_renameat, from, a, to, b);
}

EXPORT int renameat2(int from, const char *a, int to, const char *b,
		     unsigned flags)
{
	return fails(RENAME, -1)
		       ? -1
		       : (int)syscall(SYS_renameat2, from, a, to, b, flags);
}

EXPORT int unlinkat(int dir, const char *name, int flags)
{
	return fails(UNLINK, -1) ? -1
				 : (int)syscall(SYS_unlinkat, dir, name, flags);
}

EXPORT int fchmod(int fd, mode_t mode)
{
	return fails(CHMOD, fd) ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

EXPORT int flock(int fd, int how)
{
	return fails(LOCK, fd) ? -1 : (int)syscall(SYS_flock, fd, how);
}

/* A way to replace the model m. */
static const struct form {
	const char *what;
	const char *suffix;
	bool was_sharded, sharded;
} forms[] = {
	{ "a file over a file", ".safetensors", false, false },
	{ "a file over shards", ".safetensors", true, false },
	{ "shards over shards", ".safetensors", true, true },
	{ "shards over a file", ".safetensors", false, true },
	{ "GGUF", ".gguf", false, false },
};
#define N_FORMS (sizeof(forms) / sizeof(forms[0]))

static size_t bytes = 50001; /* of a tensor */

static struct weir *open_root(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	o.io = WEIR_IO_SYNC;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	return root;
}

static struct weir_buft *plain_of(struct weir *root)
{
	struct weir_buft *plain;
	struct weir_dev *cpu;

	if (weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) < 0)
		bail("%s", weir_error());
	return plain;
}

static const char *path_of(const struct form *f)
{
	char name[40];

	snprintf(name, sizeof(name), "m%s", f->suffix);
	return files_path(name);
}

/* Save a model whose bytes all are @byte + the number of their tensor. */
static int save(struct weir *root, const struct form *f, bool sharded,
		unsigned char byte, struct weir_save_report *rep)
{
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;
	int64_t shape = (int64_t)bytes;
	struct weir_save *s;
	struct weir_buf *buf;
	int r;

	o.shard_bytes = sharded ? bytes : 0;
	if (weir_buf_alloc(plain_of(root), N_TENSORS * bytes, NULL, &buf) < 0 ||
	    weir_save_new(root, path_of(f), &o, &s) < 0)
		bail("%s", weir_error());
	for (unsigned i = 0; i < N_TENSORS; i++) {
		struct weir_tensor t;
		char name[8];

		memset((char *)weir_buf_data(buf) + i * bytes, byte + (int)i,
		       bytes);
		snprintf(name, sizeof(name), "t%u", i);
		if (weir_tensor_init(&t, WEIR_DTYPE_I8, 1, &shape) < 0 ||
		    weir_tensor_place(&t, buf, i * bytes) < 0 ||
		    weir_save_add(s, name, &t, 0) < 0)
			bail("%s", weir_error());
	}
	r = weir_save_start(s, NULL);
	if (r >= 0 && atomic_load(&held)) {
		r = weir_save_cancel(s);
		atomic_store(&held, CLOSES);
	}
	if (r >= 0) {
		r = weir_save_wait(s, atomic_load(&held) ? HELD_NS : -1);
		if (rep)
			(void)!weir_save_report(s, rep);
	}
	weir_save_free(s);
	weir_buf_free(buf);
	return r;
}

static int save_it(struct weir *root, const struct form *f, bool sharded,
		   unsigned char byte)
{
	int r = save(root, f, sharded, byte, NULL);

	if (r < 0)
		bail("%s", weir_error());
	return r;
}

/* The byte that the model at @path was saved with; 0: none; -1: torn. */
static int byte_of(struct weir *root, const char *path)
{
	struct weir_weights *w;
	int byte = -1;
	bool same;

	if (access(path, F_OK) < 0)
		return 0;
	if (weir_load_all(root, path, plain_of(root), NULL, &w) < 0) {
		diag("%s", weir_error());
		return -1;
	}
	same = weir_weights_count(w) == N_TENSORS;
	for (unsigned i = 0; same && i < N_TENSORS; i++) {
		const unsigned char *p;
		char name[8];

		snprintf(name, sizeof(name), "t%u", i);
		p = weir_tensor_data(weir_weights_find(w, name));
		if (!i)
			byte = p[0];
		same = p[0] == byte + (int)i && !memcmp(p, p + 1, bytes - 1);
	}
	weir_weights_free(w);
	return same ? byte : -1;
}

/*
 * True if each name by which the model can be opened leads to a whole one, and
 * at least one does.
 */
static bool whole(struct weir *root, const struct form *f, int *ret_byte)
{
	int file = byte_of(root, path_of(f));
	int index = byte_of(root, files_path("m.safetensors.index.json"));

	*ret_byte = f->sharded ? index : file;
	return file >= 0 && index >= 0 && (file || index);
}

/* Call @fn for each file that belongs to no model. Returns their number. */
static unsigned each_left(void (*fn)(const char *name))
{
	char text[4096] = "";
	DIR *dir = opendir(files_path(""));
	struct dirent *e;
	unsigned n = 0;
	FILE *index = fopen(files_path("m.safetensors.index.json"), "r");

	if (index) {
		text[fread(text, 1, sizeof(text) - 1, index)] = '\0';
		fclose(index);
	}
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.' ? !strstr(e->d_name, ".weir-")
					: !strstr(e->d_name, "-of-") ||
						  strstr(text, e->d_name))
			continue;
		n++;
		if (fn)
			fn(e->d_name);
	}
	closedir(dir);
	return n;
}

static void remove_left(const char *name)
{
	unlink(files_path(name));
}

static unsigned temps;

static void count_temp(const char *name)
{
	temps += *name == '.';
}

static void remove_all(void)
{
	unlink(files_path("m.safetensors"));
	unlink(files_path("m.gguf"));
	unlink(files_path("m.safetensors.index.json"));
	each_left(remove_left);
}

/* Returns false if the save ended before its @n-th call. */
static bool kill_at(const struct form *f, unsigned n)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct weir *root = open_root();

		set_fault(ANY, n, 0, false);
		save(root, f, f->sharded, 100, NULL);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status);
}

/* A process that saves is killed at each of its calls. */
static void killed(struct weir *root, const struct form *f)
{
	unsigned n = 0, torn = 0, unnamed = 0, kept = 0, newer = 0;
	struct weir_save_report rep;
	int byte;

	for (bool more = true; more; n++) {
		unsigned left;

		remove_all();
		save_it(root, f, f->was_sharded, 10);
		more = kill_at(f, n + 1);
		torn += !whole(root, f, &byte);
		kept += byte != 100;
		newer += byte == 100;
		left = each_left(NULL);
		memset(&rep, 0, sizeof(rep));
		rep.size = sizeof(rep);
		if (save(root, f, f->sharded, 50, &rep) < 0)
			bail("%s", weir_error());
		if (rep.leftovers != left || (left && !*rep.note)) {
			diag("call %u: %u files are left over, not %u: %s",
			     n + 1, left, rep.leftovers, rep.note);
			unnamed++;
		}
		each_left(remove_left);
		torn += !whole(root, f, &byte) || byte != 50;
	}
	ok(n > 8 && kept && newer, "%s: the save was killed at %u calls",
	   f->what, n - 1);
	is_int(torn, 0,
	       "%s: the earlier model or the new one is whole after each",
	       f->what);
	is_int(unnamed, 0, "%s: the next save counts and names what was left",
	       f->what);
	remove_all();
}

/* A call that fails, and whether the save may succeed nevertheless. */
static const struct failing {
	const char *what;
	unsigned call;
	int err;
	enum {
		FAILS,
		MAY_FAIL, /* not when only earlier files are still to remove */
		HARMLESS
	} outcome;
} failing[] = {
	{ "EACCES when a file is made", OPEN, EACCES, FAILS },
	{ "EROFS when a file is made", OPEN, EROFS, FAILS },
	{ "EMFILE when a file is made", OPEN, EMFILE, FAILS },
	{ "ENOSPC when blocks are reserved", RESERVE, ENOSPC, FAILS },
	{ "EDQUOT when blocks are reserved", RESERVE, EDQUOT, FAILS },
	{ "no way to reserve blocks", RESERVE, EOPNOTSUPP, HARMLESS },
	{ "ENOSPC at a write", PWRITE, ENOSPC, FAILS },
	{ "EDQUOT at a write", PWRITE, EDQUOT, FAILS },
	{ "EIO at a write", PWRITE, EIO, FAILS },
	{ "an interrupted write", PWRITE, EINTR, HARMLESS },
	{ "EIO when a size is set", TRUNCATE, EIO, FAILS },
	{ "EIO at fsync", SYNC, EIO, MAY_FAIL },
	{ "ENOSPC at fsync", SYNC, ENOSPC, MAY_FAIL },
	{ "EACCES at a rename", RENAME, EACCES, FAILS },
	{ "EIO at a rename", RENAME, EIO, FAILS },
	{ "EPERM for permissions", CHMOD, EPERM, HARMLESS },
	{ "no locks", LOCK, ENOLCK, HARMLESS },
	{ "EACCES when the earlier files are removed", UNLINK, EACCES,
	  HARMLESS },
};
#define N_FAILING (sizeof(failing) / sizeof(failing[0]))

/* After a save that failed: what is wrong, or NULL. */
static const char *wrong(struct weir *root, const struct form *f,
			 const struct failing *x, int r, unsigned open_before)
{
	const char *sentence = weir_error();
	unsigned left;
	int byte;

	if (r >= 0 && x->outcome == FAILS)
		return "it did not fail";
	if (r < 0 && (r != -x->err || x->outcome == HARMLESS))
		return "it failed with another error";
	if (r < 0 && (!strstr(sentence, "m.") && !strstr(sentence, "m-") &&
		      !strstr(sentence, files_path(""))))
		return "the sentence names no file";
	if (files_open() != open_before)
		return "descriptors are left open";
	if (!whole(root, f, &byte))
		return "no model is whole";
	if (r >= 0 && byte != 100)
		return "it is not the new model";
	/* Shards of the earlier model stay if the folder is not durable. */
	temps = 0;
	left = each_left(count_temp);
	if (byte == 100 && x->outcome != FAILS ? temps : left)
		return "files are left over";
	return NULL;
}

static void failed(struct weir *root, const struct form *f,
		   const struct failing *x)
{
	unsigned n = 0, bad = 0, before;
	bool hit;

	do {
		const char *why;
		int r;

		remove_all();
		save_it(root, f, f->was_sharded, 10);
		before = files_open();
		set_fault(x->call, ++n, x->err, false);
		r = save(root, f, f->sharded, 100, NULL);
		hit = end_fault();
		why = hit ? wrong(root, f, x, r, before) : NULL;
		if (why)
			diag("call %u: %s: %d, %s", n, why, r, weir_error());
		bad += why != NULL;
	} while (hit && n < 40);
	ok(!bad && !hit, "%s: %s: the model is whole, and nothing is left",
	   f->what, x->what);
}

/* O_DIRECT is refused for one write; all later ones are buffered. */
static void refused(struct weir *root, const struct form *f)
{
	struct weir_save_report rep = { .size = sizeof(rep) };
	int byte, r;

	set_fault(PWRITE, 2, EINVAL, true);
	r = save(root, f, false, 100, &rep);
	if (!end_fault()) {
		skip(2, "files here are not written with O_DIRECT");
		return;
	}
	ok(r == 0 && whole(root, f, &byte) && byte == 100,
	   "%s: a save goes on if O_DIRECT is refused in its middle", f->what);
	ok(rep.direct < rep.bytes && rep.direct && rep.retries,
	   "%s: its report says how much was written directly", f->what);
}

static void cancelled(struct weir *root, const struct form *f)
{
	remove_all();
	temps = 0;
	atomic_store(&held, WRITES);
	is_int(save(root, f, f->sharded, 100, NULL), -ECANCELED,
	       "%s: a cancelled save ends before its blocks are free", f->what);
	each_left(count_temp);
	ok(!temps, "%s: then its files have no names", f->what);
	atomic_store(&held, NOTHING);
}

int main(void)
{
	const bool large = getenv("WEIR_T_LARGE") != NULL;
	struct weir *root;

	if (large)
		bytes = 9 << 20;
	plan((unsigned)(N_FORMS * (5 + N_FAILING) + 2));
	files_begin();
	root = open_root();
	for (size_t i = 0; i < N_FORMS; i++)
		killed(root, &forms[i]);
	for (size_t i = 0; i < N_FORMS; i++)
		for (size_t k = 0; k < N_FAILING; k++)
			failed(root, &forms[i], &failing[k]);
	for (size_t i = 0; i < N_FORMS; i++)
		cancelled(root, &forms[i]);
	bytes = 5 << 20;
	refused(root, &forms[0]);
	weir_close(root);
	return done_testing();
}
