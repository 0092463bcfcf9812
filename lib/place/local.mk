# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/exact.c %D%/exact.h \
	%D%/exact_part.c %D%/exact_part.h \
	%D%/exact_search.c %D%/exact_bounds.c %D%/exact_search.h
