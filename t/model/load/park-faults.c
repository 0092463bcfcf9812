/* SPDX-License-Identifier: MIT */
/*
 * Parking that fails, is refused, or is interrupted: folders without room, a
 * process that is killed, files that are replaced, threads that park at once.
 * Weights are never lost while any copy of them is left.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "plans.h"
#include "sinks.h"

#define MIB ((size_t)1 << 20)
#define N 40u
#define EACH 20000u

/* What calls of the library do instead of their work. */
static _Atomic int reserve_fails, sync_fails, unnamed_fails;
static _Atomic bool killed_in_reserve;
static rlim_t longest; /* file, while weights are parked; 0: no limit */

/* These replace the functions of the C library, for the library too. */
__attribute__((visibility("default"))) int fallocate(int fd, int mode,
						     off_t off, off_t len)
{
	if (killed_in_reserve)
		raise(SIGKILL);
	if (reserve_fails) {
		errno = reserve_fails;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, off, len);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
	if (sync_fails) {
		errno = sync_fails;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int open(const char *name, int flags,
						...)
{
	va_list ap;
	unsigned mode;

	va_start(ap, flags);
	mode = va_arg(ap, unsigned);
	va_end(ap);
	if (unnamed_fails && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = unnamed_fails;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

static struct weir_weights *weights_with(uint32_t flags)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	for (size_t i = 0; i < N; i++)
		add_tensor("F32", 4, EACH);
	sample_write(path, tensors, n_tensors, 0, 1);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	o.buf_flags = flags;
	if (weir_plan_add(p, NULL, kind, &o) < 0 || !(w = load(p, NULL)))
		bail("%s", weir_error());
	weir_plan_free(p);
	weir_model_close(m);
	return w;
}

static int state_of(struct weir_weights *w)
{
	struct weir_park_info info = { .size = sizeof(info) };

	if (weir_weights_park_info(w, &info) < 0)
		bail("%s", weir_error());
	return (int)info.state;
}

static struct weir_park_opts to_folder(const char *folder)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;

	o.folder = folder;
	return o;
}

static unsigned count_entries(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static uint64_t used(void)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	weir_buft_info(kind, &info);
	return info.used;
}

/* Five checks: parking to @folder fails as @want says, and changes nothing. */
static void fails_in(const char *folder, int err, const char *want,
		     const char *what)
{
	const struct weir_park_opts o = to_folder(folder);
	struct weir_weights *w = weights_with(0);
	unsigned files = count_entries(folder);
	unsigned open_files = count_entries("/proc/self/fd");
	struct rlimit before, limit;

	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	if (longest)
		limit.rlim_cur = longest;
	setrlimit(RLIMIT_FSIZE, &limit);
	is_err(weir_weights_park(w, &o), err, want,
	       "%s: weights are not parked", what);
	setrlimit(RLIMIT_FSIZE, &before);
	is_int(state_of(w), WEIR_PARK_RESIDENT, "%s: their state says so",
	       what);
	is_int(sample_wrong(w, 1), 0, "%s: they are whole", what);
	is_int(count_entries(folder), files, "%s: no file is left", what);
	is_int(count_entries("/proc/self/fd"), open_files,
	       "%s: no descriptor is left", what);
	weir_weights_free(w);
}

/* A file system of 1 MiB at dir/full that ends with the process. */
static bool mount_small(const char *at)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", at, "tmpfs", 0, "size=1m") == 0;
}

static void no_room(void)
{
	char full[64];

	reserve_fails = ENOSPC;
	fails_in(dir, -ENOSPC, dir, "a full disk");
	reserve_fails = 0;
	sync_fails = EIO;
	fails_in(dir, -EIO, dir, "a disk that loses bytes");
	sync_fails = 0;
	longest = MIB;
	fails_in(dir, -EFBIG, dir, "a limit of the sizes of files");
	longest = 0;
	snprintf(full, sizeof(full), "%s/full", dir);
	if (mkdir(full, 0700) < 0)
		bail("mkdir: %s", strerror(errno));
	if (mount_small(full)) {
		fails_in(full, -ENOSPC, full, "a small file system");
		reserve_fails = EOPNOTSUPP;
		fails_in(full, -ENOSPC, full,
			 "a small file system that cannot reserve");
		reserve_fails = 0;
		umount(full);
	} else {
		skip(10, "no file system can be mounted: %s", strerror(errno));
	}
	rmdir(full);
}

/* Where files cannot be without a name, they have one for a moment. */
static void with_names(void)
{
	const struct weir_park_opts o = to_folder(dir);
	struct weir_weights *w = weights_with(0);
	unsigned files = count_entries(dir);

	unnamed_fails = EOPNOTSUPP;
	is_int(weir_weights_park(w, &o), 0,
	       "weights are parked where every file has a name");
	is_int(count_entries(dir), files, "the file of the copies has none");
	is_int(weir_weights_unpark(w, NULL), 0, "they come back");
	is_int(sample_wrong(w, 1), 0, "whole");
	unnamed_fails = EACCES;
	is_err(weir_weights_park(w, &o), -EACCES, dir,
	       "a folder that may not be written to is named");
	unnamed_fails = 0;
	weir_weights_free(w);
}

/* The rest of a process that is killed while it parks: killed_child(). */
static void leftovers(const char *self, const char *how)
{
	unsigned files = count_entries(dir);
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		execl(self, self, how, path, dir, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	   "a process is killed while it parks (%s)", how);
	is_int(count_entries(dir), files, "it leaves no file (%s)", how);
}

static int killed_child(char **argv)
{
	struct weir_park_opts o = to_folder(argv[3]);
	struct weir_weights *w;
	struct weir_buft *huge;
	struct weir_dev *cpu;

	if (weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_load_all(root, argv[2], huge, NULL, &w) < 0)
		return 1;
	unnamed_fails = strcmp(argv[1], "named") ? 0 : EOPNOTSUPP;
	killed_in_reserve = true;
	weir_weights_park(w, &o);
	return 2;
}

/* Write another model, with salt 2, in the place of the first. */
static void replace_model(void)
{
	char other[80];

	snprintf(other, sizeof(other), "%s.other", path);
	sample_write(other, tensors, n_tensors, 0, 2);
	if (rename(other, path) < 0)
		bail("rename: %s", strerror(errno));
}

/* Write to a model that stays the same file. */
static void write_to_model(void)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (pwrite(fd, "changed", 7, 4096) != 7)
		bail("pwrite: %s", strerror(errno));
	close(fd);
}

