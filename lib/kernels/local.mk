# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/kernels.h
lib_libweir_core_la_SOURCES += %D%/team.c %D%/team.h
EXTRA_DIST += %D%/README.md
