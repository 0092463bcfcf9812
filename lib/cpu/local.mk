# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/cpu.c %D%/cpu.h %D%/memory.c %D%/queue.c \
	%D%/compute.c
EXTRA_DIST += %D%/README.md
