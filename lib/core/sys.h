/* SPDX-License-Identifier: MIT */
/*
 * System calls and C library calls that can fail. The rest of the library uses
 * these and not the originals, so that tests can make each of them fail. They
 * return >= 0 or -errno, and repeat a call that a signal interrupted, as often
 * as weir__retry() allows.
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

struct iovec;
struct weir__nodes;

void *weir__malloc(size_t n);
void *weir__calloc(size_t n, size_t size);         /* NULL if n * size wraps */
void *weir__calloc_aligned(size_t n, size_t size); /* to 64 bytes */
void *weir__realloc(void *p, size_t n, size_t size);
void *weir__malloc_pages(size_t n); /* aligned to WEIR__PAGE */
char *weir__strdup(const char *s);
void weir__free(void *p);

int weir__sys_map(size_t len, int fd, uint64_t off, int prot, void **ret_addr);
/* Map a part of a file; a write copies the page, and takes memory only then. */
int weir__sys_map_private(size_t len, int fd, uint64_t off, void **ret_addr);
/* Map @len bytes of @fd, from its beginning, at @addr; shared and writable. */
int weir__sys_map_at(void *addr, size_t len, int fd);
void weir__sys_unmap(void *addr, size_t len);
int weir__sys_madvise(void *addr, size_t len, int advice);
/*
 * Drop the pages of a private anonymous mapping, unlocked if they were locked,
 * and forbid all access; and allow it again, to pages that are 0.
 */
int weir__sys_vacate(void *addr, size_t len);
int weir__sys_reoccupy(void *addr, size_t len);
/*
 * Ask for huge pages in memory of weir__malloc or weir__calloc that was not
 * touched yet: they make the first access cheaper and save TLB misses. Small
 * blocks are left alone. Errors are ignored.
 */
void weir__sys_prefer_huge(void *p, size_t n);
/* Back [addr, addr + len) with writable pages. */
int weir__sys_populate(void *addr, size_t len);
/* Lock pages at their first access (MLOCK_ONFAULT), or all now. */
int weir__sys_mlock(void *addr, size_t len);
/*
 * Bind the memory to @nodes, if @only. Else prefer the node if it is one, or
 * interleave the pages over the nodes, while these have free pages. -ENOSYS:
 * weir was built without libnuma.
 */
int weir__sys_mbind(void *addr, size_t len, const struct weir__nodes *nodes,
		    bool only);
/*
 * Map a whole file for reading. Its pages are neither read nor locked at once,
 * not even after mlockall(2), and a child of fork(2) does not have them.
 */
int weir__sys_map_lazily(size_t len, int fd, void **ret_addr);
/* One byte for each page; its lowest bit says that the page is in RAM. */
int weir__sys_mincore(void *addr, size_t len, unsigned char *ret_vec);
/*
 * A new memfd of @bytes, which can be sealed; of huge pages of 2^@huge_shift
 * bytes unless @huge_shift is 0. -EFBIG: over RLIMIT_FSIZE.
 */
int weir__sys_memfd(const char *name, unsigned huge_shift, uint64_t bytes);
/* The seals of a memfd (F_SEAL_*). -EINVAL: not a memfd. */
int weir__sys_seals(int fd);
int weir__sys_add_seals(int fd, int seals);
bool weir__sys_thp_disabled(void);      /* by prctl(2), for this process */
uint64_t weir__sys_limit(int resource); /* RLIMIT_*; UINT64_MAX: none */
/* Bytes that may still be mapped: the tighter of RLIMIT_AS and RLIMIT_DATA. */
struct weir__space {
	uint64_t left, limit; /* UINT64_MAX if there is no limit */
	const char *name;     /* "RLIMIT_AS" */
	const char *flag;     /* "ulimit -v" */
};
void weir__sys_space(struct weir__space *ret_space);
/*
 * "; RLIMIT_AS is 1000 (ulimit -v), 200 of it are left", or "" if there is no
 * limit.
 */
void weir__space_text(const struct weir__space *space, char *text, size_t room);
/* Free and total RAM by sysinfo(2), which does not need /proc. */
int weir__sys_ram(uint64_t *ret_free, uint64_t *ret_total);

