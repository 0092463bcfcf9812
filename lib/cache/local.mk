# SPDX-License-Identifier: MIT
EXTRA_DIST += %D%/README.md
lib_libweir_core_la_SOURCES += %D%/partial.c %D%/partial.h
