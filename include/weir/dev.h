/* SPDX-License-Identifier: MIT */
/*
 * Devices and their kinds of memory. The root owns both: they exist as long as
 * it does, and callers never free them.
 *
 * In info structs the caller sets the member size to the size of the struct
 * before the call. This holds for all headers.
 */
#ifndef WEIR_DEV_H
#define WEIR_DEV_H

#include <weir/base.h>

WEIR__BEGIN

enum weir_dev_type {
	WEIR_DEV_CPU = 0,
	WEIR_DEV_GPU = 1,  /* a GPU with its own memory */
	WEIR_DEV_IGPU = 2, /* a GPU that shares the host's memory */
	WEIR_DEV_ACCEL = 3 /* uses host memory, as a BLAS library does */
};

/* What a device can do: weir_dev_info.caps. */
#define WEIR_CAP_ASYNC 0x01u       /* streams run concurrently with callers */
#define WEIR_CAP_EVENTS 0x02u      /* streams record and wait for events */
#define WEIR_CAP_HOST_MEMORY 0x04u /* the device uses host memory */
#define WEIR_CAP_PINNED 0x08u      /* has memory of kind WEIR_MEM_PINNED */
#define WEIR_CAP_WRAP_HOST 0x10u   /* weir_buf_wrap() takes host memory */
#define WEIR_CAP_COMPUTE 0x20u     /* computes graphs */

struct weir_dev_info {
	size_t size;      /* set by the caller */
	const char *name; /* "CPU", "CUDA0": unique in the root, constant */
	const char *description; /* "Intel(R) Xeon(R) ..." */
	const char *backend;     /* "CPU", "CUDA" */
	const char *module;      /* path of its module; NULL: it has none */
	uint32_t type;           /* enum weir_dev_type */
	uint32_t caps;           /* WEIR_CAP_* */
	int32_t node;            /* NUMA node; -1: unknown, or several */
	uint32_t reserved;
	char pci[16]; /* PCI address, "0000:3b:00.0"; "": none */
	/*
	 * The UUID of the device, or of the part of a GPU (MIG) that it is, as
	 * nvidia-smi -L prints it after "GPU-" or "MIG-"; "": not known. It is
	 * the same in all processes, other than the name.
	 */
	char uuid[40];
	/* Why it does not have WEIR_CAP_COMPUTE, in words; "": not said. */
	char no_compute[200];
};

/* Kinds of memory. A device has some of them: see weir_dev_buft(). */
enum weir_mem {
	WEIR_MEM_DEVICE = 0, /* the device's own; the CPU's is WEIR_MEM_HUGE */
	WEIR_MEM_PLAIN = 1,  /* host memory in small pages */
	WEIR_MEM_HUGE = 2,   /* host memory in huge pages where possible */
	WEIR_MEM_LOCKED = 3, /* as HUGE, and locked into RAM by mlock(2) */
	WEIR_MEM_PINNED = 4, /* host memory, page-locked for the device's DMA */
	WEIR_MEM_MAPPED = 5, /* pages of a file, mapped read-only */
	WEIR_MEM_HBM =
		6,       /* as HUGE, on NUMA nodes without CPUs whose memory has
			     a higher bandwidth than that of nodes with CPUs */
	WEIR_MEM_FAR = 7 /* as HUGE, on the other NUMA nodes without CPUs */
};

/*
 * Load a module, a shared object that contains a backend, from its absolute
 * path @path, and add its devices. Blocks while the file is loaded.
 *
 * The library also searches for modules itself, in the first call that needs
 * other devices than the CPU: files weir-*.so in the directories of
 * weir_opts.module_path or WEIR_MODULE_PATH, in the library's own directory
 * and its subdirectory weir, and in the directory configured at build time. If
 * one of them cannot be loaded, this is logged, and the others are loaded.
 *
 * -EINVAL: a relative path. -ENOEXEC: not a module. -EPROTO: built for another
 * backend ABI; the sentence has both numbers. -EEXIST: this module, or a
 * backend or device of the same name, is loaded already. -EBADMSG: its tables
 * are invalid. -EPERM: WEIR_OPEN_STRICT_MODULES is set, and other users could
 * have written the file. -ESTALE: the file was replaced during the call.
 * -ENOSPC: too many devices. Errors of open(2) and of the backend itself.
 */
WEIR_API int weir_module_load(struct weir *weir, const char *path)
	WEIR_NONNULL(1, 2);

struct weir_backend; /* <weir/backend.h> defines these two */
struct weir_backend_host;
/*
 * The entry of a backend. Returns its tables, which are copied; or NULL, with
 * *ret_err < 0 and a sentence set through @host, if it cannot be used here.
 */
typedef const struct weir_backend *
weir_backend_entry_fn(const struct weir_backend_host *host, int *ret_err);
/*
 * Add a backend that is part of the program, and its devices. Blocks while
 * @entry runs and the devices are counted; @entry may call the functions of
 * @host, and no others of the library. The backend's functions must exist as
 * long as the root and all that was made from it.
 *
 * A module of the same name that the search finds later is not loaded.
 *
 * -EPROTO, -EEXIST, -EBADMSG, -ENOSPC: as weir_module_load(). Errors of the
 * backend itself.
 */
WEIR_API int weir_backend_add(struct weir *weir, weir_backend_entry_fn *entry)
	WEIR_NONNULL(1, 2);

