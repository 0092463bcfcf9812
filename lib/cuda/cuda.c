/* SPDX-License-Identifier: MIT */
#include "cuda/cuda.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_ext.h"

#define drv weir__cuda_drv
#define MAX_DEVS 64u /* bits of c->reached, and what a root takes */
#define MAX_VIRTUAL 16u
/* Bytes of the library's table that this module needs. */
#define HOST_LEAST WEIR__END_OF(struct weir__host, host_hide)

struct weir__host weir__cuda_host;

/*
 * Number of a device in the registry: its ordinal; which of how many virtual
 * devices it is, if it is not the first, which is the GPU itself.
 */
struct number {
	unsigned ordinal, part, parts;
};

static struct number number_of(unsigned i)
{
	return (struct number){ i & 0xff, i >> 8 & 0xff, i >> 16 };
}

struct weir__cuda *weir__cuda_of(struct weir_dev *dev)
{
	return weir__cuda_host.dev_state(dev);
}

static int attribute(CUdevice device, CUdevice_attribute which, int otherwise)
{
	int value;

	return drv.cuDeviceGetAttribute(&value, which, device) ? otherwise
							       : value;
}

/* "0000:3b:00.0", as sysfs has it; "" if it is not known. */
static void pci_of(CUdevice device, char *pci, size_t room)
{
	if (drv.cuDeviceGetPCIBusId(pci, (int)room, device))
		*pci = '\0';
	for (char *p = pci; *p; p++)
		*p = (char)tolower((unsigned char)*p);
}

static int32_t node_of(CUdevice device, const char *pci)
{
	int node = attribute(device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
	char path[64], text[32];

	if (node >= 0)
		return node;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", pci);
	if (!*pci || weir__cuda_host.text(path, text, sizeof(text)) <= 0)
		return -1;
	node = atoi(text);
	return node < 0 ? -1 : node;
}

/* A description with what it points to, which therefore does not move. */
struct desc {
	struct weir__dev_desc dev;
	struct weir__buft_desc device, pinned, mapped;
	const struct weir__buft_desc *buft[3];
};

static void describe_memory(struct desc *d, size_t total)
{
	d->device = (struct weir__buft_desc){ .size = sizeof(d->device),
					      .kind = WEIR_MEM_DEVICE,
					      .align = WEIR__CUDA_ALIGN,
					      .max = total };
	d->pinned = (struct weir__buft_desc){ .size = sizeof(d->pinned),
					      .kind = WEIR_MEM_PINNED,
					      .flags = WEIR_BUFT_HOST |
						       WEIR_BUFT_LOCKED,
					      .align = WEIR__CUDA_ALIGN,
					      .max = SIZE_MAX / 2 };
	d->mapped = (struct weir__buft_desc){ .size = sizeof(d->mapped),
					      .kind = WEIR_MEM_MAPPED,
					      .flags = WEIR_BUFT_HOST |
						       WEIR_BUFT_READONLY,
					      .align = 1,
					      .max = SIZE_MAX / 2 };
	snprintf(d->device.name, sizeof(d->device.name), "%s", d->dev.name);
	snprintf(d->pinned.name, sizeof(d->pinned.name), "%s_Pinned",
		 d->dev.name);
	snprintf(d->mapped.name, sizeof(d->mapped.name), "%s_Mapped",
		 d->dev.name);
	d->buft[0] = &d->device;
	d->buft[1] = &d->pinned;
	d->buft[2] = &d->mapped;
	d->dev.buft = d->buft;
	d->dev.n_bufts = 3;
}

static int fail_probe(CUresult r, const char *call)
{
	char words[160];

	weir__cuda_words((int32_t)r, words, sizeof(words));
	return weir__cuda_host.fail(weir__cuda_errno(r),
				    "%s: %s (driver of CUDA %d.%d)", call,
				    words, drv.version / 1000,
				    drv.version % 1000 / 10);
}

static int describe(struct number n, struct desc *ret_desc)
{
	struct weir__dev_desc *d = &ret_desc->dev;
	size_t total;
	CUdevice device;
	CUresult r = drv.cuDeviceGet(&device, (int)n.ordinal);

	*d = (struct weir__dev_desc){ .size = sizeof(*d) };
	if (!r)
		r = drv.cuDeviceTotalMem(&total, device);
	if (!r)
		r = drv.cuDeviceGetName(d->description,
					sizeof(d->description) - 1, device);
	if (r)
		return fail_probe(r, "cuDeviceGet");
	snprintf(d->name, sizeof(d->name), n.part ? "CUDA%u-%u" : "CUDA%u",
		 n.ordinal, n.part);
	pci_of(device, d->pci, sizeof(d->pci));
	d->type = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0)
			  ? WEIR_DEV_IGPU
			  : WEIR_DEV_GPU;
	d->caps = WEIR_CAP_ASYNC | WEIR_CAP_EVENTS | WEIR_CAP_PINNED |
		  WEIR_CAP_WRAP_HOST;
	d->node = node_of(device, d->pci);
	describe_memory(ret_desc, total);
	return 0;
}

