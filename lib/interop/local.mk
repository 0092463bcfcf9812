# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/native.c %D%/cuda_ext.h
EXTRA_DIST += %D%/README.md
