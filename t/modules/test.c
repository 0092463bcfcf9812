/* SPDX-License-Identifier: MIT */
/*
 * A backend module for tests, which behaves as its own file name says: copied
 * to weir-good.so it is a proper backend, to weir-align3.so one whose
 * alignment is 3, to weir-older.so one that was built with shorter tables. Its
 * memory has addresses that host code cannot use, so that a copy which does not
 * go through the backend crashes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#define FAR ((uintptr_t)1 << 62)
#define MIB ((size_t)1 << 20)

static const struct weir_backend_host *lib;
static char mode[64];

static bool is(const char *name)
{
	return !strcmp(mode, name);
}

static unsigned char *near(const void *p)
{
	return (unsigned char *)((uintptr_t)p & ~FAR);
}

static int test_alloc(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      const struct weir_buf_opts *opts,
		      struct weir_backend_mem *mem)
{
	uintptr_t far = desc->flags & WEIR_BUFT_HOST ? 0 : FAR;
	void *p;

	(void)dev;
	(void)opts;
	if (bytes == 1003)
		return 7;
	if (bytes == 1002)
		return lib->fail(-ENOMEM, "the test has no 1002 bytes");
	if (posix_memalign(&p, desc->align, bytes))
		return lib->fail(-ENOMEM, "no memory");
	mem->handle = p;
	mem->base = (unsigned char *)((uintptr_t)p | far) + (bytes == 1001);
	return 0;
}

static void test_free(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem)
{
	(void)dev;
	(void)desc;
	(void)bytes;
	free(mem->handle);
}

static int test_set(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	(void)dev;
	memcpy(near(dst), src, n);
	return 0;
}

static int test_get(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	(void)dev;
	if (n == 13)
		return -100000;
	if (n == 17)
		return lib->fail(-ETIMEDOUT, "the test is slow");
	memcpy(dst, near(src), n);
	return 0;
}

static int test_fill(struct weir_dev *dev, void *dst, uint8_t byte, size_t n)
{
	(void)dev;
	memset(near(dst), byte, n);
	return 0;
}

static int test_copy(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	(void)dev;
	memcpy(near(dst), near(src), n);
	return 0;
}

static int test_reach(struct weir_dev *dev, struct weir_dev *other)
{
	(void)dev;
	(void)other;
	return 0;
}

/* Rows of device memory end at a multiple of 512 bytes. */
static size_t test_alloc_size(struct weir_dev *dev,
			      const struct weir_backend_buft *desc,
			      const struct weir_tensor *t, size_t bytes)
{
	(void)dev;
	(void)t;
	if (desc->flags & WEIR_BUFT_HOST)
		return 0;
	return (bytes + 511) / 512 * 512;
}

static int test_queue_open(struct weir_dev *dev, unsigned flags,
			   const char *name, void **ret_queue)
{
	(void)dev;
	(void)flags;
	(void)name;
	(void)ret_queue;
	return lib->fail(-EOPNOTSUPP, "no queues");
}

static void test_queue_close(void *queue)
{
	(void)queue;
}

static int test_submit(void *queue, struct weir_backend_work *work)
{
	(void)queue;
	(void)work;
	return -EOPNOTSUPP;
}

/*
 * Tables as a newer module has them, with members that nobody here knows.
 */
struct newer_buft {
	struct weir_backend_buft desc;
	uint64_t unknown[3];
};

struct newer_dev {
	struct weir_backend_dev desc;
	uint64_t unknown[5];
};

/* A description and what it points to. */
struct desc {
	struct newer_dev dev;
	struct newer_buft device, pinned;
	const struct weir_backend_buft *buft[2];
};

static void describe(struct desc *d, unsigned i)
{
	struct weir_backend_dev *dev = &d->dev.desc;

	memset(d, 0xff, sizeof(*d));
	*dev = (struct weir_backend_dev){
		.size = is("newer") ? sizeof(d->dev) : sizeof(*dev),
		.description = "A device for tests",
		.type = WEIR_DEV_GPU,
		.caps = i || is("older") ? 0 : WEIR_CAP_COMPUTE,
		.node = -1,
		.n_bufts = 2,
		.buft = d->buft,
	};
	d->buft[0] = &d->device.desc;
	d->buft[1] = &d->pinned.desc;
	d->device.desc = (struct weir_backend_buft){
		.size = is("newer") ? sizeof(d->device) : sizeof(*d->buft[0]),
		.kind = WEIR_MEM_DEVICE,
		.align = 256,
		.max = MIB,
	};
	d->pinned.desc = (struct weir_backend_buft){
		.size = is("newer") ? sizeof(d->pinned) : sizeof(*d->buft[1]),
		.kind = WEIR_MEM_PINNED,
		.flags = WEIR_BUFT_HOST,
		.align = 64,
		.max = 4096,
	};
	snprintf(dev->name, sizeof(dev->name), "%s%u",
		 is("same") ? "OTHER" : "TEST", i);
	snprintf(d->device.desc.name, sizeof(d->device.desc.name), "%s",
		 dev->name);
	snprintf(d->pinned.desc.name, sizeof(d->pinned.desc.name), "%s_Pinned",
		 dev->name);
}

