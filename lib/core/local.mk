# SPDX-License-Identifier: MIT
LIB_CORE = \
	%D%/root.c %D%/root.h \
	%D%/error.c %D%/error.h \
	%D%/timeline.c %D%/timeline.h %D%/trace.c %D%/trace.h \
	%D%/sys.c %D%/sys_save.c %D%/sys_socket.c %D%/sys.h %D%/clock.c %D%/clock.h \
	%D%/cgroup.c %D%/cgroup.h %D%/cpus.c %D%/cpus.h \
	%D%/numa.c %D%/numa.h %D%/util.h %D%/refs.h %D%/array.c %D%/array.h \
	%D%/sort.c %D%/sort.h %D%/slab.c %D%/slab.h %D%/compat.c %D%/compat.h \
	%D%/hash.c %D%/hash.h
lib_libweir_core_la_SOURCES += $(LIB_CORE)
EXTRA_DIST += %D%/README.md
