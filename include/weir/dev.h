/* SPDX-License-Identifier: MIT */
/*
 * Devices and their kinds of memory. Both are borrowed from the root: they
 * live as long as it does and are never freed.
 */
#ifndef WEIR_DEV_H
#define WEIR_DEV_H

#include <weir/base.h>

WEIR__BEGIN

enum weir_dev_type {
	WEIR_DEV_CPU = 0,
	WEIR_DEV_GPU = 1,  /* with memory of its own */
	WEIR_DEV_IGPU = 2, /* shares the host's memory */
	WEIR_DEV_ACCEL = 3 /* works on host memory (a BLAS) */
};

/* What a device can do: weir_dev_info.caps. */
#define WEIR_CAP_ASYNC 0x01u /* streams run beside the caller */
#define WEIR_CAP_EVENTS 0x02u
#define WEIR_CAP_HOST_MEMORY 0x04u /* its memory is the host's */
#define WEIR_CAP_PINNED 0x08u      /* has page-locked host memory */
#define WEIR_CAP_WRAP_HOST 0x10u   /* weir_buf_wrap takes host memory */
#define WEIR_CAP_COMPUTE 0x20u

struct weir_dev_info {
	size_t size;      /* set by the caller */
	const char *name; /* "CPU", "CUDA0": stable, unique in the root */
	const char *description; /* "Intel(R) Xeon(R) ..." */
	const char *backend;     /* "CPU", "CUDA" */
	const char *module;      /* path of its module; NULL: built in */
	uint32_t type;           /* enum weir_dev_type */
	uint32_t caps;           /* WEIR_CAP_* */
	int32_t node;            /* NUMA node, -1: not known or many */
	uint32_t reserved;
	char pci[16]; /* "0000:3b:00.0", or "" */
};

/* Kinds of memory. Not every device has every one (weir_dev_buft). */
enum weir_mem {
	WEIR_MEM_DEVICE = 0, /* the device's own; of the CPU: HUGE */
	WEIR_MEM_PLAIN = 1,  /* host memory in small pages */
	WEIR_MEM_HUGE = 2,   /* host memory in huge pages where possible */
	WEIR_MEM_LOCKED = 3, /* huge, and locked into RAM by mlock(2) */
	WEIR_MEM_PINNED = 4, /* page-locked for the device's engines */
	WEIR_MEM_MAPPED = 5  /* pages of a file, read-only */
};

/*
 * Load one module by its absolute path, besides those that are found by
 * themselves: files weir-*.so in the directories of weir_opts.module_path (else
 * WEIR_MODULE_PATH), beside the library, and in its module directory. That
 * search happens at the first call that asks for more than the CPU; a module
 * that fails it is reported to the log and stops no other. Its devices are added.
 *
 * -EINVAL: a relative path. -ENOEXEC: not a module. -EPROTO: of another ABI
 * (both numbers are named). -EEXIST: this module or a backend of its name is
 * there. -EBADMSG: its tables make no sense. -EPERM: strict, and others could
 * have written it. -ESTALE: it was replaced meanwhile.
 */
WEIR_API int weir_module_load(struct weir *weir, const char *path)
	WEIR_NONNULL(1, 2);

/*
 * Modules that the search found and left out, numbered from 0: where, and why.
 * Searches if that has not happened yet. Both strings live as long as the root.
 *
 * -ENOENT: no more of them.
 */
WEIR_API int weir_module_refused(struct weir *weir, unsigned i,
				 const char **ret_path, const char **ret_why)
	WEIR_NONNULL(1, 3, 4);

/* Devices are numbered from 0; the CPU is 0. weir_dev_get: NULL past the end. */
WEIR_API unsigned weir_dev_count(struct weir *weir) WEIR_NONNULL(1);
WEIR_API struct weir_dev *weir_dev_get(struct weir *weir, unsigned i)
	WEIR_NONNULL(1);

/*
 * -ENODEV: none of that name; the sentence lists those there are, and why
 * modules were left out.
 */
WEIR_API int weir_dev_find(struct weir *weir, const char *name,
			   struct weir_dev **ret_dev) WEIR_NONNULL(1, 2, 3);

/*
 * A device by "name" or "name:key=value,key=value", as a user would write it.
 * Parameters configure the device before its first use ("CPU:node=0").
 *
 * -ENODEV: no such device. -EINVAL: an unknown or malformed parameter; the
 * sentence lists those there are. -EBUSY: the device is in use already with
 * other parameters.
 */
WEIR_API int weir_dev_init(struct weir *weir, const char *name_params,
			   struct weir_dev **ret_dev) WEIR_NONNULL(1, 2, 3);

/* Set ret_info->size first. Strings live as long as the root. */
WEIR_API int weir_dev_info(struct weir_dev *dev, struct weir_dev_info *ret_info)
	WEIR_NONNULL(1, 2);

/*
 * Bytes of memory: what can still be had, and what there is. Of the CPU:
 * MemAvailable and MemTotal, each bounded by the cgroup's limit. Never makes
 * a device context: -ENODATA where it cannot be known without one.
 */
WEIR_API int weir_dev_memory(struct weir_dev *dev, uint64_t *ret_free,
			     uint64_t *ret_total) WEIR_NONNULL(1, 2, 3);

/* -EOPNOTSUPP: the device has no memory of this kind. -EINVAL: not a kind. */
WEIR_API int weir_dev_buft(struct weir_dev *dev, enum weir_mem kind,
			   struct weir_buft **ret_buft) WEIR_NONNULL(1, 3);

/*
 * The device's own door to what only its backend has: a function by name, to
 * be cast to its type. NULL: the backend has none of that name.
 */
WEIR_API void (*weir_dev_proc(struct weir_dev *dev, const char *name))(void)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
