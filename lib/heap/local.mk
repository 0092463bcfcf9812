# SPDX-License-Identifier: MIT
LIB_HEAP = %D%/heap.h %D%/heap.c %D%/holes.c %D%/unused.c %D%/request.c \
	%D%/thread_cache.c %D%/shards.c %D%/stream_bins.c %D%/free_events.c \
	%D%/blocks.c %D%/bins.h %D%/bins.c %D%/region.c %D%/block_index.c \
	%D%/record.c %D%/lock.h %D%/lock.c
lib_libweir_core_la_SOURCES += $(LIB_HEAP)
EXTRA_DIST += %D%/README.md %D%/SHARDS.md %D%/REGIONS.md
