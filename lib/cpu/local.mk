# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/apart.c %D%/compute.c %D%/cpu.c \
	%D%/cpu.h %D%/describe.c %D%/memory.c %D%/params.c %D%/queue.c %D%/cpu_rates.c \
	%D%/virtual.c
EXTRA_DIST += %D%/README.md
