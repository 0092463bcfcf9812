/* SPDX-License-Identifier: MIT */
/*
 * The limits of the machine, measured by the plainest code that reaches them:
 * no library, no checks, one file, memory that is there already. What weir is
 * compared with.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stddef.h>
#include <stdint.h>

struct raw_result {
	double seconds;     /* of the loop alone */
	double cpu_seconds; /* user and system, of the process */
	uint64_t bytes;
};

/* Huge pages, touched. Exits with a message when there is no memory. */
unsigned char *raw_memory(size_t bytes);
/* Not touched. */
unsigned char *raw_fresh(size_t bytes);
void raw_unmap(void *mem, size_t bytes);
/*
 * A hypervisor takes free memory back: Linux reports it two seconds after some was
 * freed, and whoever touches it next pays for it. After this @bytes are free that
 * the host has behind the guest, and are not reported for two seconds.
 */
void raw_settle(size_t bytes);
/* Take so much fresh memory, write a byte to each page, give it back. */
struct raw_result raw_touch_fresh(size_t bytes);
/* The same on two threads, a half each. */
struct raw_result raw_touch_two(size_t bytes);

/*
 * Read the whole file with O_DIRECT through a ring: @depth reads of @chunk
 * bytes are kept out, each to its place in @mem (whole chunks: the last one
 * may write up to its end). SINGLE_ISSUER and DEFER_TASKRUN, plain reads. Where
 * the kernel offers no such ring, @depth threads read a part of the file each.
 */
struct raw_result raw_direct(const char *path, unsigned char *mem, size_t chunk,
			     unsigned depth);
/* Read the whole file by pread(2) of @chunk bytes on @threads threads. */
struct raw_result raw_pread(const char *path, unsigned char *mem, size_t chunk,
			    unsigned threads);
/* The same into @chunk bytes of each thread's own, again and again. */
struct raw_result raw_pread_reuse(const char *path, unsigned char *mem,
				  size_t chunk, unsigned threads);
/* As raw_pread, but each chunk's pages are made just before it is read. */
struct raw_result raw_populate_pread(const char *path, unsigned char *mem,
				     size_t chunk, unsigned threads);

/* Put the file into the page cache, or out of it; 1/1000 that is in it. */
void raw_warm(const char *path);
void raw_cold(const char *path);
unsigned raw_resident(const char *path);

double raw_now(void);
double raw_cpu(void);  /* of this process, seconds */
double raw_busy(void); /* of the machine, since it started, all CPUs */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);

#endif
