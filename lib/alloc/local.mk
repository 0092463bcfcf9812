# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/slots.c %D%/slots.h \
	%D%/touch.c %D%/touch.h
