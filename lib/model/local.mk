# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/model.h \
	%D%/plan.c %D%/plan.h %D%/layout.c \
	%D%/arrival.c %D%/arrival.h \
	%D%/weights.c %D%/weights.h %D%/digest.c \
	%D%/load.c %D%/load.h %D%/extents.c %D%/status.c
