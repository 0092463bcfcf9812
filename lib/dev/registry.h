/* SPDX-License-Identifier: MIT */
/*
 * The registry: the part of the root that has its backends, their devices, and
 * the modules that were loaded. weir_open() makes it, so every root has one. It
 * is freed last, after all buffers, streams and files of the root.
 */
#ifndef WEIR__REGISTRY_H
#define WEIR__REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/root.h"
#include <weir/backend.h>
#include "dev/dev.h"

#define WEIR__MAX_DEVS 64u /* that one backend describes */

/*
 * A backend's tables in the library's own size, whatever size the backend
 * made them: members that the backend does not have are NULL.
 */
struct weir__tables {
	struct weir__tables *next;
	struct weir_backend backend; /* points to the tables that follow */
	struct weir_backend_mem_ops mem;
	struct weir_backend_queue_ops queue;
	struct weir_backend_compute_ops
		compute; /* if backend.compute is not NULL */
};

struct weir__registry {
	struct weir__part part;
	const struct weir_backend_host *host; /* set by weir_open() */
	/*
	 * Devices are added under weir->lock and never removed: dev[i] is
	 * constant for i < n_devs. dev[0] is the CPU.
	 */
	_Atomic unsigned n_devs;
	struct weir_dev *dev[4 * WEIR__MAX_DEVS];
	struct weir__tables *tables;   /* of all backends; by weir->lock */
	pthread_mutex_t module_lock;   /* guards what follows */
	bool scanned;                  /* the directories were searched */
	struct weir__module *modules;  /* loaded, newest first */
	struct weir__refused *refused; /* by the search, in its order */
};

/* For weir__root_part(): an empty registry. */
int weir__registry_new(struct weir *weir, struct weir__part **ret_part);
struct weir__registry *weir__registry(const struct weir *weir);

/*
 * Add the backend that @entry returns, as weir__registry_add does. @module is
 * the path of its file, which must outlive the root; NULL: it is built in.
 */
int weir__registry_enter(struct weir *weir, weir_backend_entry_fn *entry,
			 const char *module);
/*
 * Copy the tables of @backend, check them, ask it for its devices and add
 * these, all or none. -EPROTO, -EBADMSG, -EEXIST, and errors of probe, with a
 * sentence.
 */
int weir__registry_add(struct weir *weir, const struct weir_backend *backend,
		       const char *module);
/* dev_describe and dev_add of the host table. */
int weir__registry_describe(struct weir_backend_probe *probe,
			    const struct weir_backend_dev *desc);
int weir__registry_beside(struct weir_dev *beside,
			  const struct weir_backend_dev *desc, unsigned i);

/*
 * tables.c. The tables of a backend, copied. -EPROTO: their sizes or their ABI
 * cannot be used; -EBADMSG: a required member is missing. The caller frees the
 * result with weir__free.
 */
int weir__tables_in(const struct weir_backend *theirs,
		    struct weir__tables **ret_tables);
/*
 * Copy the struct weir__@name at @theirs, which begins with its size, into
 * @ours of @size bytes; members that it lacks become 0. -EPROTO: its size is
 * less than @least, or no multiple of the size of a pointer.
 */
int weir__struct_in(const char *name, void *ours, size_t size, size_t least,
		    const void *theirs);
/* [A-Za-z0-9_-]+ that ends within @room bytes. */
bool weir__good_name(const char *name, size_t room);

/* desc.c. A device as @desc describes it, checked, not yet in the registry. */
int weir__dev_new(struct weir *weir, const struct weir_backend *backend,
		  const char *module, unsigned i,
		  const struct weir_backend_dev *desc,
		  struct weir_dev **ret_dev);
void weir__dev_free(struct weir_dev *dev);

/*
 * Search the directories for modules, once for each root: at the first call
 * that needs more than the built-in devices. A module that fails is reported
 * to the log and by weir_module_refused(). May block.
 */
void weir__modules_scan(struct weir *weir);
/* "; weir-x.so was left out: why" for each module that the search refused. */
void weir__modules_why(struct weir *weir, char *text, size_t room);
void weir__modules_free(struct weir__registry *registry);

#endif