/*
 * Path of the @i-th module, from 0, that the search found but did not load,
 * or of a directory that it did not search because its path is relative or has
 * 4096 bytes or more, and a sentence that says why. Searches first, if no call
 * has done so. Both strings exist as long as the root.
 *
 * -ENOENT: @i is past the end.
 */
WEIR_API int weir_module_refused(struct weir *weir, unsigned i,
				 const char **ret_path, const char **ret_why)
	WEIR_NONNULL(1, 3, 4);

/*
 * weir_dev_count() returns the number of devices, and weir_dev_get() device
 * @i, or NULL if @i is past the end. Device 0 is the CPU. The number of a
 * device never changes. The first call that needs other devices than the CPU
 * searches for modules, and blocks while they are loaded.
 */
WEIR_API unsigned weir_dev_count(struct weir *weir) WEIR_NONNULL(1);
WEIR_API struct weir_dev *weir_dev_get(struct weir *weir, unsigned i)
	WEIR_NONNULL(1);

/*
 * Find a device by its name.
 * -ENODEV: no device has this name; the sentence lists the devices, and says
 * why modules were not loaded.
 */
WEIR_API int weir_dev_find(struct weir *weir, const char *name,
			   struct weir_dev **ret_dev) WEIR_NONNULL(1, 2, 3);

/*
 * Find the first device of a type.
 * -ENODEV: there is none; the sentence is as for weir_dev_find(). -EINVAL:
 * @type is not an enum weir_dev_type.
 */
WEIR_API int weir_dev_find_type(struct weir *weir, enum weir_dev_type type,
				struct weir_dev **ret_dev) WEIR_NONNULL(1, 3);
/*
 * Find the device to use if the user has named none: the first GPU with memory
 * of its own, else the first that shares the host's, else the CPU. It is not
 * opened, so the first use may still fail.
 */
WEIR_API int weir_dev_best(struct weir *weir, struct weir_dev **ret_dev)
	WEIR_NONNULL(1, 2);

/*
 * Find a device by "name" or "name:key=value,key=value", as a user would write
 * it. The parameters configure the device; they must be given before its first
 * use. "CPU:node=0" binds the CPU's buffers to NUMA node 0; "CPU:devices=2"
 * divides the CPUs between two devices, CPU and CPU1. With parameters the call
 * may make the context of the device, and block meanwhile.
 *
 * -ENODEV: no device has this name. -EINVAL: a parameter is unknown or
 * malformed; the sentence lists the known ones. -EBUSY: the device is already
 * in use with other parameters.
 */
WEIR_API int weir_dev_configure(struct weir *weir, const char *name_params,
				struct weir_dev **ret_dev)
	WEIR_NONNULL(1, 2, 3);

/* Describe a device. The strings exist as long as the root. */
WEIR_API int weir_dev_info(struct weir_dev *dev, struct weir_dev_info *ret_info)
	WEIR_NONNULL(1, 2);

/*
 * Bytes of free memory and of all memory of a device. For the CPU these are
 * MemAvailable and MemTotal of the kernel, each limited by the cgroup. Never
 * makes a device context.
 * -ENODATA: the numbers cannot be read without a context.
 */
WEIR_API int weir_dev_memory(struct weir_dev *dev, uint64_t *ret_free,
			     uint64_t *ret_total) WEIR_NONNULL(1, 2, 3);

/*
 * Get the device's memory of a kind (a "buffer type"), which weir_buf_alloc()
 * and weir_plan_add() take.
 * -EOPNOTSUPP: the device has no memory of this kind. -EINVAL: @kind is not an
 * enum weir_mem.
 */
WEIR_API int weir_dev_buft(struct weir_dev *dev, enum weir_mem kind,
			   struct weir_buft **ret_buft) WEIR_NONNULL(1, 3);

/*
 * Get a function that only this device's backend has, by name. The caller
 * casts it to its type. NULL: the backend has no function of this name.
 */
WEIR_API void (*weir_dev_proc(struct weir_dev *dev, const char *name))(void)
	WEIR_NONNULL(1, 2);

/* Approximate rates of a device, per second, by which devices are compared. */
struct weir_rates {
	size_t size;  /* set by the caller */
	double flops; /* operations on elements */
	double bytes; /* bytes of its memory that it reads or writes */
	double link;  /* bytes that it copies from or to host memory */
};

/* The threads that compute on a device. */
struct weir_threads {
	size_t size;    /* set by the caller */
	uint32_t count; /* at most 1024; 0: one for each CPU of the process */
	uint32_t reserved; /* 0 */
	/*
	 * NULL: threads of the library, which sleep between runs. Otherwise a
	 * function of the program. It calls task(task_arg, i) once for each i
	 * below @n, on as many threads at once as it has, and returns when all
	 * these calls have returned. Tasks wait for each other; one that is
	 * called more than 0.1 ms after the first returns at once.
	 */
	void (*run)(void *arg, uint32_t n,
		    void (*task)(void *task_arg, uint32_t i), void *task_arg);
	void *arg; /* argument of run */
};

/*
 * Choose the threads that compute on a device, from the next run on. Without
 * this call the CPU has as many as its parameter threads=N says, or one for
 * each CPU that the process may use (weir-io(7), and the quotas of its
 * cgroups). Blocks until the device has computed what it is computing. An
 * executable graph that was made for fewer threads does not use more.
 *
 * -EOPNOTSUPP: the device has no threads of the host. -EINVAL: too many, or
 * reserved is not 0.
 */
WEIR_API int weir_dev_set_threads(struct weir_dev *dev,
				  const struct weir_threads *threads)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
