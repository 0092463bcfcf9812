/* SPDX-License-Identifier: MIT */
/* A backend that is part of the program: weir_backend_add. */
#include <errno.h>
#include <string.h>

#include <weir.h>

#include <weir/backend.h>
#include "tap.h"
#include "testmod.h"

static const struct weir_backend_host *lib;
static unsigned opened, closed;

/* The device of this backend shares the host's memory. */
static int own_probe(struct weir *weir, const struct weir_backend_host *host,
		     struct weir_backend_probe *probe)
{
	const struct weir_backend_buft memory = {
		.size = sizeof(memory),
		.name = "OWN0",
		.kind = WEIR_MEM_DEVICE,
		.flags = WEIR_BUFT_HOST,
		.align = 64,
		.max = 1u << 20,
	};
	const struct weir_backend_buft *const memories[] = { &memory };
	const struct weir_backend_dev desc = {
		.size = sizeof(desc),
		.name = "OWN0",
		.description = "A device of the program",
		.type = WEIR_DEV_IGPU,
		.caps = WEIR_CAP_HOST_MEMORY,
		.node = -1,
		.n_bufts = 1,
		.buft = memories,
	};

	(void)weir;
	return host->dev_describe(probe, &desc);
}

static int own_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state)
{
	(void)dev;
	(void)i;
	(void)params;
	*ret_state = &opened;
	opened++;
	return 0;
}

static void own_dev_close(struct weir_dev *dev, void *state)
{
	(void)dev;
	closed += state == &opened;
}

static int own_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			  uint64_t *ret_total)
{
	(void)dev;
	(void)i;
	return lib->host_available(ret_free, ret_total);
}

static int own_alloc(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, const struct weir_buf_opts *opts,
		     struct weir_backend_mem *mem)
{
	(void)desc;
	return lib->host_alloc(lib->dev_root(dev), WEIR_MEM_PLAIN, bytes, -1,
			       opts->flags, mem);
}

static void own_free(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, struct weir_backend_mem *mem)
{
	(void)desc;
	(void)bytes;
	lib->host_free(lib->dev_root(dev), mem);
}

static int own_queue_open(struct weir_dev *dev, unsigned flags,
			  const char *name, void **ret_queue)
{
	(void)dev;
	(void)flags;
	(void)name;
	(void)ret_queue;
	return lib->fail(-EOPNOTSUPP, "the program's device has no queues");
}

static void own_queue_close(void *queue)
{
	(void)queue;
}

static int own_submit(void *queue, struct weir_backend_work *work)
{
	(void)queue;
	(void)work;
	return -EOPNOTSUPP;
}

static const struct weir_backend_mem_ops own_mem = {
	.size = sizeof(own_mem),
	.alloc = own_alloc,
	.free = own_free,
};

static const struct weir_backend_queue_ops own_queue = {
	.size = sizeof(own_queue),
	.open = own_queue_open,
	.close = own_queue_close,
	.submit = own_submit,
};

static struct weir_backend own = {
	.size = sizeof(own),
	.abi = WEIR_BACKEND_ABI,
	.name = "OWN",
	.probe = own_probe,
	.dev_open = own_dev_open,
	.dev_close = own_dev_close,
	.dev_memory = own_dev_memory,
	.mem = &own_mem,
	.queue = &own_queue,
};

static const struct weir_backend *
own_entry(const struct weir_backend_host *host, int *ret_err)
{
	(void)ret_err;
	lib = host;
	return &own;
}

static const struct weir_backend *
useless_entry(const struct weir_backend_host *host, int *ret_err)
{
	*ret_err = host->fail(-ENODEV, "no such hardware");
	return NULL;
}

static const struct weir_backend *
silent_entry(const struct weir_backend_host *host, int *ret_err)
{
	(void)host;
	(void)ret_err;
	return NULL;
}

static void device_is_used(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir *weir = open_with_modules("/nonexistent", 0);
	const int64_t shape = 4096;
	struct weir_dev *dev = NULL, *best = NULL;
	unsigned char in[4096], out[4096];
	struct weir_buft *memory;
	struct weir_tensor t;
	struct weir_buf *buf;

	memset(in, 7, sizeof(in));
	is_int(weir_backend_add(weir, own_entry), 0,
	       "a backend of the program is added");
	is_int(weir_dev_find(weir, "OWN0", &dev), 0,
	       "the device of a program's backend is found by name");
	weir_dev_best(weir, &best);
	ok(best == dev, "an IGPU is the best device where there is no GPU");
	weir_dev_info(dev, &info);
	ok(!strcmp(info.backend, "OWN") && !info.module,
	   "a device of the program has no module");
	if (weir_dev_buft(dev, WEIR_MEM_DEVICE, &memory) < 0 ||
	    weir_buf_alloc(memory, sizeof(in), NULL, &buf) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0 ||
	    weir_tensor_set(&t, 0, in, sizeof(in)) < 0 ||
	    weir_tensor_get(&t, 0, out, sizeof(out)) < 0)
		bail("%s", weir_error());
	is_mem(in, out, sizeof(in),
	       "memory of the program's device keeps bytes");
	weir_buf_free(buf);
	is_int(opened, 1, "the program's device is opened at its first use");
	weir_close(weir);
	is_int(closed, 1, "the program's device is closed with the root");
}

static void refusals(void)
{
	struct weir *weir = open_with_modules("/nonexistent", 0);

	is_err(weir_backend_add(weir, useless_entry), -ENODEV,
	       "weir_backend_add: no such hardware",
	       "a backend says why it cannot be used");
	is_err(weir_backend_add(weir, silent_entry), -EBADMSG,
	       "gives no reason",
	       "a backend that fails without a reason is refused");
	own.abi++;
	is_err(weir_backend_add(weir, own_entry), -EPROTO, "ABI",
	       "a backend of another ABI is refused");
	own.abi--;
	is_int(weir_dev_count(weir), 1, "a refused backend adds no device");
	weir_backend_add(weir, own_entry);
	has_str(weir_error(), "ABI",
		"an added backend leaves the text of the last failure");
	is_err(weir_backend_add(weir, own_entry), -EEXIST,
	       "there is a backend OWN already",
	       "a backend is not added twice");
	is_int(weir_dev_count(weir), 2, "a backend's device is counted once");
	weir_close(weir);
}

static void before_the_search(void)
{
	const char *path = "", *why = "";
	struct weir *weir;

	module_copy("test", modules_dir(), "good");
	weir = open_with_modules(modules_dir(), 0);
	own.name = "TEST";
	is_int(weir_backend_add(weir, own_entry), 0,
	       "a backend is added before the search for modules");
	is_int(weir_dev_count(weir), 2,
	       "a module is left out if its name is that of a backend");
	weir_module_refused(weir, 0, &path, &why);
	has_str(why, "there is a backend TEST already",
		"the reason why the module was left out is the name");
	weir_close(weir);
	own.name = "OWN";
}

int main(void)
{
	plan(17);
	device_is_used();
	refusals();
	before_the_search();
	return done_testing();
}