int weir__sys_open(const char *path, int flags, unsigned mode);
/* The file @name of the folder that is open as @dir. */
int weir__sys_open_at(int dir, const char *name, int flags, unsigned mode);
void weir__sys_close(int fd);
int weir__sys_fstat(int fd, struct stat *st);
/* The flags of the open file description (F_GETFL). */
int weir__sys_get_flags(int fd);
/* A duplicate that is closed at exec(3). */
int weir__sys_dup(int fd);
int weir__sys_stat(const char *path, struct stat *st);
/* The file @name of the folder @dir; @follow: what a symbolic link leads to. */
int weir__sys_stat_at(int dir, const char *name, bool follow, struct stat *st);
/* The path without symbolic links; @ret_real has PATH_MAX bytes. */
int weir__sys_realpath(const char *path, char *ret_real);
/* The target of a symbolic link; -ENAMETOOLONG: it needs more than @room. */
int weir__sys_readlink(const char *path, char *ret_text, size_t room);
/* Read a small file as a string, cut to @room bytes; returns its length. */
int64_t weir__sys_text(const char *path, char *buf, size_t room);
/*
 * The entries for which @filter is not 0, sorted by name; returns their number.
 * The caller frees each entry and the list by weir__free().
 */
int weir__sys_scandir(const char *path,
		      int (*filter)(const struct dirent *entry),
		      struct dirent ***ret_list);
/* dlopen(3) with RTLD_NOW | RTLD_LOCAL. -ENOEXEC: dlerror(3) says why. */
int weir__sys_dlopen(const char *path, void **ret_handle);
/* One call of pread(2) or pwrite(2): it may be short. */
int64_t weir__sys_pread(int fd, void *buf, size_t n, uint64_t off);
int64_t weir__sys_preadv(int fd, const struct iovec *iov, int n, uint64_t off);
/* Reads of cached bytes only. -EAGAIN: the first byte is not cached. */
int64_t weir__sys_pread_nowait(int fd, void *buf, size_t n, uint64_t off);
int64_t weir__sys_preadv_nowait(int fd, const struct iovec *iov, int n,
				uint64_t off);
int64_t weir__sys_write(int fd, const void *buf, size_t n);
int64_t weir__sys_pwrite(int fd, const void *buf, size_t n, uint64_t off);
/*
 * Make the file @bytes long, with blocks on the disk. -EOPNOTSUPP: the file
 * system cannot reserve blocks. -EFBIG: over RLIMIT_FSIZE.
 */
int weir__sys_reserve(int fd, uint64_t bytes);
int weir__sys_truncate(int fd, uint64_t bytes);
int weir__sys_sync(int fd); /* fsync(2) */
/*
 * The same for a folder. 0 also where folders cannot be synced (EINVAL, EBADF).
 */
int weir__sys_sync_folder(int dir);
int weir__sys_chmod(int fd, unsigned mode);
int weir__sys_chmod_path(const char *path, unsigned mode);
/*
 * Rename a file of the folder @dir. @keep: -EEXIST if there is a file of the
 * name @to, rather than replace it.
 */
int weir__sys_rename(int dir, const char *from, const char *to, bool keep);
int weir__sys_unlink(int dir, const char *name);
/* Make the folder @name in the folder @dir. */
int weir__sys_make_folder(int dir, const char *name, unsigned mode);
/*
 * Lock a file or folder, for which the call waits for at most @timeout_ns;
 * closing it unlocks it. -EWOULDBLOCK: another one has the lock.
 */
int weir__sys_lock(int fd, int64_t timeout_ns);
/* The same, together with others that lock it so. Also changes a lock. */
int weir__sys_lock_shared(int fd, int64_t timeout_ns);
/* Drop clean pages of the range from the page cache. Errors are ignored. */
void weir__sys_drop_cache(int fd, uint64_t off, uint64_t len);
/* Bytes that this process may still write to the file system of @path. */
int weir__sys_free(const char *path, uint64_t *ret_bytes);
int weir__sys_eventfd(void);
/* Replace the file of descriptor @fd by a new eventfd. */
int weir__sys_eventfd_renew(int fd);
/* Make an eventfd readable, or not readable. It is O_NONBLOCK. */
int weir__sys_eventfd_set(int fd, bool readable);
/*
 * The inode number of @fd, to find out whether the descriptor still refers to
 * the same file; 0: it is closed. All eventfds, epoll descriptors and other
 * anonymous inodes have the same number.
 */
uint64_t weir__sys_file_id(int fd);
int weir__sys_set_flags(int fd, int flags); /* F_SETFL */

struct weir__fs {
	bool network;   /* NFS, FUSE and such */
	bool fuse;      /* also if statfs(2) fails, which FUSE may refuse */
	bool in_memory; /* tmpfs, ramfs, hugetlbfs */
	bool limited;   /* the kernel may have no page for a hole */
	size_t page;    /* size of its pages: the system's, or a huge page's */
};
void weir__sys_fs(int fd, struct weir__fs *ret_fs);
/* True if the file system takes RWF_NOWAIT. */
bool weir__sys_nowait(int fd);
/* True if this process may write to the file, by its mode or as its owner. */
bool weir__sys_may_write(int fd);
/*
 * The alignment that O_DIRECT needs, by STATX_DIOALIGN; both 0: the file takes
 * no direct I/O. -EOPNOTSUPP: the kernel does not say.
 */