static int cuda_probe(struct weir *weir, const struct weir__host *host,
		      struct weir__probe *probe)
{
	struct desc desc;
	int n, ret = 0;
	CUresult r = drv.cuInit(0);

	(void)weir;
	if (r == CUDA_ERROR_NOT_INITIALIZED)
		return host->fail(
			-EPERM,
			"cuInit: the driver was in use before fork(2), and is of no use in the child (process %ld)",
			(long)getpid());
	if (r)
		return fail_probe(r, "cuInit");
	r = drv.cuDeviceGetCount(&n);
	if (r || !n)
		return fail_probe(r ? r : CUDA_ERROR_NO_DEVICE,
				  "cuDeviceGetCount");
	for (unsigned i = 0; i < (unsigned)n && i < MAX_DEVS && ret >= 0; i++) {
		ret = describe((struct number){ .ordinal = i }, &desc);
		if (ret >= 0)
			ret = host->dev_describe(probe, &desc.dev);
	}
	return ret;
}

/* What "k=v,..." says of a device. */
struct params {
	unsigned parts; /* virtual=N */
	bool batches;   /* batch=no: never */
};

static bool is(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && !strncmp(text, word, n);
}

static int parse_virtual(const char *text, size_t n, struct number device,
			 struct params *ret)
{
	char *end;
	unsigned long parts = strtoul(text, &end, 10);

	if (!isdigit((unsigned char)*text) || end != text + n || parts < 1 ||
	    parts > MAX_VIRTUAL)
		return weir__cuda_host.fail(
			-EINVAL,
			"CUDA%u: virtual=%.*s is not a number from 1 to %u",
			device.ordinal, (int)n, text, MAX_VIRTUAL);
	ret->parts = (unsigned)parts;
	return 0;
}

static int parse_batch(const char *text, size_t n, struct number device,
		       struct params *ret)
{
	if (!is(text, n, "yes") && !is(text, n, "no"))
		return weir__cuda_host.fail(
			-EINVAL, "CUDA%u: batch=%.*s is neither yes nor no",
			device.ordinal, (int)n, text);
	ret->batches = is(text, n, "yes");
	return 0;
}

static int parse_param(const char *text, size_t n, struct number device,
		       struct params *ret)
{
	if (n > 6 && !strncmp(text, "batch=", 6))
		return parse_batch(text + 6, n - 6, device, ret);
	if (n > 8 && !strncmp(text, "virtual=", 8) && !device.part)
		return parse_virtual(text + 8, n - 8, device, ret);
	return weir__cuda_host.fail(
		-EINVAL,
		"CUDA%u: unknown parameter '%.*s'; there are: virtual=N, batch=no",
		device.ordinal, (int)n, text);
}

static int parse_params(const char *params, struct number n, struct params *ret)
{
	int r = 0;

	*ret = (struct params){ .parts = 1, .batches = true };
	while (*params && r >= 0) {
		size_t len = strcspn(params, ",");

		r = parse_param(params, len, n, ret);
		params += len;
		params += *params == ',';
	}
	return r;
}

/* CUDA0-1 and so on, beside CUDA0. */
static int add_virtual(struct weir_dev *dev, struct number n, unsigned parts)
{
	int r = 0;

	for (unsigned part = 1; part < parts && r >= 0; part++) {
		struct number more = { n.ordinal, part, parts };
		struct desc desc;

		r = describe(more, &desc);
		if (r >= 0)
			r = weir__cuda_host.dev_add(dev, &desc.dev,
						    n.ordinal | part << 8 |
							    parts << 16);
		if (r == -EEXIST) /* of an earlier try */
			r = 0;
	}
	return r;
}

static int no_state(struct weir__cuda *c, CUresult r, const char *call)
{
	int ret = weir__cuda_fail(c, r, "%s", call);

	weir__cuda_host.free(c);
	return ret;
}

