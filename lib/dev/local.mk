# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += \
	%D%/dev.c %D%/dev.h %D%/registry.c %D%/registry.h \
	%D%/module.c %D%/reclaim.c %D%/reclaim.h
EXTRA_DIST += %D%/README.md
# It has the folder of modules. automake would take the name for its own rule.
module_object = %D%/libweir_core_la-module.lo
$(module_object): libdirs.stamp
