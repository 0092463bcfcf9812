# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/races.h %D%/races.c %D%/races_in.h %D%/races_actor.c \
	%D%/races_clock.h %D%/races_clock.c %D%/races_map.h %D%/races_map.c \
	%D%/races_native.c %D%/races_report.c
EXTRA_DIST += %D%/README.md
