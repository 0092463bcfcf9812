/* SPDX-License-Identifier: MIT */
/*
 * The outside world: every call that can fail for reasons beyond the library
 * goes through one of these, and only here, so that faults can be put in at
 * one place. All return >= 0 or -errno, and repeat what a signal interrupted
 * (weir__retry).
 */
#ifndef WEIR__SYS_H
#define WEIR__SYS_H

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

void *weir__malloc(size_t n);
void *weir__calloc(size_t n, size_t size);         /* NULL if n * size wraps */
void *weir__calloc_aligned(size_t n, size_t size); /* to 64 bytes */
void *weir__realloc(void *p, size_t n, size_t size);
void *weir__malloc_pages(size_t n); /* aligned to 4096 */
char *weir__strdup(const char *s);
void weir__free(void *p);

int weir__sys_map(size_t len, int fd, uint64_t off, int prot, void **ret_addr);
void weir__sys_unmap(void *addr, size_t len);
int weir__sys_madvise(void *addr, size_t len, int advice);
/*
 * Memory of weir__malloc or weir__calloc, not touched yet: if it is large, huge
 * pages make touching it cheaper and spare misses of the TLB. Only advice.
 */
void weir__sys_prefer_huge(void *p, size_t n);
/* Back [addr, addr + len) with pages, writable, as the hardware will see it. */
int weir__sys_populate(void *addr, size_t len);
/* As pages come, not at once (MLOCK_ONFAULT), where the kernel can. */
int weir__sys_mlock(void *addr, size_t len);
/* Pages to come from @node: only from there, or there first. -ENOSYS. */
int weir__sys_mbind(void *addr, size_t len, unsigned node, bool only);
/* A byte for each page, its lowest bit: the page is in RAM. */
int weir__sys_mincore(void *addr, size_t len, unsigned char *ret_vec);
bool weir__sys_thp_disabled(void);      /* by prctl(2), for this process */
uint64_t weir__sys_limit(int resource); /* RLIMIT_*; UINT64_MAX: none */
/* By sysinfo(2), which needs no /proc. */
int weir__sys_ram(uint64_t *ret_free, uint64_t *ret_total);

int weir__sys_open(const char *path, int flags, unsigned mode);
void weir__sys_close(int fd);
int weir__sys_fstat(int fd, struct stat *st);
int weir__sys_stat(const char *path, struct stat *st);
/* The same path without links; @ret_real has PATH_MAX bytes. */
int weir__sys_realpath(const char *path, char *ret_real);
/* A small file as a string, cut to @room; its length. */
int64_t weir__sys_text(const char *path, char *buf, size_t room);
/*
 * The entries that @filter takes, sorted; each, and the list, is freed by
 * weir__free. Their number.
 */
int weir__sys_scandir(const char *path,
		      int (*filter)(const struct dirent *entry),
		      struct dirent ***ret_list);
/* RTLD_NOW | RTLD_LOCAL. -ENOEXEC: dlerror(3) says why. */
int weir__sys_dlopen(const char *path, void **ret_handle);
/* One call of pread or pwrite: may be short. */
int64_t weir__sys_pread(int fd, void *buf, size_t n, uint64_t off);
int64_t weir__sys_pwrite(int fd, const void *buf, size_t n, uint64_t off);
int weir__sys_eventfd(void);
/* Put a new one, which nobody else reads, in the place of @fd. */
int weir__sys_eventfd_renew(int fd);
/* Make one that is O_NONBLOCK readable, or not any more. */
int weir__sys_eventfd_set(int fd, bool readable);
/*
 * A number for the file behind @fd, to tell whether it is still the same; 0: it
 * is closed. Eventfds, epoll descriptors and the like share one.
 */
uint64_t weir__sys_file_id(int fd);
int weir__sys_set_flags(int fd, int flags); /* F_SETFL */

struct weir__fs {
	bool network;   /* NFS, FUSE and such */
	bool in_memory; /* tmpfs, ramfs */
};
void weir__sys_fs(int fd, struct weir__fs *ret_fs);
/* Reads with RWF_NOWAIT are not refused outright. */
bool weir__sys_nowait(int fd);
/* By its mode, or as its owner. */
bool weir__sys_may_write(int fd);
/* STATX_DIOALIGN; -EOPNOTSUPP: not reported. 0 for both: not possible. */
int weir__sys_dio_align(int fd, uint32_t *ret_mem, uint32_t *ret_off);
/* Pages of [off, off + len) in the page cache, by cachestat(2). */
int64_t weir__sys_cached(int fd, uint64_t off, uint64_t len);
/* 1: the byte at @off is in the page cache; 0: not, or not known. */
unsigned weir__sys_peek(int fd, uint64_t off);

/* All signals are blocked in the thread. @name: at most 15 bytes. */
int weir__thread_start(pthread_t *ret_thread, const char *name,
		       void *(*fn)(void *), void *arg);

/*
 * Wait for its end until @deadline (INT64_MAX: for ever). 0; -ETIMEDOUT: nobody
 * joins it any more.
 */
int weir__thread_join(pthread_t thread, int64_t deadline);

/* Sleep while *word == @val, until @deadline (INT64_MAX: for ever). */
int weir__futex_wait(_Atomic uint32_t *word, uint32_t val, int64_t deadline);
void weir__futex_wake(_Atomic uint32_t *word, int n);

unsigned weir__cpus(void); /* that this process may use */

#endif
