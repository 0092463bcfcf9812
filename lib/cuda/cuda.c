/* SPDX-License-Identifier: MIT */
/*
 * The backend's table and its entry; devices: their descriptions, parameters
 * and states.
 *
 * The parameter virtual=N shows one GPU as several devices of the root: CUDA0-1
 * and so on are added to CUDA0, in the same context. Each reports its share of
 * the memory, which nothing enforces.
 */
#include "cuda/cuda.h"
#include "cuda/found.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interop/cuda_ext.h"

#define drv weir__cuda_drv
/* Bytes of the library's table that this module needs. */
#define HOST_LEAST WEIR_BACKEND_END_OF(struct weir_backend_host, host_hide)
#define MAX_DEVS 64u /* bits of c->reached, and what the library takes */
#define MAX_VIRTUAL 16u

struct weir_backend_host weir__cuda_host;

/*
 * A device's number in the library: the GPU's ordinal and, for a virtual
 * device, its part and the number of parts. The GPU itself has 0 for both; its
 * state has the number of parts.
 */
struct gpu_number {
	unsigned ordinal, part, parts;
};

/* A description with what it points to: it is not copied. */
struct gpu_desc {
	struct weir_backend_dev dev;
	struct weir_backend_buft device, pinned, mapped;
	const struct weir_backend_buft *buft[3];
};

struct weir__cuda *weir__cuda_of(struct weir_dev *dev)
{
	return weir__cuda_host.dev_state(dev);
}

/* Returns @otherwise if the driver does not know the attribute. */
static int attribute(CUdevice device, CUdevice_attribute which, int otherwise)
{
	int value;

	return drv.cuDeviceGetAttribute(&value, which, device) ? otherwise
							       : value;
}

void weir__cuda_pci(CUdevice device, char *pci, size_t room)
{
	if (drv.cuDeviceGetPCIBusId(pci, (int)room, device))
		*pci = '\0';
	for (char *p = pci; *p; p++)
		*p = (char)tolower((unsigned char)*p);
}

