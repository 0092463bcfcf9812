/* SPDX-License-Identifier: MIT */
/*
 * A shared object that was cut short kills the process inside dlopen(3), which
 * maps its segments without comparing them with the file's size. So this checks
 * the sizes first.
 */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/module.h"

#define MAX_HEADERS 64u

static int check_header(const ElfW(Ehdr) * e, int64_t got)
{
	if (got != (int64_t)sizeof(*e) ||
	    memcmp(e->e_ident, ELFMAG, SELFMAG) != 0)
		return weir__fail(-ENOEXEC, "not an ELF file");
	if (e->e_type != ET_DYN || e->e_phentsize != sizeof(ElfW(Phdr)) ||
	    !e->e_phnum || e->e_phnum > MAX_HEADERS)
		return weir__fail(-ENOEXEC,
				  "not a shared object of this machine");
	return 0;
}

static int check_segments(int fd, const ElfW(Ehdr) * e, uint64_t size)
{
	ElfW(Phdr) p[MAX_HEADERS];
	size_t bytes = e->e_phnum * sizeof(p[0]);

	if (weir__sys_pread(fd, p, bytes, e->e_phoff) != (int64_t)bytes)
		return weir__fail(
			-ENOEXEC,
			"cut short: %llu bytes, less than its headers need",
			(unsigned long long)size);
	for (unsigned i = 0; i < e->e_phnum; i++) {
		uint64_t end;

		if (p[i].p_type != PT_LOAD)
			continue;
		if (weir__add_over(p[i].p_offset, p[i].p_filesz, &end) ||
		    end > size)
			return weir__fail(
				-ENOEXEC,
				"cut short: %llu bytes, a segment ends at %llu",
				(unsigned long long)size,
				(unsigned long long)end);
	}
	return 0;
}

int weir__elf_check(int fd, uint64_t size)
{
	ElfW(Ehdr) e;
	int64_t got = weir__sys_pread(fd, &e, sizeof(e), 0);
	int r = check_header(&e, got);

	return r < 0 ? r : check_segments(fd, &e, size);
}
