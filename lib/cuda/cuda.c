/* SPDX-License-Identifier: MIT */
/* The backend's table and its entry; a device's parameters and state. */
#include "cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "interop/cuda_ext.h"

#define drv weir__cuda_drv
/* Bytes of the library's table that this module needs. */
#define HOST_LEAST WEIR_BACKEND_END_OF(struct weir_backend_host, host_hide)

struct weir_backend_host weir__cuda_host;

struct weir__cuda *weir__cuda_of(struct weir_dev *dev)
{
	return weir__cuda_host.dev_state(dev);
}

/* The parameters of a device, from "k=v,...". */
struct dev_params {
	unsigned parts;   /* virtual=N */
	bool batches;     /* batch=no: never */
	bool locks_files; /* lock=no: not */
};

static bool param_is(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && !strncmp(text, word, n);
}

/* The value of @name=yes or no, which has @n bytes. */
static int parse_choice(const char *name, const char *text, size_t n,
			struct weir__cuda_number device, bool *ret)
{
	if (!param_is(text, n, "yes") && !param_is(text, n, "no"))
		return weir__cuda_host.fail(
			-EINVAL, "CUDA%u: %s=%.*s is neither yes nor no",
			device.ordinal, name, (int)n, text);
	*ret = param_is(text, n, "yes");
	return 0;
}

static int parse_param(const char *text, size_t n,
		       struct weir__cuda_number device, struct dev_params *ret)
{
	if (n > 6 && !strncmp(text, "batch=", 6))
		return parse_choice("batch", text + 6, n - 6, device,
				    &ret->batches);
	if (n > 5 && !strncmp(text, "lock=", 5))
		return parse_choice("lock", text + 5, n - 5, device,
				    &ret->locks_files);
	if (n > 8 && !strncmp(text, "virtual=", 8) && !device.part)
		return weir__cuda_virtual_parse(text + 8, n - 8, device.ordinal,
						&ret->parts);
	return weir__cuda_host.fail(
		-EINVAL,
		"CUDA%u: unknown parameter '%.*s'; there are: virtual=N, batch=no, lock=no",
		device.ordinal, (int)n, text);
}

static int parse_params(const char *params, struct weir__cuda_number n,
			struct dev_params *ret)
{
	int r = 0;

	*ret = (struct dev_params){ .parts = 1,
				    .batches = true,
				    .locks_files = true };
	while (*params && r >= 0) {
		size_t len = strcspn(params, ",");

		r = parse_param(params, len, n, ret);
		params += len;
		params += *params == ',';
	}
	return r;
}

static int no_state(struct weir__cuda *c, CUresult r, const char *call)
{
	int ret = weir__cuda_fail(c, r, "%s", call);

	weir__cuda_host.free(c);
	return ret;
}

static int make_state(struct weir_dev *dev, struct weir__cuda_number n,
		      struct weir__cuda **ret_state)
{
	struct weir__cuda *c = weir__cuda_host.calloc(1, sizeof(*c));
	char pci[16] = "";
	CUresult r;

	if (!c)
		return weir__cuda_host.fail(-ENOMEM, "no memory for a device");
	c->host = &weir__cuda_host;
	c->dev = dev;
	r = drv.cuDeviceGet(&c->device, (int)n.ordinal);
	if (r)
		return no_state(c, r, "cuDeviceGet");
	weir__cuda_relax();
	r = drv.cuDevicePrimaryCtxRetain(&c->context, c->device);
	weir__cuda_restore();
	if (r)
		return no_state(c, r, "cuDevicePrimaryCtxRetain");
	weir__cuda_pci(c->device, pci, sizeof(pci));
	c->node = weir__cuda_node(c->device, pci);
	c->reads_only = weir__cuda_attribute(
		c->device,
		CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0);
	c->max_pitch = (size_t)weir__cuda_attribute(
		c->device, CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT32_MAX);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->bounce_lock, NULL);
	*ret_state = c;
	return 0;
}