static void written_to(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = weights_with(0);
	const void *data = weir_tensor_data(weir_weights_get(w, 0));
	struct weir_weights *same;
	struct weir_buf *other;
	struct weir_model *m;
	struct weir_plan *p;

	o.flags = WEIR_PARK_CONSTANT;
	weir_weights_park(w, &o);
	write_to_model();
	is_err(weir_weights_unpark(w, NULL), -ESTALE, strrchr(path, '/') + 1,
	       "a file that was written to meanwhile is named");
	is_int(state_of(w), WEIR_PARK_PARKED, "the weights stay parked");
	replace_model();
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	weir_plan_add(p, NULL, kind, NULL);
	weir_buft_set_budget(kind, 4 * MIB);
	if (weir_buf_alloc(kind, 3 * MIB, NULL, &other) < 0)
		bail("%s", weir_error());
	ok(!load(p, w), "a load into them fails without memory");
	is_int(state_of(w), WEIR_PARK_PARKED, "then they stay parked, too");
	weir_buf_free(other);
	weir_buft_set_budget(kind, 0);
	same = load(p, w);
	ok(same == w, "the new file can be loaded into parked weights");
	is_int(state_of(w), WEIR_PARK_RESIDENT, "they are then in memory");
	ok(weir_tensor_data(weir_weights_get(w, 0)) == data,
	   "they are at the same addresses");
	is_int(sample_wrong(w, 2), 0, "and have the bytes of the new file");
	weir_weights_free(same);
	weir_plan_free(p);
	weir_model_close(m);
	weir_weights_free(w);
}

static void fails_to_return(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w = weights_with(0);
	struct weir_event *event;

	o.flags = WEIR_PARK_CONSTANT;
	weir_weights_park(w, &o);
	write_to_model();
	if (weir_event_new(root, 0, &event) < 0)
		bail("%s", weir_error());
	is_int(weir_weights_unpark(w, event), 0, "an unpark starts");
	is_int(weir_event_wait(event, -1), -ESTALE,
	       "its event fails if the file was written to");
	is_int(state_of(w), WEIR_PARK_FAILED, "the state says so");
	is_int(weir_weights_park(w, NULL), 0,
	       "the weights can be parked again");
	is_int(state_of(w), WEIR_PARK_PARKED, "then they are parked");
	weir_event_free(event);
	weir_weights_free(w);
}

