/* SPDX-License-Identifier: MIT */
/*
 * Weights in memory of CUDA devices that several processes use. A process that
 * has used the driver cannot fork one that uses it too, so all of them are
 * started first; each waits for the name under which weights are published.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "kind.h"
#include "sample.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define SALT 3
#define WAIT 20000  /* ms; a test that waits longer has failed */
#define UNKNOWN 999 /* a CUresult */

static char path[] = "/var/tmp/weir-cuda-share-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "first", "F32", MIB, 4 },
	{ "empty", "F16", 0, 2 },
	{ "second", "U8", 3 * MIB + 17, 1 },
	{ "third", "F32", 1001, 4 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static struct weir *weir;

/* Another process, which runs @role. */
struct worker {
	pid_t pid;
	int to, from;
	char name[64]; /* of the publication */
};

static void hear(struct worker *w, void *what, size_t n)
{
	if (read(w->from, what, n) != (ssize_t)n)
		_exit(99);
}

static void say(struct worker *w, const void *what, size_t n)
{
	if (write(w->to, what, n) != (ssize_t)n)
		_exit(98);
}

/* Start a process whose devices are @visible (CUDA_VISIBLE_DEVICES). */
static struct worker start(int (*role)(struct worker *me), const char *visible)
{
	static unsigned number;
	struct worker w, me;
	int there[2], back[2];

	if (pipe(there) < 0 || pipe(back) < 0)
		bail("no pipe");
	memset(&w, 0, sizeof(w));
	snprintf(w.name, sizeof(w.name), "@weir-cuda-share-%ld-%u",
		 (long)getpid(), number++);
	me = w;
	me.from = there[0];
	me.to = back[1];
	w.to = there[1];
	w.from = back[0];
	w.pid = fork();
	if (!w.pid) {
		close(w.to);
		close(w.from);
		setenv("CUDA_VISIBLE_DEVICES", visible, 1);
		_exit(role(&me));
	}
	close(me.from);
	close(me.to);
	return w;
}

/* Let @w go on. It answers once it has done what it should do. */
static char step(struct worker *w)
{
	char c = 0;

	if (write(w->to, "g", 1) != 1 || read(w->from, &c, 1) != 1)
		return 0;
	return c;
}

static void reached(struct worker *me, char c)
{
	char go;

	say(me, &c, 1);
	hear(me, &go, 1);
}

static void begin(struct worker *me)
{
	char go;

	hear(me, &go, 1);
	open_fake();
	weir = open_cuda();
}

static int status_of(struct worker *w)
{
	int status = -1;

	close(w->to);
	close(w->from);
	waitpid(w->pid, &status, 0);
	return status;
}

static struct fakecuda_counts counts(void)
{
	struct fakecuda_counts c;

	fake.counts(&c);
	return c;
}

static int open_named(const char *name, struct weir_weights **ret)
{
	int fd, r = weir_published(weir, name, 0, &fd);

	if (r >= 0) {
		r = weir_weights_open(weir, fd, NULL, ret);
		close(fd);
	}
	return r;
}

static const char *memory_of(const struct weir_tensor *t)
{
	struct weir_buft_info type = { .size = sizeof(type) };
	struct weir_buf_info info = { .size = sizeof(info) };

	must(weir_buf_info(t->buf, &info));
	must(weir_buft_info(info.buft, &type));
	return type.name;
}

/* What is wrong, and the names of the tensors' memory, go to standard error. */
static int wrong(const char *what)
{
	fprintf(stderr, "# another process: %s: %s\n", what, weir_error());
	return 1;
}

/* Opens the weights, and reads them before and after the publisher has gone. */
static int reads(struct worker *me)
{
	struct weir_weights *w;
	struct fakecuda_counts c;

	begin(me);
	if (open_named(me->name, &w) < 0)
		return wrong("no weights");
	c = counts();
	if (c.to_device || c.to_host || c.queued || c.device_bytes)
		return wrong("opening them copies or allocates something");
	if (weir_weights_count(w) != N || sample_wrong(w, SALT))
		return wrong("the bytes");
	reached(me, 'r');
	if (sample_wrong(w, SALT))
		return wrong("the bytes of a publisher that has gone");
	weir_weights_free(w);
	weir_close(weir);
	return counts().live[FAKECUDA_DEVICE_MEMORY] ? wrong("memory is left")
						     : 0;
}

static int dies(struct worker *me)
{
	struct weir_weights *w;

	begin(me);
	if (open_named(me->name, &w) < 0 || sample_wrong(w, SALT))
		return wrong("no weights");
	return raise(SIGKILL);
}

/* The devices of this process have other numbers. */
static int renumbered(struct worker *me)
{
	struct weir_weights *w;

	begin(me);
	if (open_named(me->name, &w) < 0 || sample_wrong(w, SALT))
		return wrong("no weights");
	if (strcmp(memory_of(weir_weights_find(w, "first")), "CUDA1") ||
	    strcmp(memory_of(weir_weights_find(w, "second")), "CUDA0") ||
	    strcmp(memory_of(weir_weights_find(w, "third")), "CPU_Mapped"))
		return wrong("another device");
	weir_weights_free(w);
	weir_close(weir);
	return 0;
}

/* This process has only one of the two devices. */
static int blind(struct worker *me)
{
	struct weir_weights *w;
	int r;

	begin(me);
	r = open_named(me->name, &w);
	if (r != -ENODEV || !strstr(weir_error(), "UUID 77656972-") ||
	    !strstr(weir_error(), "CUDA1"))
		return wrong("not the error of a device that is missing");
	weir_close(weir);
	return 0;
}

static int try_alloc(struct weir_buft *buft, uint32_t flags,
		     struct weir_buf **ret)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;

	o.flags = flags;
	return weir_buf_alloc(buft, 3 * MIB, &o, ret);
}

