/* SPDX-License-Identifier: MIT */
/*
 * A source for tests: "mem://PATH" is the file PATH (encoded), which is read into memory
 * when it is opened. Its reads end on two threads, in a random order; a test
 * can make them slow, fail, or never end, and sees what was requested.
 */
#ifndef T_MEM_SOURCE_H
#define T_MEM_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

extern struct mem_source {
	/* What it is to do. */
	_Atomic int64_t delay;  /* ns, of each read */
	_Atomic bool inside;    /* reads end inside of read */
	_Atomic bool hold;      /* reads do not end until it is false */
	_Atomic bool deaf;      /* cancel does nothing */
	_Atomic bool no_cancel; /* tables of objects opened from now on */
	_Atomic bool trickle;   /* arrived is called every 5 ms of hold */
	_Atomic uint64_t fail_from,
		fail_to;        /* reads that meet this range ... */
	_Atomic int fail;       /* ... end with this errno; 0: none does */
	_Atomic int stale;      /* check returns it */
	_Atomic int open_fails; /* open returns it */
	_Atomic uint64_t request_bytes;
	_Atomic uint64_t window_bytes;
	_Atomic bool hold_open; /* open does not end until it is false */
	/* open of no index ends before so many began, or 5 s */
	_Atomic uint32_t together;
	_Atomic bool no_list;   /* list says that it cannot */
	_Atomic int local;      /* 1: open says the path; 2: a wrong one */
	_Atomic bool no_object; /* and that is the only way to the bytes */
	_Atomic bool bad_sum;   /* open says a SHA-256 that is none */
	_Atomic uint64_t grown; /* bytes that open says too many */
	/* Of objects opened from now on; NULL: their inode, and none. */
	const char *identity, *sha256;

	/* What has happened. */
	_Atomic bool opening; /* open has waited for hold_open */
	_Atomic uint32_t opened, closed, stopped;
	_Atomic uint32_t began, apart; /* calls of open; apart: for 5 s */
	_Atomic uint32_t queries;      /* URLs with ?key=secret */
	_Atomic uint32_t reads, cancels, most; /* most: in flight at once */
	_Atomic uint64_t bytes, wrong; /* wrong: reads that break a rule */
	_Atomic uint32_t in_flight;
	_Atomic uint64_t waiting, most_bytes; /* of reads in flight */
	_Atomic int64_t gap; /* ns, the longest in which nothing trickled */
} mem;

extern const struct weir_source mem_table;

/* Add it to a root, as a source for "mem". Bails out on failure. */
void mem_add(struct weir *weir);
/* Forget what has happened, and do nothing special. */
void mem_reset(void);
/* End its threads. No object is open. */
void mem_end(void);
/* "mem://PATH", one of a ring of buffers. */
const char *mem_url(const char *path);
/* Open the file at @path as an object without a URL. */
int mem_object(const char *path, void **ret_object,
	       struct weir_source_info *ret_info);

#endif
