# SPDX-License-Identifier: MIT
LIB_STREAM = %D%/range.h %D%/range.c \
	%D%/stream.h %D%/stream.c %D%/streams.c %D%/order.c \
	%D%/mode.h %D%/mode_managed.c %D%/mode_native.c \
	%D%/stream_ops.c %D%/fileio.h %D%/fileio.c %D%/event.h %D%/event.c \
	%D%/wait.c %D%/stream_races.h %D%/stream_races.c
lib_libweir_core_la_SOURCES += $(LIB_STREAM)
EXTRA_DIST += %D%/README.md %D%/CHUNK.md
