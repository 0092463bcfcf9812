/* SPDX-License-Identifier: MIT */
/* Memory in descriptors: sharing a buffer, and making one of a descriptor. */
#include <fcntl.h>
#include <sys/mman.h>

#include "alloc/arena.h"
#include "alloc/share.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/buf.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10 /* Linux 5.1 */
#endif
#define READONLY_SEALS (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

/* Allow others to write, or forbid it. -EROFS: it is forbidden already. */
static int share_seal(int fd, bool writable)
{
	int r = weir__sys_seals(fd);

	if (r < 0)
		return weir__fail_sys(r, "the seals of shared memory");
	if (writable && r & READONLY_SEALS)
		return weir__fail(
			-EROFS,
			"the buffer was shared before without WEIR_SHARE_WRITABLE");
	if (writable || r & READONLY_SEALS)
		return 0;
	r = weir__sys_add_seals(fd, F_SEAL_FUTURE_WRITE);
	return r < 0 ? weir__fail_sys(r, "sealing shared memory") : 0;
}

static int share_device(struct weir_buf *buf, uint32_t flags, int *ret_fd)
{
	if (!(flags & WEIR_SHARE_WRITABLE))
		return weir__fail(
			-EOPNOTSUPP,
			"%s: memory of a device cannot be shared for reading only: set WEIR_SHARE_WRITABLE",
			buf->buft->desc.name);
	return weir__buf_export(buf, ret_fd);
}

int weir__buf_share(struct weir_buf *buf, uint32_t flags, int *ret_fd)
{
	struct weir *weir = buf->buft->dev->weir;
	int fd, r;

	r = weir__root_read(weir);
	if (r < 0)
		return r;
	if (flags & ~WEIR_SHARE_WRITABLE)
		return weir__fail(-EINVAL, "flags 0x%x has bits unknown here",
				  flags);
	if (buf->member)
		return weir__fail(-EINVAL,
				  "a joined buffer of %u members: share these",
				  buf->n_members);
	if (!weir__buf_is_host(buf))
		return share_device(buf, flags, ret_fd);
	r = weir__arena_share(weir, &buf->mem, &fd);
	if (r < 0)
		return r;
	r = share_seal(fd, flags & WEIR_SHARE_WRITABLE);
	if (r < 0)
		weir__sys_close(fd);
	else
		*ret_fd = fd;
	return r;
}

int weir_buf_share(struct weir_buf *buf, uint32_t flags, int *ret_fd)
{
	WEIR__ENTER();
	return weir__buf_share(buf, flags, ret_fd);
}

/* A mapping of bytes of a descriptor. */
struct file_window {
	unsigned char *addr;
	size_t len;
	size_t page; /* the size of its pages */
	bool eager;  /* a page that is missing would be SIGBUS */
};

static void window_release(void *arg)
{
	struct file_window *w = arg;

	weir__sys_unmap(w->addr, w->len);
	weir__free(w);
}

/*
 * Check that @fd is a file in memory. Reserved pages come from the
 * system's reserve, those of a tmpfs from its size: either may have no page for
 * a hole of the file, and the kernel would send SIGBUS at the first access.
 */
