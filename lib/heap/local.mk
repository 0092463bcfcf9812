# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/heap.h %D%/heap.c %D%/request.c \
	%D%/bins.h %D%/bins.c %D%/pieces.c %D%/after.c %D%/lanes.c %D%/order.c %D%/region.c \
	%D%/lock.h %D%/lock.c %D%/threads.h %D%/threads.c %D%/cache.c \
	%D%/shards.c %D%/index.c %D%/record.c
EXTRA_DIST += %D%/README.md %D%/SHARDS.md
