# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/file.c %D%/file.h %D%/engine.h