/* The driver of this process lacks a call. */
static int lacking(struct worker *me)
{
	struct weir_buf *buf;
	int r;

	setenv("FAKECUDA_NO", "cuMemImportFromShareableHandle", 1);
	begin(me);
	r = try_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), WEIR_BUF_SHARED, &buf);
	if (r != -EOPNOTSUPP || !strstr(weir_error(), "lacks the calls"))
		return wrong("not the error of a driver without a call");
	weir_close(weir);
	return 0;
}

static struct weir_weights *load(uint32_t flags)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;

	o.buf_flags = flags;
	must(weir_load_all(weir, path, gpu_memory(weir, WEIR_MEM_DEVICE), &o,
			   &w));
	return w;
}

static struct weir_publication *publish(struct weir_weights *w,
					const char *name)
{
	struct weir_publication *p;
	int fd;

	must(weir_weights_share(w, &fd));
	must(weir_publish(weir, name, fd, 0, &p));
	close(fd);
	return p;
}

/* Publishes weights until it is killed. */
static int publishes(struct worker *me)
{
	begin(me);
	publish(load(WEIR_BUF_SHARED), me->name);
	reached(me, 'p');
	return 1;
}

static void add(struct weir_plan *plan, const char *glob,
		struct weir_buft *buft)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;

	o.buf_flags = WEIR_BUF_SHARED;
	must(weir_plan_add(plan, glob, buft, &o));
}

/* Weights in memory of two devices, and of the host. */
static struct weir_weights *load_apart(void)
{
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;
	struct weir_weights *w;

	must(weir_model_open(weir, path, NULL, &model));
	must(weir_plan_new(model, &plan));
	add(plan, "first", kind_of(weir, "CUDA0", WEIR_MEM_DEVICE));
	add(plan, "second", kind_of(weir, "CUDA1", WEIR_MEM_DEVICE));
	add(plan, "*", kind_of(weir, "CPU", WEIR_MEM_HUGE));
	must(weir_load_start(plan, NULL, &load));
	must(weir_load_wait(load, -1));
	must(weir_load_weights(load, &w));
	weir_load_free(load);
	weir_plan_free(plan);
	weir_model_close(model);
	return w;
}