/* Mistakes that a backend may make in a description. */
static void spoil(struct desc *d)
{
	struct weir_backend_dev *dev = &d->dev.desc;

	if (is("align0"))
		d->device.desc.align = 0;
	if (is("align3"))
		d->device.desc.align = 3;
	if (is("max0"))
		d->pinned.desc.max = 0;
	if (is("noname"))
		dev->name[0] = '\0';
	if (is("longname"))
		memset(dev->name, 'x', sizeof(dev->name));
	if (is("oddname"))
		strcpy(dev->name, "a b");
	if (is("nobuft"))
		dev->n_bufts = 0;
	if (is("nullbuft"))
		d->buft[1] = NULL;
	if (is("manybuft"))
		dev->n_bufts = 1000;
	if (is("kind"))
		d->device.desc.kind = 99;
	if (is("twokinds"))
		d->pinned.desc.kind = WEIR_MEM_DEVICE;
	if (is("twonames"))
		strcpy(dev->name, "TEST1");
	if (is("cpuname"))
		strcpy(dev->name, "CPU");
	if (is("type"))
		dev->type = 99;
	if (is("endless"))
		memset(dev->description, 'x', sizeof(dev->description));
	if (is("descsize"))
		dev->size = 64;
	if (is("buftsize"))
		d->pinned.desc.size = 56;
}

static int test_probe(struct weir *weir, const struct weir_backend_host *host,
		      struct weir_backend_probe *probe)
{
	struct desc d;
	int r;

	host->log(weir, "the test module %s looks for devices", mode);
	if (is("positive"))
		return 1000000;
	if (is("notanerrno"))
		return -1000000;
	if (is("nodevice"))
		return host->fail(-ENODEV, "no such hardware here");
	if (is("silent"))
		return -EIO;
	for (unsigned i = 0; is("count") && i < 1000000; i++) {
		describe(&d, i);
		r = host->dev_describe(probe, &d.dev.desc);
		if (r < 0)
			return r;
	}
	describe(&d, 0);
	spoil(&d);
	r = host->dev_describe(probe, &d.dev.desc);
	if (r < 0 && !is("descsize")) /* which ignores the failure */
		return r;
	describe(&d, 1);
	return host->dev_describe(probe, &d.dev.desc);
}

static int test_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			 void **ret_state)
{
	(void)dev;
	(void)ret_state;
	if (i == 1 && *params)
		return 1;
	if (*params && strcmp(params, "virtual=2"))
		return lib->fail(-EINVAL,
				 "TEST: unknown '%s'; there is: virtual",
				 params);
	return 0;
}

static int test_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			   uint64_t *ret_total)
{
	(void)dev;
	*ret_free = i ? 2 * MIB : MIB;
	*ret_total = MIB;
	return 0;
}

static void answer(void)
{
}

static void (*test_proc(struct weir_dev *dev, const char *name))(void)
{
	(void)dev;
	return strcmp(name, "answer") ? NULL : answer;
}

static int test_supports(struct weir_dev *dev,
			 const struct weir_backend_node *node)
{
	(void)dev;
	(void)node;
	return lib->fail(-EOPNOTSUPP, "the test computes nothing");
}

static int test_prepare(struct weir_dev *dev,
			const struct weir_backend_node *const *nodes, size_t n,
			const struct weir_backend_prepare_opts *opts,
			void **ret_prepared, size_t *ret_workspace)
{
	(void)dev;
	(void)nodes;
	(void)n;
	(void)opts;
	(void)ret_prepared;
	(void)ret_workspace;
	return -EOPNOTSUPP;
}

static void test_release(struct weir_dev *dev, void *prepared)
{
	(void)dev;
	(void)prepared;
}

static struct weir_backend_compute_ops compute_ops = {
	.size = sizeof(compute_ops),
	.supports = test_supports,
	.prepare = test_prepare,
	.release = test_release,
};

