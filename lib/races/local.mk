# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/races.h %D%/races.c %D%/races_state.h %D%/races_actor.c \
	%D%/races_map.h %D%/races_map.c
EXTRA_DIST += %D%/README.md