static int make_state(struct weir_dev *dev, struct number n,
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
	pci_of(c->device, pci, sizeof(pci));
	c->node = node_of(c->device, pci);
	c->reads_only = attribute(
		c->device,
		CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0);
	c->max_pitch = (size_t)attribute(
		c->device, CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT32_MAX);
	pthread_mutex_init(&c->lock, NULL);
	*ret_state = c;
	return 0;
}

static void cuda_dev_close(struct weir_dev *dev, void *state)
{
	struct weir__cuda *c = state;
	CUresult r = CUDA_SUCCESS;

	/* A lost device may hang in any call. */
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
	pthread_mutex_destroy(&c->lock);
	weir__cuda_host.free(c);
}

static int cuda_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			 void **ret_state)
{
	struct number n = number_of(i);
	struct weir__cuda *c = NULL;
	struct params p;
	int r = parse_params(params, n, &p);

	if (r >= 0)
		r = make_state(dev, n, &c);
	if (r < 0)
		return r;
	/*
	 * A batch is given the host's addresses, which a device that knows
	 * registered memory by others takes for illegal ones, later.
	 */
	c->batches =
		p.batches &&
		!weir__cuda_host.debug(weir__cuda_host.dev_root(dev),
				       "batch=no") &&
		attribute(
			c->device,
			CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
			0);
	r = add_virtual(dev, n, p.parts);
	if (r < 0) {
		cuda_dev_close(dev, c);
		return r;
	}
	*ret_state = c;
	return 0;
}

/* Where there is a context already, the driver knows. */
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

static int cuda_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			   uint64_t *ret_total)
{
	struct number n = number_of(i);
	struct weir__cuda *c = weir__cuda_of(dev);
	char pci[16] = "";
	CUdevice device;
	int r = -ENODATA;

	if (c)
		r = driver_memory(c, ret_free, ret_total);
	if (r == -ENODATA) {
		if (!drv.cuDeviceGet(&device, (int)n.ordinal))
			pci_of(device, pci, sizeof(pci));
		r = weir__cuda_nvml_memory(pci, ret_free, ret_total);
	}
	if (r >= 0 && n.parts) { /* each its share */
		*ret_free /= n.parts;
		*ret_total /= n.parts;
	}
	return r;
}

/*
 * Memory that was mapped by the calls for virtual memory (PyTorch's expandable
 * segments) consists of pieces, of which the driver names one: what is there in
 * a row from @ptr on, but no more than is asked for. A context is current.
 */
static CUresult bytes_from(CUdeviceptr ptr, size_t bytes, size_t *ret_there)
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
	/* The first piece is device memory, as the caller knows. */
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
		r = bytes_from((CUdeviceptr)ptr, bytes, &there);
	weir__cuda_leave();
	if (!known)
		return c->host->fail(-EINVAL,
				     "%#llx is no address of device memory",
				     (unsigned long long)ptr);
	if (r)
		return weir__cuda_fail(c, r, "what lies at %#llx",
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

static const struct weir__backend backend = {
	.size = sizeof(backend),
	.abi = WEIR__ABI,
	.name = "CUDA",
	.probe = cuda_probe,
	.dev_open = cuda_dev_open,
	.dev_close = cuda_dev_close,
	.dev_memory = cuda_dev_memory,
	.explain = weir__cuda_words,
	.proc = cuda_proc,
	.mem = &weir__cuda_mem_ops,
	.queue = &weir__cuda_queue_ops,
};

/*
 * Keep what is known here of the library's table. It is the same for every
 * root: threads that use an earlier one may be reading the copy.
 */
static void host_in(const struct weir__host *host)
{
	struct weir__host known = { 0 };

	memcpy(&known, host,
	       host->size < sizeof(known) ? host->size : sizeof(known));
	if (memcmp(&weir__cuda_host, &known, sizeof(known)))
		weir__cuda_host = known;
}

__attribute__((visibility("default"))) weir__module_entry_fn weir_module_entry;

const struct weir__backend *weir_module_entry(const struct weir__host *host,
					      int *ret_err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	if (host->abi != WEIR__ABI || host->size < HOST_LEAST) {
		*ret_err = host->fail(
			-EPROTO,
			"it is made for ABI %u and a host of %zu bytes, this library has %u and %zu",
			WEIR__ABI, HOST_LEAST, host->abi, host->size);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	host_in(host);
	pthread_mutex_unlock(&lock);
	*ret_err = weir__cuda_driver_open(host);
	return *ret_err < 0 ? NULL : &backend;
}