/* Publishes weights, and frees them while the reader has them. */
static void one_copy(struct worker *reader, struct worker *killed,
		     struct worker *late)
{
	struct weir_weights *w = load(WEIR_BUF_SHARED);
	struct fakecuda_counts before = counts(), after;
	struct weir_publication *p = publish(w, reader->name);
	struct weir_publication *q = publish(w, killed->name);
	struct weir_publication *last = publish(w, late->name);

	after = counts();
	ok(after.queued == before.queued &&
		   after.device_bytes == before.device_bytes &&
		   after.to_host == before.to_host,
	   "sharing weights copies and allocates no byte");
	is_int(step(reader), 'r',
	       "another process reads weights of a device without a copy");
	step(killed);
	ok(WIFSIGNALED(status_of(killed)),
	   "a process that has opened weights is killed");
	is_int((int)sample_wrong(w, SALT), 0,
	       "which has no effect on the process that has shared them");
	weir_publication_free(p);
	weir_publication_free(q);
	weir_weights_free(w);
	ok(step(reader) == 0 && status_of(reader) == 0,
	   "weights that are freed where they were loaded stay where they are open");
	is_int(step(late), 'r',
	       "and are opened by other processes while they are published");
	weir_publication_free(last);
	ok(step(late) == 0 && status_of(late) == 0, "also until then");
}

static void publisher_dies(struct worker *publisher)
{
	struct weir_weights *w;

	is_int(step(publisher), 'p', "another process publishes weights");
	must(open_named(publisher->name, &w));
	kill(publisher->pid, SIGKILL);
	ok(WIFSIGNALED(status_of(publisher)), "and is killed");
	is_int((int)sample_wrong(w, SALT), 0,
	       "weights that are open stay whole when their publisher is killed");
	ok(open_named(publisher->name, &w) < 0,
	   "and are not published any more");
	weir_weights_free(w);
}

static void several_devices(struct worker *other, struct worker *less)
{
	struct weir_weights *w = load_apart(), *copy;
	struct weir_publication *p = publish(w, other->name),
				*q = publish(w, less->name);

	step(other);
	is_int(status_of(other), 0,
	       "each device is found where devices have other numbers");
	step(less);
	is_int(status_of(less), 0,
	       "a process without one of the devices is told which it lacks");
	must(open_named(other->name, &copy));
	is_str(memory_of(weir_weights_find(copy, "second")), "CUDA1",
	       "weights of several devices are opened in the same process");
	is_int((int)sample_wrong(copy, SALT), 0, "with their bytes");
	weir_weights_free(copy);
	weir_publication_free(p);
	weir_publication_free(q);
	weir_weights_free(w);
}

static int load_into(struct weir_weights *w)
{
	struct weir_target target = { .size = sizeof(target) };
	struct weir_model *model;
	struct weir_plan *plan;
	int r;

	must(weir_model_open(weir, path, NULL, &model));
	must(weir_plan_new(model, &plan));
	target.dst = weir_weights_find(w, "first");
	target.tensor = 0;
	r = weir_plan_add_tensors(plan, &target, 1);
	weir_plan_free(plan);
	weir_model_close(model);
	return r;
}

static uint32_t got_of(const struct weir_tensor *t, char why[240])
{
	struct weir_buf_info info = { .size = sizeof(info) };

	must(weir_buf_info(t->buf, &info));
	memcpy(why, info.why, 240);
	return info.got;
}

static struct weir_weights *shared_again(struct weir_weights *w)
{
	struct weir_weights *copy;
	int fd;

