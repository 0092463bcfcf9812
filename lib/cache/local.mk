# SPDX-License-Identifier: MIT
EXTRA_DIST += %D%/README.md
lib_libweir_core_la_SOURCES += %D%/partial.c %D%/partial.h \
	%D%/cache.c %D%/cache.h %D%/cache_room.c %D%/cache_work.c \
	%D%/cached_object.c %D%/cached_write.c
