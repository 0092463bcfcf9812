/* SPDX-License-Identifier: MIT */
/*
 * The limits of the machine, which weir is compared with, measured by the
 * simplest code that reaches them: no library, no checks, one file, prefaulted
 * memory.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stddef.h>
#include <stdint.h>

struct raw_result {
	double seconds;     /* time of the loop only */
	double cpu_seconds; /* user and system, of the process */
	uint64_t bytes;
};

/* Huge pages, prefaulted. Exits with a message when there is no memory. */
unsigned char *raw_memory(size_t bytes);
/* The same without prefaulting it. */
unsigned char *raw_fresh(size_t bytes);
void raw_unmap(void *mem, size_t bytes);
/*
 * Linux reports free memory to a hypervisor two seconds after some was freed.
 * The hypervisor takes it back, and prefaulting it is slow then. After this
 * call @bytes are free that the host still backs, and they are not reported for
 * two seconds.
 */
void raw_settle(size_t bytes);
/* Map @bytes of fresh memory, write a byte to each page, and unmap it. */
struct raw_result raw_prefault_fresh(size_t bytes);
/* The same on two threads, half of the memory each. */
struct raw_result raw_prefault_two(size_t bytes);

/*
 * Read the whole file with O_DIRECT through a ring, with @depth reads of @chunk
 * bytes in flight, each to its place in @mem, which has whole chunks.
 * SINGLE_ISSUER and DEFER_TASKRUN, plain reads. Without such a ring @depth
 * threads read a part of the file each.
 */
struct raw_result raw_direct(const char *path, unsigned char *mem, size_t chunk,
			     unsigned depth);
/* Read the whole file by pread(2) of @chunk bytes on @threads threads. */
struct raw_result raw_pread(const char *path, unsigned char *mem, size_t chunk,
			    unsigned threads);
/* The same, to one buffer of @chunk bytes for each thread. */
struct raw_result raw_pread_reuse(const char *path, unsigned char *mem,
				  size_t chunk, unsigned threads);
/* As raw_pread, but each chunk's pages are prefaulted just before its read. */
struct raw_result raw_populate_pread(const char *path, unsigned char *mem,
				     size_t chunk, unsigned threads);

/* Read the file into the page cache; evict it; its share there, in 1/1000. */
void raw_warm(const char *path);
void raw_cold(const char *path);
unsigned raw_resident(const char *path);

double raw_now(void);
double raw_cpu(void);  /* CPU time of this process, seconds */
double raw_busy(void); /* CPU seconds of all programs since boot */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);

#endif
