/* SPDX-License-Identifier: MIT */
/* A request: the arguments of a load, as the library takes them. */
#ifndef GLUE_REQUEST_H
#define GLUE_REQUEST_H

#include "glue.h"

struct request {
	struct glue_model *model; /* borrowed */
	struct weir_buft *buft;
	struct weir_select_opts select;
	struct weir_load_opts load;
	int32_t priority;
	int digest;                     /* enum weir_digest; -1: none */
	struct glue_manifest *manifest; /* borrowed; or NULL */
	int discard;                    /* nothing is kept of the bytes */
	bool all;                       /* all tensors of the model, whole */
	size_t n;                       /* otherwise: number of targets */
	size_t *index;                  /* their numbers in the model */
	struct weir_slice *slice;       /* NULL: whole tensors */
	bool *sliced;                   /* which have a slice */
	struct weir_tensor *dst;
	bool small;                /* it may use memory of malloc(3) */
	struct weir_buf **wrapped; /* memory of the program; NULL: new */
};

/* Read the arguments of Load(); -1 with an exception. */
int glue_request_parse(struct request *rq, PyObject *args, PyObject *kw);
/* Request tensor @i alone; -1 with an exception. */
int glue_request_one(struct request *rq, struct glue_model *model, size_t i);
/* Start the load; -1 with an exception. Releases the GIL. */
int glue_request_start(struct request *rq, struct weir_load **ret_load);
/* Free what the request holds, after a failure of the calls above too. */
void glue_request_end(struct request *rq);

#endif
