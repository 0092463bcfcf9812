/* SPDX-License-Identifier: MIT */
/* Copies: how the request of a call becomes operations. */
#ifndef FAKECUDA_COPY_H
#define FAKECUDA_COPY_H

#include "queue.h"

/* A rectangle of @height rows; with one row the pitches are not used. */
struct fc_request {
	const void *dst, *src; /* the program's addresses */
	size_t width, height;
	size_t dst_pitch, src_pitch;
};

/* The source or the destination of a request. */
struct fc_side {
	enum fc_memory memory;    /* FC_UNKNOWN: pageable */
	struct fc_device *device; /* whose memory it is */
	const char *at;           /* the driver's address */
	bool readonly;            /* mapped for reading only */
};

enum fc_order {
	FC_ORDER_STREAM, /* sources are read when the copy runs */
	FC_ORDER_NOW,    /* before the call returns */
};

/* place.c: checks one end; an error is counted as the caller's misuse. */
CUresult fc_place(struct fc_call *call, const void *ptr, size_t width,
		  size_t height, size_t pitch, struct fc_side *ret);
/* The same of an end that is written to. */
CUresult fc_place_written(struct fc_call *call, const void *ptr, size_t width,
			  size_t height, size_t pitch, struct fc_side *ret);

/* copy.c: with @sync it returns when the copy is done. */
CUresult fc_copy(struct fc_call *call, CUstream stream,
		 const struct fc_request *requests, size_t count,
		 enum fc_order order, bool sync);

#endif