	must(weir_weights_share(w, &fd));
	must(weir_weights_open(weir, fd, NULL, &copy));
	close(fd);
	return copy;
}

static void only_read(void)
{
	struct weir_weights *w = load(WEIR_BUF_SHARED), *copy = shared_again(w);
	const struct weir_tensor *t = weir_weights_find(copy, "first");
	struct weir_stream *s = gpu_stream(weir, "writer", 0);
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_heap *heap;
	char why[240], byte = 1;
	int fd;

	is_int((int)got_of(t, why), WEIR_GOT_SHARED,
	       "opened weights are in shared memory");
	is_str(why, "", "which is mapped for reading only");
	is_err(weir_tensor_set(t, 0, &byte, 1), -EROFS, "read-only",
	       "a blocking write is refused");
	is_err(weir_tensor_fill(t, 0, 1, 0), -EROFS, "read-only", "and a fill");
	is_err(weir_stream_fill(s, t, 0, 4, 0), -EROFS, "read-only",
	       "and work of a stream");
	is_err(load_into(copy), -EINVAL, "cannot be written", "and a load");
	o.buf = t->buf;
	is_err(weir_heap_new(NULL, &o, &heap), -EINVAL, "read-only",
	       "and a heap");
	is_err(weir_weights_share(copy, &fd), -EOPNOTSUPP, "WEIR_BUF_SHARED",
	       "opened weights are not shared again");
	is_err(weir_weights_park(copy, NULL), -EOPNOTSUPP, "cannot be parked",
	       "nor parked");
	weir_weights_free(copy);
	fake.set("NO", "readaccess");
	copy = shared_again(w);
	got_of(weir_weights_find(copy, "first"), why);
	has_str(why, "cuMemSetAccess: CUDA_ERROR_NOT_SUPPORTED",
		"a driver that cannot map it so is reported");
	is_int((int)sample_wrong(copy, SALT), 0, "and the weights are read");
	fake.set("NO", "");
	weir_stream_free(s);
	weir_weights_free(copy);
	weir_weights_free(w);
}

static struct weir_tensor whole(struct weir_buf *buf, size_t n)
{
	int64_t shape = (int64_t)n;
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&t, buf, 0));
	return t;
}