static void free_bounces(struct weir__cuda *c)
{
	void *ptr, *next;

	pthread_mutex_lock(&c->bounce_lock);
	ptr = c->bounces;
	c->bounces = NULL;
	pthread_mutex_unlock(&c->bounce_lock);
	if (!ptr || weir__cuda_push(c))
		return;
	for (; ptr; ptr = next) {
		next = *(void **)ptr;
		weir__cuda_note(c, drv.cuMemFreeHost(ptr));
	}
	weir__cuda_leave();
}

void weir__cuda_trim(struct weir_dev *dev)
{
	free_bounces(weir__cuda_of(dev));
}

static void cuda_dev_close(struct weir_dev *dev, void *state)
{
	struct weir__cuda *c = state;
	CUresult r = CUDA_SUCCESS;

	free_bounces(c);
	/* On a lost device any call may hang. */
	if (!atomic_load(&c->lost)) {
		if (c->blocking && !weir__cuda_push(c)) {
			r = drv.cuStreamDestroy(c->blocking);
			weir__cuda_leave();
		}
		weir__cuda_note(c, r);
	}
	if (!atomic_load(&c->lost)) {
		weir__cuda_relax();
		r = drv.cuDevicePrimaryCtxRelease(c->device);
		weir__cuda_restore();
		if (r && r != CUDA_ERROR_DEINITIALIZED)
			c->host->log(c->host->dev_root(dev),
				     "%s: its context could not be released",
				     c->host->dev_name(dev));
	}
	pthread_mutex_destroy(&c->bounce_lock);
	pthread_mutex_destroy(&c->lock);
	weir__cuda_host.free(c);
}

static int cuda_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			 void **ret_state)
{
	struct weir__cuda_number n = weir__cuda_number(i);
	struct weir__cuda *c = NULL;
	struct dev_params p;
	int r = parse_params(params, n, &p);

	if (r >= 0)
		r = make_state(dev, n, &c);
	if (r < 0)
		return r;
	/*
	 * A batch contains host addresses. On a device that has other addresses
	 * for registered memory it would fail later, as an illegal address.
	 */
	c->batches =
		p.batches &&
		!weir__cuda_host.debug(weir__cuda_host.dev_root(dev),
				       "batch=no") &&
		weir__cuda_attribute(
			c->device,
			CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
			0);
	c->locks_files = p.locks_files;
	c->parts = n.part ? n.parts : p.parts;
	r = weir__cuda_virtual_add(dev, n.ordinal, p.parts);
	if (r < 0) {
		cuda_dev_close(dev, c);
		return r;
	}
	*ret_state = c;
	return 0;
}

/* Ask the driver, if the device has its context already. */
static int driver_memory(struct weir__cuda *c, uint64_t *ret_free,
			 uint64_t *ret_total)
{
	size_t avail, total;
	CUresult r;

	if (!drv.cuMemGetInfo || weir__cuda_enter(c) < 0)
		return -ENODATA;
	r = drv.cuMemGetInfo(&avail, &total);
	weir__cuda_leave();
	if (r)
		return weir__cuda_fail(c, r, "cuMemGetInfo");
	*ret_free = avail;
	*ret_total = total;
	return 0;
}

/* Ask NVML, which makes no context. */
static int nvml_memory(unsigned ordinal, uint64_t *ret_free,
		       uint64_t *ret_total)
{
	char words[160];
	CUdevice device;
	CUresult r = drv.cuDeviceGet(&device, (int)ordinal);

	if (!r)
		return weir__cuda_nvml_memory(device, ret_free, ret_total);
	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	return weir__cuda_host.fail(-ENODATA, "CUDA%u: cuDeviceGet: %s",
				    ordinal, words);
}

static int cuda_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			   uint64_t *ret_total)
{
	struct weir__cuda_number n = weir__cuda_number(i);
	struct weir__cuda *c = weir__cuda_of(dev);
	int r = -ENODATA;

	/* The GPU itself is one of the parts once it is divided. */
	if (c) {
		n.parts = c->parts;
		r = driver_memory(c, ret_free, ret_total);
	}
	if (r == -ENODATA)
		r = nvml_memory(n.ordinal, ret_free, ret_total);
	if (r >= 0)
		weir__cuda_virtual_share(n, ret_free, ret_total);
	return r;
}