/* The tables of a newer module too, by their size. */
static struct {
	struct weir_backend_mem_ops ops;
	uint64_t unknown[2];
} mem_ops = {
	.ops = {
		.size = sizeof(mem_ops.ops),
		.alloc = test_alloc,
		.free = test_free,
		.set = test_set,
		.get = test_get,
		.fill = test_fill,
		.copy = test_copy,
		.alloc_size = test_alloc_size,
	},
	.unknown = { UINT64_MAX, UINT64_MAX },
};

static struct {
	struct weir_backend_queue_ops ops;
	uint64_t unknown[2];
} queue_ops = {
	.ops = {
		.size = sizeof(queue_ops.ops),
		.open = test_queue_open,
		.close = test_queue_close,
		.submit = test_submit,
	},
	.unknown = { UINT64_MAX, UINT64_MAX },
};

static struct {
	struct weir_backend ops;
	uint64_t unknown[2];
} backend = {
	.ops = {
		.size = sizeof(backend.ops),
		.abi = WEIR_BACKEND_ABI,
		.name = "TEST",
		.probe = test_probe,
		.dev_open = test_dev_open,
		.dev_memory = test_dev_memory,
		.proc = test_proc,
		.mem = &mem_ops.ops,
		.queue = &queue_ops.ops,
		.compute = &compute_ops,
	},
	.unknown = { UINT64_MAX, UINT64_MAX },
};

/* Tables of another size than this library's. */
static void resize_tables(void)
{
	if (is("older")) {
		/* What follows is another object's, not NULL. */
		backend.ops.size = offsetof(struct weir_backend, compute);
		backend.ops.compute = (const void *)&backend;
		mem_ops.ops.size =
			offsetof(struct weir_backend_mem_ops, alloc_size);
		queue_ops.ops.size =
			offsetof(struct weir_backend_queue_ops, poll);
	}
	if (is("newer")) {
		backend.ops.size = sizeof(backend);
		mem_ops.ops.size = sizeof(mem_ops);
		queue_ops.ops.size = sizeof(queue_ops);
	}
	if (is("size0"))
		backend.ops.size = 0;
	if (is("short"))
		backend.ops.size = offsetof(struct weir_backend, queue);
	if (is("odd"))
		backend.ops.size -= 4;
	if (is("memsize"))
		mem_ops.ops.size = offsetof(struct weir_backend_mem_ops, free);
	if (is("queuesize"))
		queue_ops.ops.size = 8;
	if (is("computesize"))
		compute_ops.size = 16;
}

/* Mistakes that a backend may make in its tables. */
static void spoil_tables(void)
{
	if (is("abi0"))
		backend.ops.abi = 0;
	if (is("abi99"))
		backend.ops.abi = 99;
	if (is("nomem"))
		backend.ops.mem = NULL;
	if (is("noprobe"))
		backend.ops.probe = NULL;
	if (is("noalloc"))
		mem_ops.ops.alloc = NULL;
	if (is("noset"))
		mem_ops.ops.set = NULL;
	if (is("nofrom"))
		mem_ops.ops.reach = test_reach;
	if (is("nosubmit"))
		queue_ops.ops.submit = NULL;
	if (is("nosupports"))
		compute_ops.supports = NULL;
	if (is("nocompute"))
		backend.ops.compute = NULL;
	if (is("nobackend"))
		backend.ops.name = NULL;
	if (is("iscpu"))
		backend.ops.name = "CPU";
}

static void find_mode(void)
{
	char path[PATH_MAX];
	const char *name, *end;
	Dl_info info;

	/* The library opens it by its descriptor. */
	if (!dladdr(&backend, &info) || !realpath(info.dli_fname, path))
		return;
	name = strrchr(path, '/') + sizeof("weir-");
	end = strchr(name, '.');
	snprintf(mode, sizeof(mode), "%.*s", (int)(end - name), name);
}

__attribute__((visibility("default"))) weir_backend_entry_fn weir_module_entry;

const struct weir_backend *
weir_module_entry(const struct weir_backend_host *host, int *ret_err)
{
	static char endless[MIB + 1];

	lib = host;
	find_mode();
	if (is("null"))
		return NULL;
	if (is("error")) {
		*ret_err = host->fail(-ENODEV, "the driver is missing");
		return NULL;
	}
	resize_tables();
	spoil_tables();
	if (is("longbackend")) {
		memset(endless, 'x', MIB);
		backend.ops.name = endless;
	}
	return &backend.ops;
}