static void buffers(void)
{
	struct weir_buft *device = gpu_memory(weir, WEIR_MEM_DEVICE);
	struct weir_buf *buf, *part;
	struct weir_tensor a, b;
	unsigned char bytes[3] = { 0 };
	int fd, unwanted;

	must(try_alloc(device, WEIR_BUF_SHARED, &buf));
	a = whole(buf, 3 * MIB);
	is_err(weir_buf_share(a.buf, 0, &unwanted), -EOPNOTSUPP,
	       "set WEIR_SHARE_WRITABLE",
	       "device memory is not shared for reading only");
	is_int(weir_buf_share(a.buf, WEIR_SHARE_WRITABLE, &fd), 0,
	       "a buffer of device memory has a descriptor");
	is_int(weir_buf_wrap_fd(device, fd, 2 * MIB + 5, 1000, 0, &part), 0,
	       "a part of it is wrapped");
	b = whole(part, 1000);
	must(weir_tensor_set(&a, 2 * MIB + 5, "abc", 3));
	must(weir_tensor_get(&b, 0, bytes, 3));
	ok(!memcmp(bytes, "abc", 3), "it is the same memory");
	must(weir_tensor_set(&b, 1, "X", 1));
	must(weir_tensor_get(&a, 2 * MIB + 5, bytes, 3));
	ok(!memcmp(bytes, "aXc", 3), "and can be written to");
	is_err(weir_buf_wrap_fd(device, fd, 3 * MIB, 2 * MIB, 0, &buf), -EINVAL,
	       "2097152 bytes at 3145728 of descriptor",
	       "more than it has is refused");
	is_err(weir_buf_wrap_fd(kind_of(weir, "CUDA1", WEIR_MEM_DEVICE), fd, 0,
				MIB, 0, &buf),
	       -EINVAL, "another device", "another device is refused");
	is_err(weir_buf_wrap_fd(kind_of(weir, "CPU", WEIR_MEM_PLAIN), fd, 0,
				MIB, WEIR_WRAP_READONLY, &buf),
	       -EINVAL, "WEIR_MEM_MAPPED",
	       "host memory is wrapped for reading only by its kind");
	close(fd);
	is_err(weir_buf_wrap_fd(device, fd, 0, MIB, 0, &buf), -EBADF,
	       "descriptor", "a closed descriptor is refused");
	is_err(weir_buf_wrap_fd(device, 0, 0, MIB, 0, &buf), -EINVAL,
	       "CUDA_ERROR_INVALID_VALUE",
	       "a descriptor of something else is refused");
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void unable(void)
{
	struct weir_weights *w = load(0);
	struct weir_buf *buf;
	int fd;

	is_err(weir_weights_share(w, &fd), -EOPNOTSUPP, "WEIR_BUF_SHARED",
	       "other weights of a device are not shared");
	weir_weights_free(w);
	is_err(try_alloc(gpu_memory(weir, WEIR_MEM_DEVICE),
			 WEIR_BUF_SHARED | WEIR_BUF_PARKABLE, &buf),
	       -EINVAL, "cannot be parked",
	       "memory is either shared or can be parked");
	weir_close(weir);
	fake.set("NO", "export");
	weir = open_cuda();
	is_err(try_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), WEIR_BUF_SHARED,
			 &buf),
	       -EOPNOTSUPP, "cannot export it as a file descriptor",
	       "a device that cannot export memory has no shared memory");
	weir_close(weir);
	fake.set("NO", "");
	weir = open_cuda();
}

static int allocates(void)
{
	struct weir_buf *buf;
	int r = try_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), WEIR_BUF_SHARED,
			  &buf);

	if (r >= 0)
		weir_buf_free(buf);
	return r;
}

static struct weir_weights *given;
static int given_fd;

static int shares(void)
{
	int fd, r = weir_weights_share(given, &fd);

	if (r >= 0)
		close(fd);
	return r;
}

static int opens(void)
{
	struct weir_weights *w;
	int r = weir_weights_open(weir, given_fd, NULL, &w);

	if (r >= 0)
		weir_weights_free(w);
	return r;
}

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* What there is while nothing is opened. A thread frees device memory. */
struct state {
	unsigned long memory;
	uint64_t bytes;
	int fds;
};

static struct state state_now(void)
{
	struct fakecuda_counts c = counts();

	return (struct state){ c.live[FAKECUDA_DEVICE_MEMORY], c.device_bytes,
			       descriptors() };
}

static bool becomes(const struct state *want)
{
	for (int ms = 0; ms < WAIT; ms += 10) {
		struct state now = state_now();

		if (now.memory == want->memory && now.bytes == want->bytes &&
		    now.fds == want->fds)
			return true;
		usleep(10000);
	}
	return false;
}

/* @fn fails if the driver's @call does, and leaves nothing behind. */
static void fails(const struct state *before, int (*fn)(void), const char *what,
		  const char *call)
{
	bool good;
	int r;

	fake.arm(call, 1, FAKECUDA_ONCE, UNKNOWN);
	r = fn();
	fake.disarm();
	good = r < 0 && becomes(before);
	ok(good && fn() >= 0 && becomes(before),
	   "%s fails with %s, leaves nothing, and works again", what, call);
}