static void remove_model(void)
{
	if (unlink(path) < 0)
		bail("unlink: %s", strerror(errno));
}

/* The model still has the file open that @change takes the name from. */
static void unnamed(void (*change)(void), const char *what)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_park_info info = { .size = sizeof(info) };
	struct weir_weights *w = weights_with(0);

	o.flags = WEIR_PARK_CONSTANT;
	weir_weights_park(w, &o);
	change();
	is_int(weir_weights_unpark(w, NULL), 0,
	       "weights whose file was %s while they were parked come back",
	       what);
	is_int(sample_wrong(w, 1), 0, "with the bytes of that file");
	weir_weights_park(w, &o);
	if (weir_weights_park_info(w, &info) < 0)
		bail("%s", weir_error());
	is_int((long long)info.copied, 0,
	       "weights whose file was %s are parked without copies", what);
	is_int(weir_weights_unpark(w, NULL), 0, "and come back again");
	is_int(sample_wrong(w, 1), 0, "with the same bytes");
	weir_weights_free(w);
}

/* Copies of an unpark that failed must not replace what is loaded later. */
static void loaded_after_failure(void)
{
	struct weir_park_opts o = to_folder(dir);
	const size_t some_changed[] = { 7 };
	struct weir_weights *w = weights_with(0), *same;
	struct weir_event *event;
	struct weir_model *m;
	struct weir_plan *p;

	weir_tensor_fill(weir_weights_get(w, 7), 0, EACH * 4, 9);
	o.flags = WEIR_PARK_CONSTANT;
	o.changed = some_changed;
	o.n_changed = 1;
	weir_weights_park(w, &o);
	write_to_model();
	if (weir_event_new(root, 0, &event) < 0 ||
	    weir_weights_unpark(w, event) < 0)
		bail("%s", weir_error());
	weir_event_wait(event, -1);
	is_int(state_of(w), WEIR_PARK_FAILED, "weights fail to come back");
	replace_model();
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	weir_plan_add(p, NULL, kind, NULL);
	same = load(p, w);
	o = to_folder(dir);
	is_int(weir_weights_park(w, &o), 0, "they are loaded again and parked");
	is_int(weir_weights_unpark(w, NULL), 0, "they come back");
	is_int(sample_wrong(w, 2), 0, "with the bytes of the last load");
	weir_event_free(event);
	weir_weights_free(same);
	weir_plan_free(p);
	weir_model_close(m);
	weir_weights_free(w);
}

static void shared(void)
{
	const struct weir_park_opts o = to_folder(dir);
	struct weir_weights *w = weights_with(WEIR_BUF_SHARED), *theirs;
	struct weir_buft *mapped = memory_of("CPU", WEIR_MEM_MAPPED);
	int fd;

	is_err(weir_weights_park(w, &o), -EOPNOTSUPP, "they are shared",
	       "shared weights are not parked");
	if (weir_weights_share(w, &fd) < 0 ||
	    weir_weights_open(root, fd, mapped, &theirs) < 0)
		bail("%s", weir_error());
	is_err(weir_weights_park(theirs, &o), -EOPNOTSUPP,
	       "that of other processes too",
	       "weights of another process are not parked");
	is_int(sample_wrong(w, 1), 0, "they stay whole");
	close(fd);
	weir_weights_free(theirs);
	weir_weights_free(w);
}

/* Park weights whose target is in @block. */
static void park_target(struct weir_model *m, const struct weir_block *block,
			const char *title)
{
	struct weir_target target = { .size = sizeof(target) };
	struct weir_park_opts o = to_folder(dir);
	const int64_t shape[] = { EACH };
	struct weir_plan *p = new_plan(m);
	struct weir_weights *w;
	struct weir_tensor t;

	target.dst = &t;
	if (weir_tensor_init(&t, WEIR_DTYPE_F32, 1, shape) < 0 ||
	    weir_tensor_place(&t, block->buf, block->offset) < 0 ||
	    weir_plan_add_tensors(p, &target, 1) < 0)
		bail("%s", weir_error());
	w = load(p, NULL);
	o.flags = WEIR_PARK_TARGETS;
	is_err(weir_weights_park(w, &o), -EOPNOTSUPP, "they are a heap's", "%s",
	       title);
	weir_weights_free(w);
	weir_plan_free(p);
}

