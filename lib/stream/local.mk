# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/range.h %D%/range.c \
	%D%/stream.h %D%/stream.c %D%/order.c \
	%D%/mode.h %D%/mode_managed.c %D%/mode_native.c \
	%D%/ops.c %D%/copy.c %D%/fileio.h %D%/fileio.c %D%/fileio_nowait.c \
	%D%/event.h %D%/event.c %D%/wait.c %D%/keeper.h %D%/keeper.c \
	%D%/part.c %D%/trace.c %D%/races.h %D%/races.c %D%/watcher.h %D%/watcher.c
EXTRA_DIST += %D%/README.md %D%/CHUNK.md
