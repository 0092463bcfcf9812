/* SPDX-License-Identifier: MIT */
/*
 * Buffers that map a range of a file: read-only those of kind MAPPED, private
 * and writable those of kind PLAIN.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/file.h"
#include "mem/buf.h"

struct mapping {
	void *addr;
	size_t len;
	struct weir_file *file;
};

static void map_release(void *arg)
{
	struct mapping *m = arg;

	weir__sys_unmap(m->addr, m->len);
	weir__file_put(m->file);
	weir__free(m);
}

static int map_check(struct weir_buft *buft, struct weir_file *file)
{
	if (file->object)
		return weir__fail(
			-EINVAL,
			"%s: is not a file of this machine and cannot be mapped: read it into memory instead",
			file->base);
	if (buft->desc.kind != WEIR_MEM_MAPPED &&
	    buft->desc.kind != WEIR_MEM_PLAIN)
		return weir__fail(
			-EINVAL,
			"%s: cannot be mapped to %s, which is neither of kind WEIR_MEM_MAPPED nor WEIR_MEM_PLAIN",
			file->base, buft->desc.name);
	if (file->weir != buft->dev->weir)
		return weir__fail(-EINVAL, "%s and %s belong to two roots",
				  file->base, buft->desc.name);
	return 0;
}

/*
 * Check against the file as it is now, which may have changed since it was
 * opened.
 */
static int check_range(struct weir_file *file, uint64_t off, size_t size)
{
	struct stat st;
	uint64_t bytes;
	int r = weir__sys_fstat(file->fd, &st);

	if (r < 0)
		return weir__fail_sys(r, "%s", file->base);
	bytes = (uint64_t)st.st_size;
	if (off > bytes || size > bytes - off)
		return weir__fail(
			-EINVAL,
			"%s: %zu bytes at %llu are not in the file, which has %llu",
			file->base, size, (unsigned long long)off,
			(unsigned long long)bytes);
	return 0;
}

int weir__buf_map(struct weir_buft *buft, struct weir_file *file, uint64_t off,
		  size_t size, struct weir_buf **ret_buf)
{
	uint64_t from = weir__down(off, (uint64_t)sysconf(_SC_PAGESIZE));
	struct mapping *m;
	int r = map_check(buft, file);

	if (r < 0)
		return r;
	m = weir__calloc(1, sizeof(*m));
	if (!m)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a mapping of %zu bytes",
				  file->base, size);
	m->len = (size_t)(off - from) + size;
	m->len += !m->len; /* an empty range needs an address too */
	if (buft->desc.kind == WEIR_MEM_MAPPED)
		r = weir__sys_map(m->len, file->fd, from, PROT_READ, &m->addr);
	else
		r = weir__sys_map_private(m->len, file->fd, from, &m->addr);
	if (r < 0) {
		weir__free(m);
		return weir__fail_sys(r, "%s: mapping %zu bytes at %llu",
				      file->base, size,
				      (unsigned long long)off);
	}
	m->file = weir__file_ref(file);
	r = weir__buf_foreign(buft, (char *)m->addr + (off - from), size,
			      map_release, m, ret_buf);
	if (r < 0)
		map_release(m);
	return r;
}

int weir_buf_map(struct weir_buft *buft, struct weir_file *file, uint64_t off,
		 size_t size, struct weir_buf **ret_buf)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buft->dev->weir);
	if (r >= 0 && !file->object)
		r = check_range(file, off, size);
	return r < 0 ? r : weir__buf_map(buft, file, off, size, ret_buf);
}
