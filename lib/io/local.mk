# SPDX-License-Identifier: MIT
EXTRA_DIST += %D%/README.md
lib_libweir_core_la_SOURCES += \
	%D%/file.c %D%/file.h %D%/nowait.c %D%/nowait.h \
	%D%/engine.c %D%/engine.h \
	%D%/reactor.c %D%/reactor.h %D%/owner.c %D%/owner.h \
	%D%/wakefd.c %D%/wakefd.h \
	%D%/chunk.c %D%/op.c %D%/copy.c %D%/queues.c %D%/scatter.c \
	%D%/pool.c %D%/pool.h \
	%D%/method_uring.c %D%/method_sync.c \
	%D%/map.c %D%/resident.c
