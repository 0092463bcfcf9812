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

#define WEIR__MAX_DEVS 64u /* devices that one backend may describe */

/*
 * A backend's tables in the library's own size, whatever size the backend
 * made them: members that the backend does not have are NULL.
 */
struct weir__tables {
	struct weir__tables *next;
	struct weir_backend backend; /* points to the tables that follow */
	struct weir_backend_mem_ops mem;
	struct weir_backend_queue_ops queue;
	/* if backend.compute is not NULL */
	struct weir_backend_compute_ops compute;
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
	struct weir__tables *tables;   /* all backends; weir->lock guards it */
	pthread_mutex_t module_lock;   /* guards what follows */
	bool scanned;                  /* the directories were searched */
	struct weir__module *modules;  /* loaded, newest first */
	struct weir__refused *refused; /* left out, in the search's order */
};

/* Makes an empty registry, for weir__root_part(). */
int weir__registry_new(struct weir *weir, struct weir__part **ret_part);
struct weir__registry *weir__registry(const struct weir *weir);

/*
 * Call @entry, copy and check the tables that it returns, ask the backend for
 * its devices and add these, all or none. @module is the path of its file,
 * which must outlive the root; NULL: it is built in. -EPROTO, -EBADMSG,
 * -EEXIST, and errors of the entry and of probe, with a sentence.
 */
int weir__registry_enter(struct weir *weir, weir_backend_entry_fn *entry,
			 const char *module);
/* dev_describe and dev_add of the host table. */
int weir__registry_describe(struct weir_backend_probe *probe,
			    const struct weir_backend_dev *desc);
int weir__registry_beside(struct weir_dev *beside,
			  const struct weir_backend_dev *desc, unsigned i);

/*
 * Search the directories for modules, once for each root: at the first call
 * that needs more than the built-in devices. A module that fails is reported
 * to the log and by weir_module_refused(). May block.
 */
void weir__modules_scan(struct weir *weir);
/* "; weir-x.so was left out: why" for each module that the search refused. */
void weir__modules_why(struct weir *weir, char *text, size_t room);
/*
 * Load the file @name from the first directory in which it can be loaded, and
 * do not enter it. Calls @left_out for each that cannot, with the reason as
 * this thread's error. -ENOENT, without a sentence: there is none. The caller
 * drops the module, which is not one of the registry's.
 */
int weir__module_find(struct weir *weir, const char *name,
		      void (*left_out)(void *arg, const char *path), void *arg,
		      struct weir__module **ret_module);
const char *weir__module_path(const struct weir__module *module);
/* NULL: it does not export @name. */
void *weir__module_symbol(const struct weir__module *module, const char *name);
void weir__module_drop(struct weir__module *module);
void weir__modules_free(struct weir__registry *registry);

#endif
