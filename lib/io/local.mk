# SPDX-License-Identifier: MIT
EXTRA_DIST += %D%/README.md %D%/HANGS.md %D%/SOURCES.md
lib_libweir_core_la_SOURCES += \
	%D%/file.c %D%/file_digest.c %D%/file.h %D%/map.c %D%/lease.c %D%/lease.h %D%/resident.c \
	%D%/source.c %D%/source_object.c %D%/url.c %D%/source_op.c %D%/source.h \
	%D%/source_module.c %D%/source_module.h \
	%D%/caller_read.c %D%/caller_read.h \
	%D%/engine.c %D%/engine.h %D%/engine_state.h \
	%D%/job.c %D%/job.h %D%/reads.c %D%/reads.h %D%/outcome.c %D%/outcome.h \
	%D%/chunk.c %D%/chunk.h \
	%D%/queues.c %D%/queues.h %D%/loop.c %D%/loop.h \
	%D%/method.h %D%/method_uring.c %D%/method_sync.c \
	%D%/op.c %D%/op.h %D%/op_task.c %D%/device_copy.c %D%/device_copy.h \
	%D%/reactor.c %D%/reactor.h %D%/owner.c %D%/owner.h \
	%D%/wakefd.c %D%/wakefd.h %D%/pool.c %D%/pool.h
