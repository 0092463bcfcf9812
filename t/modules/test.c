/* SPDX-License-Identifier: MIT */
/*
 * A backend module for tests, which behaves as its own file name says: copied
 * to weir-good.so it is a proper backend, to weir-align3.so one whose
 * alignment is 3. Its memory has addresses that host code cannot use, so that
 * a copy which forgets the backend dies.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/backend.h"

#define FAR ((uintptr_t)1 << 62)
#define MIB ((size_t)1 << 20)

static const struct weir__host *lib;
static char mode[64];

static bool is(const char *name)
{
	return !strcmp(mode, name);
}

static unsigned char *near(const void *p)
{
	return (unsigned char *)((uintptr_t)p & ~FAR);
}

static int test_alloc(struct weir_dev *dev, const struct weir__buft_desc *desc,
		      size_t bytes, const struct weir_buf_opts *opts,
		      struct weir__mem *mem)
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

static void test_free(struct weir_dev *dev, const struct weir__buft_desc *desc,
		      size_t bytes, struct weir__mem *mem)
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
			      const struct weir__buft_desc *desc,
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

static int test_submit(void *queue, struct weir__work *work)
{
	(void)queue;
	(void)work;
	return -EOPNOTSUPP;
}

static void describe(struct weir__dev_desc *d, unsigned i)
{
	*d = (struct weir__dev_desc){
		.description = "A device for tests",
		.type = WEIR_DEV_GPU,
		.node = -1,
		.n_bufts = 2,
		.buft = { { "", WEIR_MEM_DEVICE, 0, 256, MIB },
			  { "", WEIR_MEM_PINNED, WEIR_BUFT_HOST, 64, 4096 } },
	};
	snprintf(d->name, sizeof(d->name), "%s%u",
		 is("same") ? "OTHER" : "TEST", i);
	snprintf(d->buft[0].name, sizeof(d->buft[0].name), "%s", d->name);
	snprintf(d->buft[1].name, sizeof(d->buft[1].name), "%s_Pinned",
		 d->name);
}

/* What a backend may get wrong in a description. */
static void spoil(struct weir__dev_desc *d)
{
	if (is("align0"))
		d->buft[0].align = 0;
	if (is("align3"))
		d->buft[0].align = 3;
	if (is("max0"))
		d->buft[1].max = 0;
	if (is("noname"))
		d->name[0] = '\0';
	if (is("longname"))
		memset(d->name, 'x', sizeof(d->name));
	if (is("oddname"))
		strcpy(d->name, "a b");
	if (is("nobuft"))
		d->n_bufts = 0;
	if (is("manybuft"))
		d->n_bufts = 1000;
	if (is("kind"))
		d->buft[0].kind = 99;
	if (is("twokinds"))
		d->buft[1].kind = WEIR_MEM_DEVICE;
	if (is("twonames"))
		strcpy(d->name, "TEST1");
	if (is("cpuname"))
		strcpy(d->name, "CPU");
	if (is("type"))
		d->type = 99;
	if (is("endless"))
		memset(d->description, 'x', sizeof(d->description));
}

static int test_probe(struct weir *weir, const struct weir__host *host,
		      struct weir__dev_desc *descs, unsigned max)
{
	(void)max;
	host->log(weir, "the test module %s looks for devices", mode);
	if (is("count"))
		return 1000000;
	if (is("countneg"))
		return -1000000;
	if (is("nodevice"))
		return host->fail(-ENODEV, "no such hardware here");
	if (is("silent"))
		return -EIO;
	describe(&descs[0], 0);
	describe(&descs[1], 1);
	spoil(&descs[0]);
	return 2;
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

static struct weir__mem_ops mem_ops = {
	.size = sizeof(mem_ops),
	.alloc = test_alloc,
	.free = test_free,
	.set = test_set,
	.get = test_get,
	.fill = test_fill,
	.copy = test_copy,
	.alloc_size = test_alloc_size,
};

static struct weir__queue_ops queue_ops = {
	.size = sizeof(queue_ops),
	.open = test_queue_open,
	.close = test_queue_close,
	.submit = test_submit,
};

static struct weir__backend backend = {
	.size = sizeof(backend),
	.abi = WEIR__ABI,
	.name = "TEST",
	.probe = test_probe,
	.dev_open = test_dev_open,
	.dev_memory = test_dev_memory,
	.proc = test_proc,
	.mem = &mem_ops,
	.queue = &queue_ops,
};

/* What a backend may get wrong in its tables. */
static void spoil_tables(void)
{
	if (is("abi0"))
		backend.abi = 0;
	if (is("abi99"))
		backend.abi = 99;
	if (is("size0"))
		backend.size = 0;
	if (is("size8"))
		backend.size += 8;
	if (is("memsize"))
		mem_ops.size -= 8;
	if (is("nomem"))
		backend.mem = NULL;
	if (is("noprobe"))
		backend.probe = NULL;
	if (is("noalloc"))
		mem_ops.alloc = NULL;
	if (is("noset"))
		mem_ops.set = NULL;
	if (is("nofrom"))
		mem_ops.reach = test_reach;
	if (is("nosubmit"))
		queue_ops.submit = NULL;
	if (is("nobackend"))
		backend.name = NULL;
	if (is("iscpu"))
		backend.name = "CPU";
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

__attribute__((visibility("default"))) weir__module_entry_fn weir_module_entry;

const struct weir__backend *weir_module_entry(const struct weir__host *host,
					      int *ret_err)
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
	spoil_tables();
	if (is("longbackend")) {
		memset(endless, 'x', MIB);
		backend.name = endless;
	}
	return &backend;
}