/* The root has just been opened: nothing waits to be freed. */
static void faults(void)
{
	static const char *const allocating[] = {
		"cuMemGetAllocationGranularity", "cuMemAddressReserve",
		"cuMemCreate", "cuMemMap", "cuMemSetAccess",
	}, *const sharing[] = {
		"cuMemRetainAllocationHandle", "cuMemExportToShareableHandle",
	}, *const opening[] = {
		"cuMemImportFromShareableHandle",
		"cuMemGetAllocationPropertiesFromHandle",
		"cuMemGetAllocationGranularity", "cuMemAddressReserve",
		"cuMemMap",
	};

	struct state before;

	given = load(WEIR_BUF_SHARED);
	must(weir_weights_share(given, &given_fd));
	before = state_now();
	for (unsigned i = 0; i < 5; i++)
		fails(&before, allocates, "allocating shared memory",
		      allocating[i]);
	for (unsigned i = 0; i < 2; i++)
		fails(&before, shares, "sharing weights", sharing[i]);
	for (unsigned i = 0; i < 5; i++)
		fails(&before, opens, "opening weights", opening[i]);
	fake.arm("cuMemSetAccess", 1, FAKECUDA_FROM_THEN_ON, UNKNOWN);
	ok(opens() < 0, "weights to which access is refused are not opened");
	fake.disarm();
	is_int(opens(), 0, "until it is granted");
	weir_weights_free(given);
	close(given_fd);
}

/* In a child: the driver cannot be used, since the parent does. */
static int opens_in_child(int fd)
{
	struct weir_weights *w;

	weir = open_cuda();
	return weir_weights_open(weir, fd, NULL, &w) == -ENODEV ? 0 : 1;
}

static void forked(void)
{
	struct weir_weights *w = load(WEIR_BUF_SHARED), *copy = shared_again(w);
	int fd, status = -1;
	pid_t pid;

	must(weir_weights_share(w, &fd));
	pid = fork();
	if (!pid)
		_exit(opens_in_child(fd));
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "a child of a process that uses the driver has no such device");
	is_int((int)sample_wrong(copy, SALT), 0,
	       "and has no effect on its parent");
	close(fd);
	weir_weights_free(copy);
	weir_weights_free(w);
}

static void lost(void)
{
	struct weir_weights *w = load(WEIR_BUF_SHARED), *copy = shared_again(w);
	char byte;
	int fd, more;

	must(weir_weights_share(w, &fd));
	fake.arm("cuMemcpyDtoHAsync", 1, FAKECUDA_LOST, 719);
	weir_tensor_get(weir_weights_get(w, 0), 0, &byte, 1);
	fake.disarm();
	is_err(weir_weights_share(w, &more), -ENODEV, "CUDA0",
	       "weights of a lost device are not shared");
	is_err(weir_weights_open(weir, fd, NULL, &(struct weir_weights *){ 0 }),
	       -ENODEV, "CUDA0", "nor opened");
	close(fd);
	weir_weights_free(copy);
	weir_weights_free(w);
	ok(true, "and are freed");
}

int main(void)
{
	struct worker reader, killed, late, publisher, other, less, old;
	int fd = mkstemp(path);

	plan(7 + 4 + 4 + 1 + 11 + 10 + 3 + 14 + 2 + 2 + 3);
	setenv("FAKECUDA_DEVICES", "2", 1);
	signal(SIGPIPE, SIG_IGN);
	close(fd);
	sample_write(path, tensors, N, 0, SALT);
	reader = start(reads, "0");
	killed = start(dies, "0,1");
	late = start(reads, "1,0");
	publisher = start(publishes, "0,1");
	other = start(renumbered, "1,0");
	less = start(blind, "0");
	old = start(lacking, "0");
	open_fake();
	weir = open_cuda();
	one_copy(&reader, &killed, &late);
	publisher_dies(&publisher);
	several_devices(&other, &less);
	step(&old);
	is_int(status_of(&old), 0,
	       "a driver without the calls has no shared memory");
	only_read();
	buffers();
	unable();
	faults();
	forked();
	weir_close(weir);
	all_given_back("at the end");
	weir = open_cuda();
	lost();
	weir_close(weir);
	unlink(path);
	return done_testing();
}