int weir__sys_dio_align(int fd, uint32_t *ret_mem, uint32_t *ret_off);
/* Count the pages of [off, off + len) in the page cache, by cachestat(2). */
int64_t weir__sys_cached(int fd, uint64_t off, uint64_t len);
/* 1 if the byte at @off is in the page cache; 0 if it is not, or unknown. */
unsigned weir__sys_peek(int fd, uint64_t off);
/*
 * Take a read lease on @fd (fcntl(2), F_SETLEASE). The kernel sends SIGIO to
 * thread @tid when somebody wants to write.
 */
int weir__sys_lease(int fd, pid_t tid);
/* True if the lease is still held. */
bool weir__sys_lease_held(int fd);
/* Give the lease up. */
void weir__sys_lease_end(int fd);
/*
 * A descriptor that is readable while @signal is pending for the calling
 * thread.
 */
int weir__sys_signalfd(int signal);
/*
 * Wait up to @ms milliseconds until one of @n descriptors, at most 2, is
 * readable. Returns a bit for each that is.
 */
unsigned weir__sys_poll(const int *fd, unsigned n, int ms);
/* Let the kernel read the bytes that are not cached, without waiting for it. */
void weir__sys_fetch(int fd, uint64_t off, uint64_t len);
/* Turn the kernel's read-ahead for @fd on or off. It is on at first. */
void weir__sys_read_ahead(int fd, bool on);

/* sys_socket.c: Unix sockets that keep messages apart (SOCK_SEQPACKET). */
#define WEIR__MESSAGE_FDS 253 /* SCM_MAX_FD: most descriptors of a message */
int weir__sys_socketpair(int ret_fds[2]);
/* Send @n bytes and @n_fds descriptors as one message. Never blocks. */
int weir__sys_send_fds(int fd, const void *data, size_t n, const int *fds,
		       unsigned n_fds);
/*
 * Receive a message of up to @room bytes and its descriptors, which the caller
 * closes. Returns the number of bytes; 0: the other end is closed. @keep: leave
 * the message in the socket, and fail with -EAGAIN rather than wait for one.
 * -EMFILE: there are too few numbers for the descriptors.
 */
int weir__sys_receive_fds(int fd, bool keep, void *data, size_t room,
			  int fds[WEIR__MESSAGE_FDS], unsigned *ret_fds);
/*
 * Make a socket of the name @name, which is a path, or an abstract name after
 * '@'. The socket that listens does not block. weir__sys_connect() and reads
 * from what it returns fail with -EAGAIN after @seconds.
 */
int weir__sys_listen(const char *name);
int weir__sys_accept(int fd);
int weir__sys_connect(const char *name, unsigned seconds);
/* Refuse connections, also where a child of fork(2) has the socket too. */
void weir__sys_shutdown(int fd);
/* Get the user who made the other end of a connection. */
int weir__sys_peer(int fd, uid_t *ret_uid);

/*
 * Start a thread. It blocks all signals, and runs on all CPUs that the process
 * may use (cpus.h). @name has at most 15 bytes.
 */
int weir__thread_start(pthread_t *ret_thread, const char *name,
		       void *(*fn)(void *), void *arg);
/* Start a thread with a stack of @stack bytes; 0: the usual size. */
int weir__thread_start_stack(pthread_t *ret_thread, const char *name,
			     size_t stack, void *(*fn)(void *), void *arg);

/* A buffer for the texts about limits. */
#define WEIR__LIMITS_TEXT 120u
/*
 * The limit of this process that has probably refused a thread: "; RLIMIT_NPROC
 * is ...", or that of a mapping if it leaves no room for a stack; "" without
 * one.
 */
void weir__thread_limits(char text[WEIR__LIMITS_TEXT]);

/*
 * Join @thread until @deadline (INT64_MAX: for ever). -ETIMEDOUT: it still runs
 * and is detached.
 */
int weir__thread_join(pthread_t thread, int64_t deadline);

/* Sleep while *word == @val, until @deadline (INT64_MAX: for ever). */
int weir__futex_wait(_Atomic uint32_t *word, uint32_t val, int64_t deadline);
void weir__futex_wake(_Atomic uint32_t *word, int n);

/*
 * membarrier(2) lets each running thread of the process execute a full barrier.
 * The process registers first: < 0 if the kernel cannot do it, and then
 * weir__sys_membarrier() may not be called.
 */
int weir__sys_membarrier_register(void);
void weir__sys_membarrier(void);

unsigned weir__cpus(void); /* how many the process may use (cpus.h) */

#endif