/*
 * How many bytes from @ptr on are allocated, contiguously; counting ends at
 * @bytes. Memory that was mapped by cuMemMap (PyTorch's expandable segments)
 * consists of allocations, which the driver reports singly. A context is
 * current.
 */
static CUresult count_allocated(CUdeviceptr ptr, size_t bytes,
				size_t *ret_there)
{
	CUdeviceptr base;
	size_t size, there = 0;
	CUresult r = CUDA_SUCCESS;

	while (!r && there < bytes) {
		r = drv.cuMemGetAddressRange(&base, &size, ptr + there);
		if (!r && (base > ptr + there || size <= ptr + there - base))
			r = CUDA_ERROR_NOT_FOUND;
		if (!r)
			there = base + size - ptr;
	}
	*ret_there = there;
	/* An unknown address after the first allocation ends the count. */
	return there && (r == CUDA_ERROR_NOT_FOUND ||
			 r == CUDA_ERROR_INVALID_VALUE)
		       ? CUDA_SUCCESS
		       : r;
}

static int check_pointer(struct weir_dev *dev, uint64_t ptr, size_t bytes)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	bool known;
	CUmemorytype type;
	size_t there = bytes;
	CUresult r;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	r = weir__cuda_ask(c, (const void *)(uintptr_t)ptr, &type);
	known = r || type == CU_MEMORYTYPE_DEVICE;
	if (!r && known && drv.cuMemGetAddressRange)
		r = count_allocated((CUdeviceptr)ptr, bytes, &there);
	weir__cuda_leave();
	if (!known)
		return c->host->fail(-EINVAL,
				     "%#llx is no address of device memory",
				     (unsigned long long)ptr);
	if (r)
		return weir__cuda_fail(c, r, "memory at %#llx",
				       (unsigned long long)ptr);
	if (there < bytes)
		return c->host->fail(
			-EINVAL,
			"%zu bytes at %#llx, where %zu are allocated in a row",
			bytes, (unsigned long long)ptr, there);
	return 0;
}

static const struct weir__cuda_ext ext = {
	.size = sizeof(ext),
	.queue_wrap = weir__cuda_queue_wrap,
	.queue_native = weir__cuda_queue_native,
	.check_pointer = check_pointer,
};

static const struct weir__cuda_ext *get_ext(void)
{
	return &ext;
}

static void (*cuda_proc(struct weir_dev *dev, const char *name))(void)
{
	(void)dev;
	if (!strcmp(name, WEIR__CUDA_EXT))
		return (void (*)(void))get_ext;
	return NULL;
}

static const struct weir_backend backend = {
	.size = sizeof(backend),
	.abi = WEIR_BACKEND_ABI,
	.name = "CUDA",
	.probe = weir__cuda_probe,
	.dev_open = cuda_dev_open,
	.dev_close = cuda_dev_close,
	.dev_memory = cuda_dev_memory,
	.explain = weir__cuda_describe_result,
	.proc = cuda_proc,
	.mem = &weir__cuda_mem_ops,
	.queue = &weir__cuda_queue_ops,
};

/*
 * Copy the members that this module knows. The table is the same for all roots,
 * and the copy is written once: threads of other roots read it.
 */
static void host_in(const struct weir_backend_host *host)
{
	struct weir_backend_host known = { 0 };

	memcpy(&known, host,
	       host->size < sizeof(known) ? host->size : sizeof(known));
	if (memcmp(&weir__cuda_host, &known, sizeof(known)))
		weir__cuda_host = known;
}

__attribute__((visibility("default"))) weir_backend_entry_fn weir_module_entry;

const struct weir_backend *
weir_module_entry(const struct weir_backend_host *host, int *ret_err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	if (host->abi != WEIR_BACKEND_ABI || host->size < HOST_LEAST) {
		*ret_err = host->fail(
			-EPROTO,
			"it is made for ABI %u and a host of %zu bytes, this library has %u and %zu",
			WEIR_BACKEND_ABI, HOST_LEAST, host->abi, host->size);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	host_in(host);
	pthread_mutex_unlock(&lock);
	*ret_err = weir__cuda_driver_open(host);
	return *ret_err < 0 ? NULL : &backend;
}
