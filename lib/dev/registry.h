/* SPDX-License-Identifier: MIT */
/*
 * The registry: the part of the root that holds its devices and the modules
 * that were loaded. weir_open() makes it, so every root has one. It is freed
 * last, after all buffers, streams and files of the root.
 */
#ifndef WEIR__REGISTRY_H
#define WEIR__REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/root.h"
#include "dev/backend.h"
#include "dev/dev.h"

struct weir__registry {
	struct weir__part part;
	/*
	 * Devices are added under weir->lock and never removed: dev[i] is
	 * constant for i < n_devs. dev[0] is the CPU.
	 */
	_Atomic unsigned n_devs;
	struct weir_dev *dev[4 * WEIR__MAX_DEVS];
	pthread_mutex_t module_lock;   /* guards what follows */
	bool scanned;                  /* the directories were searched */
	struct weir__module *modules;  /* loaded, newest first */
	struct weir__refused *refused; /* by the search, in its order */
};

/* For weir__root_part(): an empty registry. */
int weir__registry_new(struct weir *weir, struct weir__part **ret_part);
struct weir__registry *weir__registry(const struct weir *weir);

/*
 * Check the tables of @backend, ask it for its devices and add them, all or
 * none. @module is the path of its file, which must outlive the root; NULL:
 * it is built in. -EPROTO, -EBADMSG, -EEXIST with a sentence. Returns the
 * number of devices.
 */
int weir__registry_add(struct weir *weir, const struct weir__backend *backend,
		       const char *module);
/* Add number @i of the backend of @beside, for the host table's dev_add. */
int weir__registry_beside(struct weir_dev *beside,
			  const struct weir__dev_desc *desc, unsigned i);
/* -EPROTO, -EBADMSG with a sentence: its tables cannot be used. */
int weir__backend_check(const struct weir__backend *backend);

/*
 * Search the directories for modules, once for each root: at the first call
 * that asks for more than the built-in devices. A module that fails is
 * reported to the log and by weir_module_refused(). May block.
 */
void weir__modules_scan(struct weir *weir);
/* "; weir-x.so was left out: why" for each module that the search refused. */
void weir__modules_why(struct weir *weir, char *text, size_t room);
void weir__modules_free(struct weir__registry *registry);

#endif
