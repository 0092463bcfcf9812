/* SPDX-License-Identifier: MIT */
/* Calls that fork-calls.c makes in a child, and notes down. */
#ifndef T_FORK_CALLS_H
#define T_FORK_CALLS_H

#include <errno.h>
#include <stdint.h>

#include <weir.h>

/* Objects of the parent. */
struct fork_objects {
	struct weir *weir;
	struct weir_dev *dev;
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir_file *file;
	struct weir_stream *stream;
	struct weir_event *event;
	struct weir_graph *graph;
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
};

/*
 * fork_made notes that the call @name was made, fork_check also whether it
 * returned @want.
 */
void fork_made(const char *name);
void fork_check(const char *name, intptr_t got, intptr_t want);

#define returns(want, name, ...)                               \
	do {                                                   \
		fork_made(#name);                              \
		fork_check(#name, (intptr_t)name(__VA_ARGS__), \
			   (intptr_t)(want));                  \
	} while (0)
#define fails(name, ...) returns(-EPERM, name, __VA_ARGS__)
#define ends(name, object)        \
	do {                      \
		fork_made(#name); \
		name(object);     \
	} while (0)

/* fork_graphs.c: the calls of graphs, executable graphs and runs. */
void fork_graphs(const struct fork_objects *o);

#endif