static int check_file(int fd, struct file_window *w)
{
	struct weir__fs fs;
	struct stat st;
	int r = weir__sys_fstat(fd, &st);

	if (r < 0)
		return weir__fail_sys(r, "descriptor %d", fd);
	weir__sys_fs(fd, &fs);
	if (!S_ISREG(st.st_mode) || !fs.in_memory)
		return weir__fail(
			-EOPNOTSUPP,
			"descriptor %d is not a memfd, nor a file in tmpfs or hugetlbfs",
			fd);
	w->page = fs.page;
	w->eager = fs.limited &&
		   (fs.page >= WEIR__HUGE_PAGE ||
		    (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size);
	return 0;
}

/* -EINVAL: the range is not in the file, whose size could change until now. */
static int check_size(int fd, uint64_t off, size_t size)
{
	struct stat st;
	int r = weir__sys_fstat(fd, &st);

	if (r < 0)
		return weir__fail_sys(r, "descriptor %d", fd);
	if (off > (uint64_t)st.st_size || size > (uint64_t)st.st_size - off)
		return weir__fail(
			-EINVAL,
			"%zu bytes at %llu are not in descriptor %d, which has %llu",
			size, (unsigned long long)off, fd,
			(unsigned long long)st.st_size);
	return 0;
}

/* Check the seals of a memfd: another file has none. */
static int check_seals(int fd, bool writable, bool unsealed)
{
	int seals = weir__sys_seals(fd);

	if (seals < 0)
		seals = 0;
	if (!unsealed && !(seals & F_SEAL_SHRINK))
		return weir__fail(
			-EINVAL,
			"descriptor %d can shrink, which would kill this process by SIGBUS: seal it with F_SEAL_SHRINK, or set WEIR_WRAP_UNSEALED",
			fd);
	if (writable && seals & READONLY_SEALS)
		return weir__fail(
			-EROFS,
			"descriptor %d is sealed against writing: use memory of kind WEIR_MEM_MAPPED",
			fd);
	return 0;
}

static int check_mode(int fd, bool writable)
{
	int flags = weir__sys_get_flags(fd);

	if (flags < 0)
		return weir__fail_sys(flags, "descriptor %d", fd);
	if ((flags & O_ACCMODE) == O_RDWR ||
	    (!writable && (flags & O_ACCMODE) == O_RDONLY))
		return 0;
	return weir__fail(-EACCES, "descriptor %d is not open for %s", fd,
			  writable ? "reading and writing" : "reading");
}

/*
 * Map the pages around [@off, @off + @size), and back them if they are eager.
 */
static int window_map(struct file_window *w, int fd, uint64_t off, size_t size,
		      bool writable)
{
	uint64_t from = weir__down(off, w->page);
	void *addr;
	int r;

	w->len = weir__up((size_t)(off - from) + size, w->page);
	r = weir__sys_map(w->len, fd, from,
			  writable ? PROT_READ | PROT_WRITE : PROT_READ, &addr);
	if (r < 0)
		return weir__fail_sys(
			r, "mapping %zu bytes at %llu of descriptor %d", size,
			(unsigned long long)off, fd);
	w->addr = addr;
	if (!w->eager)
		return 0;
	r = weir__sys_madvise(addr, w->len,
			      writable ? MADV_POPULATE_WRITE
				       : MADV_POPULATE_READ);
	if (r < 0)
		weir__sys_unmap(addr, w->len);
	return r < 0 ? weir__fail_sys(r,
				      "%zu pages of %zu bytes of descriptor %d",
				      w->len / w->page, w->page, fd)
		     : 0;
}

/* Check and map a file; @size > 0. */
static int window_new(int fd, uint64_t off, size_t size, bool writable,
		      bool unsealed, struct file_window **ret_window)
{
	struct file_window found, *w;
	int r;

	if ((r = check_file(fd, &found)) < 0 ||
	    (r = check_mode(fd, writable)) < 0 ||
	    (r = check_seals(fd, writable, unsealed)) < 0 ||
	    (r = check_size(fd, off, size)) < 0)
		return r;
	w = weir__calloc(1, sizeof(*w));
	if (!w)
		return weir__fail(-ENOMEM, "no memory for a mapping");
	*w = found;
	r = window_map(w, fd, off, size, writable);
	if (r < 0)
		weir__free(w);
	else
		*ret_window = w;
	return r;
}

static uint32_t window_got(const struct file_window *w)
{
	uint32_t got = WEIR_GOT_SHARED;

	if (w->page >= WEIR__HUGE_PAGE)
		got |= WEIR_GOT_HUGE | WEIR_GOT_LOCKED | WEIR_GOT_HUGETLB;
	if (w->page >= (size_t)1 << 30)
		got |= WEIR_GOT_HUGETLB_1G;
	return got;
}

static int wrap_device(struct weir_buft *buft, int fd, uint64_t off,
		       size_t size, uint32_t flags, struct weir_buf **ret_buf)
{
	int r = weir__sys_get_flags(fd);

	if (r < 0)
		return weir__fail_sys(r, "descriptor %d", fd);
	return weir__buf_of_fd(buft, fd, off, size, flags & WEIR_WRAP_READONLY,
			       ret_buf);
}

int weir__buf_wrap_fd(struct weir_buft *buft, int fd, uint64_t off, size_t size,
		      uint32_t flags, struct weir_buf **ret_buf)
{
	bool writable = buft->desc.kind != WEIR_MEM_MAPPED;
	struct file_window *w = NULL;
	int r;

	r = weir__root_enter(buft->dev->weir);
	if (r < 0)
		return r;
	if (flags & ~(WEIR_WRAP_UNSEALED | WEIR_WRAP_READONLY))
		return weir__fail(-EINVAL, "flags 0x%x has bits unknown here",
				  flags);
	if (!size)
		return weir__fail(-EINVAL, "0 bytes of descriptor %d", fd);
	if (!(buft->desc.flags & WEIR_BUFT_HOST))
		return wrap_device(buft, fd, off, size, flags, ret_buf);
	if (flags & WEIR_WRAP_READONLY && writable)
		return weir__fail(
			-EINVAL,
			"%s: host memory is wrapped for reading only as memory of kind WEIR_MEM_MAPPED",
			buft->desc.name);
	r = window_new(fd, off, size, writable, flags & WEIR_WRAP_UNSEALED, &w);
	if (r < 0)
		return r;
	r = weir__buf_foreign(buft, w->addr + off % w->page, size,
			      window_release, w, ret_buf);
	if (r < 0) {
		window_release(w);
		return r;
	}
	(*ret_buf)->mem.got |= window_got(w);
	return 0;
}

int weir_buf_wrap_fd(struct weir_buft *buft, int fd, uint64_t off, size_t size,
		     uint32_t flags, struct weir_buf **ret_buf)
{
	WEIR__ENTER();
	return weir__buf_wrap_fd(buft, fd, off, size, flags, ret_buf);
}