/* Weights in a block of a heap, which has blocks of others too. */
static void in_heap(void)
{
	const struct weir_park_opts o = to_folder(dir);
	struct weir_heap_opts over = WEIR_HEAP_OPTS_INIT;
	struct weir_buf_opts parkable = WEIR_BUF_OPTS_INIT;
	struct weir_heap *heap;
	struct weir_block block;
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;

	n_tensors = 0;
	add_tensor("F32", 4, EACH);
	m = model();
	p = new_plan(m);
	if (weir_heap_new(kind, NULL, &heap) < 0 ||
	    weir_heap_alloc(heap, EACH * 4, 4096, NULL, &block) < 0)
		bail("%s", weir_error());
	plan_add(p, NULL, block.buf, block.offset, 0);
	w = load(p, NULL);
	is_err(weir_weights_park(w, &o), -EINVAL, "in a buffer of the program",
	       "weights in a block of a heap are not parked");
	weir_weights_free(w);
	weir_plan_free(p);
	park_target(m, &block, "targets in a block of a heap are not parked");
	weir_heap_free(&block, NULL);
	weir_heap_destroy(heap);
	parkable.flags = WEIR_BUF_PARKABLE;
	if (weir_buf_alloc(kind, 2 * EACH * 4, &parkable, &over.buf) < 0 ||
	    weir_heap_new(kind, &over, &heap) < 0 ||
	    weir_heap_alloc(heap, EACH * 4, 4096, NULL, &block) < 0)
		bail("%s", weir_error());
	park_target(m, &block,
		    "nor are those of a heap in a buffer of the program");
	weir_heap_free(&block, NULL);
	weir_heap_destroy(heap);
	weir_buf_free(over.buf);
	weir_model_close(m);
}