void weir__cuda_uuid(CUdevice device, char uuid[40])
{
	unsigned char b[16];
	CUuuid found;

	*uuid = '\0';
	if (!drv.cuDeviceGetUuid || drv.cuDeviceGetUuid(&found, device))
		return;
	memcpy(b, found.bytes, sizeof(b));
	snprintf(
		uuid, 40,
		"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9],
		b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* The NUMA node nearest to the device; -1: not known. */
static int32_t nearest_node(CUdevice device, const char *pci)
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

static void describe_memory(struct gpu_desc *d, size_t total)
{
	d->device = (struct weir_backend_buft){ .size = sizeof(d->device),
						.kind = WEIR_MEM_DEVICE,
						.align = WEIR__CUDA_ALIGN,
						.max = total };
	d->pinned = (struct weir_backend_buft){ .size = sizeof(d->pinned),
						.kind = WEIR_MEM_PINNED,
						.flags = WEIR_BUFT_HOST |
							 WEIR_BUFT_LOCKED,
						.align = WEIR__CUDA_ALIGN,
						.max = SIZE_MAX / 2 };
	d->mapped = (struct weir_backend_buft){ .size = sizeof(d->mapped),
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

	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	return weir__cuda_host.fail(weir__cuda_errno(r),
				    "%s: %s (driver of CUDA %d.%d)", call,
				    words, drv.version / 1000,
				    drv.version % 1000 / 10);
}

static int describe(struct gpu_number n, struct gpu_desc *ret_desc)
{
	struct weir_backend_dev *d = &ret_desc->dev;
	size_t total;
	CUdevice device;
	CUresult r = drv.cuDeviceGet(&device, (int)n.ordinal);

	*d = (struct weir_backend_dev){ .size = sizeof(*d) };
	if (!r)
		r = drv.cuDeviceTotalMem(&total, device);
	if (!r)
		r = drv.cuDeviceGetName(d->description,
					sizeof(d->description) - 1, device);
	if (r)
		return fail_probe(r, "cuDeviceGet");
	snprintf(d->name, sizeof(d->name), n.part ? "CUDA%u-%u" : "CUDA%u",
		 n.ordinal, n.part);
	weir__cuda_pci(device, d->pci, sizeof(d->pci));
	weir__cuda_uuid(device, d->uuid);
	d->type = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0)
			  ? WEIR_DEV_IGPU
			  : WEIR_DEV_GPU;
	d->caps = WEIR_CAP_ASYNC | WEIR_CAP_EVENTS | WEIR_CAP_PINNED |
		  WEIR_CAP_WRAP_HOST;
	if (!weir__cuda_image_unfit(device, d->no_compute,
				    sizeof(d->no_compute)))
		d->caps |= WEIR_CAP_COMPUTE;
	d->node = nearest_node(device, d->pci);
	describe_memory(ret_desc, total);
	return 0;
}

/* Describe the driver's devices, which needs no context. */
static int cuda_probe(struct weir *weir, const struct weir_backend_host *host,
		      struct weir_backend_probe *probe)
{
	struct gpu_desc desc;
	int n, ret = 0;
	CUresult r = drv.cuInit(0);

	(void)weir;
	if (r == CUDA_ERROR_NOT_INITIALIZED)
		return host->fail(
			-EPERM,
			"cuInit: the driver was in use before fork(2), and cannot be used in the child (process %ld)",
			(long)getpid());
	if (r)
		return fail_probe(r, "cuInit");
	r = drv.cuDeviceGetCount(&n);
	if (r || !n)
		return fail_probe(r ? r : CUDA_ERROR_NO_DEVICE,
				  "cuDeviceGetCount");
	for (unsigned i = 0; i < (unsigned)n && i < MAX_DEVS && ret >= 0; i++) {
		ret = describe((struct gpu_number){ .ordinal = i }, &desc);
		if (ret >= 0)
			ret = host->dev_describe(probe, &desc.dev);
	}
	return ret;
}

static struct gpu_number number_decode(unsigned i)
{
	return (struct gpu_number){ i & 0xff, i >> 8 & 0xff, i >> 16 };
}

static unsigned number_encode(struct gpu_number n)
{
	return n.ordinal | n.part << 8 | n.parts << 16;
}

/* Read the value of virtual=N. */
static int virtual_parse(const char *text, size_t n, unsigned ordinal,
			 unsigned *ret_parts)
{
	char *end;
	unsigned long parts = strtoul(text, &end, 10);

	if (!isdigit((unsigned char)*text) || end != text + n || parts < 1 ||
	    parts > MAX_VIRTUAL)
		return weir__cuda_host.fail(
			-EINVAL,
			"CUDA%u: virtual=%.*s is not a number from 1 to %u",
			ordinal, (int)n, text, MAX_VIRTUAL);
	*ret_parts = (unsigned)parts;
	return 0;
}

/* Add CUDA0-1 to CUDA0-(@parts - 1) beside @dev, which is CUDA0. */
static int virtual_add(struct weir_dev *dev, unsigned ordinal, unsigned parts)
{
	int r = 0;

	for (unsigned part = 1; part < parts && r >= 0; part++) {
		struct gpu_number more = { ordinal, part, parts };
		struct gpu_desc desc;

		r = describe(more, &desc);
		if (r >= 0)
			r = weir__cuda_host.dev_add(dev, &desc.dev,
						    number_encode(more));
		if (r == -EEXIST) /* added by an open that failed later */
			r = 0;
	}
	return r;
}

/* Reduce the memory of a GPU to the share of its device @n. */
static void virtual_share(struct gpu_number n, uint64_t *free_bytes,
			  uint64_t *total)
{
	if (n.parts) {
		*free_bytes /= n.parts;
		*total /= n.parts;
	}
}

/* The parameters of a device, from "k=v,...". */
struct dev_params {
	unsigned parts;   /* virtual=N */
	bool batches;     /* batch=no: never */
	bool locks_files; /* lock=no: not */
	bool graphs;      /* graphs=no: never */
	bool fuses;       /* fuse=no: a launch for each node */
	bool cublaslt;    /* cublaslt=no: never */
};

static bool param_is(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && !strncmp(text, word, n);
}

/* The value of @name=yes or no, which has @n bytes. */
static int parse_choice(const char *name, const char *text, size_t n,
			struct gpu_number device, bool *ret)
{
	if (!param_is(text, n, "yes") && !param_is(text, n, "no"))
		return weir__cuda_host.fail(
			-EINVAL, "CUDA%u: %s=%.*s is neither yes nor no",
			device.ordinal, name, (int)n, text);
	*ret = param_is(text, n, "yes");
	return 0;
}

static int parse_param(const char *text, size_t n, struct gpu_number device,
		       struct dev_params *ret)
{
	if (n > 6 && !strncmp(text, "batch=", 6))
		return parse_choice("batch", text + 6, n - 6, device,
				    &ret->batches);
	if (n > 5 && !strncmp(text, "lock=", 5))
		return parse_choice("lock", text + 5, n - 5, device,
				    &ret->locks_files);
	if (n > 7 && !strncmp(text, "graphs=", 7))
		return parse_choice("graphs", text + 7, n - 7, device,
				    &ret->graphs);
	if (n > 5 && !strncmp(text, "fuse=", 5))
		return parse_choice("fuse", text + 5, n - 5, device,
				    &ret->fuses);
	if (n > 9 && !strncmp(text, "cublaslt=", 9))
		return parse_choice("cublaslt", text + 9, n - 9, device,
				    &ret->cublaslt);
	if (n > 8 && !strncmp(text, "virtual=", 8) && !device.part)
		return virtual_parse(text + 8, n - 8, device.ordinal,
				     &ret->parts);
	return weir__cuda_host.fail(
		-EINVAL,
		"CUDA%u: unknown parameter '%.*s'; there are: virtual=N, batch=no, lock=no, graphs=no, fuse=no, cublaslt=no",
		device.ordinal, (int)n, text);
}

static int parse_params(const char *params, struct gpu_number n,
			struct dev_params *ret)
{
	int r = 0;

	*ret = (struct dev_params){ .parts = 1,
				    .batches = true,
				    .locks_files = true,
				    .graphs = true,
				    .fuses = true,
				    .cublaslt = true };
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

static int make_state(struct weir_dev *dev, struct gpu_number n,
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
	r = drv.cuDeviceTotalMem(&c->memory, c->device);
	if (r)
		return no_state(c, r, "cuDeviceTotalMem");
	weir__cuda_relax();
	r = drv.cuDevicePrimaryCtxRetain(&c->context, c->device);
	weir__cuda_restore();
	if (r)
		return no_state(c, r, "cuDevicePrimaryCtxRetain");
	weir__cuda_pci(c->device, pci, sizeof(pci));
	c->node = nearest_node(c->device, pci);
	c->reads_only = attribute(
		c->device,
		CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0);
	c->exports = attribute(
		c->device,
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		0);
	c->max_pitch = (size_t)attribute(
		c->device, CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT32_MAX);
	c->sms = (unsigned)attribute(
		c->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1);
	for (unsigned i = 0; i < WEIR__CUDA_MOVERS; i++) {
		c->mover[i].c = c;
		pthread_mutex_init(&c->mover[i].lock, NULL);
	}
	pthread_mutex_init(&c->bounce_lock, NULL);
	pthread_mutex_init(&c->loaded.lock, NULL);
	pthread_mutex_init(&c->cublaslt.lock, NULL);
	pthread_mutex_init(&c->found_lock, NULL);
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

static void free_compute(struct weir__cuda *c)
{
	if (weir__cuda_push(c))
		return;
	weir__cublaslt_close(&c->cublaslt);
	weir__cuda_image_unload(c);
	weir__cuda_found_free(c);
	weir__cuda_leave();
}

static void cuda_dev_close(struct weir_dev *dev, void *state)
{
	struct weir__cuda *c = state;
	CUresult r = CUDA_SUCCESS;

	weir__cuda_rates_close(c);
	free_bounces(c);
	free_compute(c);
	/* On a lost device any call may hang. */
	if (!atomic_load(&c->lost)) {
		for (unsigned i = 0; i < WEIR__CUDA_MOVERS; i++) {
			if (!c->mover[i].stream || weir__cuda_push(c))
				continue;
			r = drv.cuStreamDestroy(c->mover[i].stream);
			weir__cuda_leave();
			weir__cuda_note(c, r);
		}
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
	pthread_mutex_destroy(&c->loaded.lock);
	pthread_mutex_destroy(&c->cublaslt.lock);
	pthread_mutex_destroy(&c->found_lock);
	for (unsigned i = 0; i < WEIR__CUDA_MOVERS; i++)
		pthread_mutex_destroy(&c->mover[i].lock);
	weir__cuda_host.free(c);
}

static int cuda_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			 void **ret_state)
{
	struct gpu_number n = number_decode(i);
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
		attribute(
			c->device,
			CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
			0);
	c->locks_files = p.locks_files;
	c->graphs = p.graphs;
	c->fuses = p.fuses;
	c->cublaslt.off = !p.cublaslt ||
			  weir__cuda_host.debug(weir__cuda_host.dev_root(dev),
						"cublaslt=no");
	c->parts = n.part ? n.parts : p.parts;
	r = virtual_add(dev, n.ordinal, p.parts);
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
	struct gpu_number n = number_decode(i);
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
		virtual_share(n, ret_free, ret_total);
	return r;
}

static const struct weir__cuda_ext ext = {
	.size = sizeof(ext),
	.queue_wrap = weir__cuda_queue_wrap,
	.queue_native = weir__cuda_queue_native,
	.check_pointer = weir__cuda_check_pointer,
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
	.probe = cuda_probe,
	.dev_open = cuda_dev_open,
	.dev_close = cuda_dev_close,
	.dev_memory = cuda_dev_memory,
	.explain = weir__cuda_describe_result,
	.proc = cuda_proc,
	.mem = &weir__cuda_mem_ops,
	.queue = &weir__cuda_queue_ops,
	.compute = &weir__cuda_compute_ops,
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