/* A plan with a sink: its tensors have no memory and are not read again. */
static void sinks(void)
{
	static struct seen seen;
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w;
	struct weir_plan *p;
	struct weir_model *m;
	uint64_t bytes;
	size_t wrong = 0;

	some_tensors(30, 3000);
	m = model();
	p = new_plan(m);
	seen_init(&seen, m);
	sink(p, "*1*", &seen);
	weir_plan_add(p, NULL, kind, NULL);
	w = load(p, NULL);
	bytes = seen.bytes;
	o.flags = WEIR_PARK_CONSTANT;
	is_int(weir_weights_park(w, &o), 0,
	       "weights of a plan with a sink are parked");
	is_int(weir_weights_unpark(w, NULL), 0, "they come back");
	is_int((long long)(seen.bytes - bytes), 0,
	       "the sink gets nothing again");
	for (size_t i = 0; i < weir_weights_count(w); i++)
		if (weir_weights_get(w, i)->buf)
			wrong += !sample_holds(w, i, 1);
	is_int(wrong, 0, "the tensors with memory are whole");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

/* A plan whose target is a view of a tensor that is parked. */
static void plans_over(void)
{
	struct weir_park_opts o = to_folder(dir);
	struct weir_target target = { .size = sizeof(target), .tensor = 3 };
	struct weir_weights *w = weights_with(0), *twice;
	struct weir_tensor view = *weir_weights_get(w, 5);
	struct weir_model *m;
	struct weir_plan *p;

	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	target.dst = &view;
	if (weir_plan_add_tensors(p, &target, 1) < 0)
		bail("%s", weir_error());
	weir_weights_park(w, &o);
	ok(!load(p, NULL) && strstr(weir_error(), "is parked"),
	   "a plan over parked weights cannot be loaded: %s", weir_error());
	weir_weights_unpark(w, NULL);
	twice = load(p, NULL);
	ok(twice != NULL, "it can when they are back");
	is_mem(weir_tensor_data(&view),
	       weir_tensor_data(weir_weights_get(w, 3)), EACH * 4,
	       "it loads to their memory");
	weir_weights_free(twice);
	weir_plan_free(p);
	weir_model_close(m);
	weir_weights_free(w);
}

/* Buffers of two kinds: the second finds no memory. */
static void second_missing(void)
{
	struct weir_buft *plain = memory_of("CPU", WEIR_MEM_PLAIN);
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_buf *other;

	some_tensors(30, 3000);
	m = model();
	p = new_plan(m);
	weir_plan_add(p, "*1*", kind, NULL);
	weir_plan_add(p, NULL, plain, NULL);
	w = load(p, NULL);
	o.flags = WEIR_PARK_CONSTANT;
	is_int(weir_weights_park(w, &o), 0, "weights in two kinds are parked");
	is_int((long long)used(), 0, "both are released");
	weir_buft_set_budget(plain, MIB);
	if (weir_buf_alloc(plain, MIB, NULL, &other) < 0)
		bail("%s", weir_error());
	is_err(weir_weights_unpark(w, NULL), -ENOMEM, "budget",
	       "they do not come back if one kind has no memory");
	is_int((long long)used(), 0, "the other kind is released again");
	is_int(state_of(w), WEIR_PARK_PARKED, "they stay parked");
	weir_buf_free(other);
	is_int(weir_weights_unpark(w, NULL), 0, "later they come back");
	is_int(sample_wrong(w, 1), 0, "whole");
	weir_buft_set_budget(plain, 0);
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

#define TURNS 150

static void *park_and_unpark(void *arg)
{
	struct weir_weights *w = arg;
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;
	intptr_t wrong = 0;
	int r;

	o.flags = WEIR_PARK_CONSTANT;
	for (unsigned i = 0; i < TURNS; i++) {
		r = weir_weights_park(w, &o);
		wrong += r < 0 && r != -EBUSY && r != -EALREADY;
		state_of(w);
		r = weir_weights_unpark(w, NULL);
		wrong += r < 0 && r != -EBUSY && r != -EALREADY;
	}
	return (void *)wrong;
}

static void at_once(void)
{
	struct weir_weights *w = weights_with(0);
	intptr_t wrong = 0;
	pthread_t other;
	void *theirs;
	int r;

	if (pthread_create(&other, NULL, park_and_unpark, w))
		bail("no thread");
	wrong = (intptr_t)park_and_unpark(w);
	pthread_join(other, &theirs);
	is_int(wrong + (intptr_t)theirs, 0,
	       "threads that park at once are refused, or wait");
	r = weir_weights_unpark(w, NULL);
	ok(r == 0 || r == -EALREADY, "the weights come back");
	is_int(sample_wrong(w, 1), 0, "and are whole");
	weir_weights_free(w);
}

/* A load into weights that another thread parks is refused, or is whole. */
static void loads_at_once(void)
{
	struct weir_weights *w = weights_with(0), *same;
	struct weir_model *m;
	struct weir_plan *p;
	unsigned loaded = 0;
	pthread_t other;
	void *theirs;
	int r;

	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	weir_plan_add(p, NULL, kind, NULL);
	if (pthread_create(&other, NULL, park_and_unpark, w))
		bail("no thread");
	while (loaded < 30) {
		same = load(p, w);
		loaded += same == w;
		weir_weights_free(same);
	}
	pthread_join(other, &theirs);
	is_int((intptr_t)theirs, 0,
	       "a thread that parks weights which are loaded into is refused");
	r = weir_weights_unpark(w, NULL);
	ok(r == 0 || r == -EALREADY, "weights that were loaded into are back");
	is_int(sample_wrong(w, 1), 0, "with the bytes of the file");
	weir_weights_free(w);
	weir_plan_free(p);
	weir_model_close(m);
}

/* Weights that are freed while they come back. */
static void freed_returning(void)
{
	const struct weir_park_opts o = to_folder(dir);
	uint64_t before = used();

	for (unsigned i = 0; i < 20; i++) {
		struct weir_weights *w = weights_with(0);
		struct weir_event *event;

		if (weir_event_new(root, 0, &event) < 0 ||
		    weir_weights_park(w, &o) < 0 ||
		    weir_weights_unpark(w, event) < 0)
			bail("%s", weir_error());
		weir_weights_free(w);
		weir_event_wait(event, -1);
		weir_event_free(event);
	}
	weir_trim(root, 0);
	is_int((long long)used(), (long long)before,
	       "weights that are freed while they come back are freed");
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return killed_child(argv);
	plans_begin(5 * 5 + 5 + 2 * 2 + 8 + 5 + 2 * 5 + 4 + 3 + 3 + 4 + 3 + 7 +
		    3 + 3 + 1);
	no_room();
	with_names();
	weir_weights_free(weights_with(0)); /* writes the model */
	leftovers(argv[0], "unnamed");
	leftovers(argv[0], "named");
	written_to();
	fails_to_return();
	unnamed(remove_model, "removed");
	unnamed(replace_model, "replaced");
	loaded_after_failure();
	shared();
	in_heap();
	sinks();
	plans_over();
	second_missing();
	at_once();
	loads_at_once();
	freed_returning();
	return plans_end();
}
