# SPDX-License-Identifier: MIT
T_DEV_C = %D%/dev.t %D%/backend.t %D%/module.t %D%/module-sizes.t
check_PROGRAMS += $(T_DEV_C)
TESTS += $(T_DEV_C)
%C%_dev_t_SOURCES = %D%/dev.c $(T_TESTMOD)
%C%_backend_t_SOURCES = %D%/backend.c $(T_TESTMOD)
%C%_backend_t_LDADD = lib/libweir.la t/libtap.la
%C%_module_t_SOURCES = %D%/module.c $(T_TESTMOD) $(T_UNCACHED)
%C%_module_t_LDADD = $(T_STATIC)
%C%_module_sizes_t_SOURCES = %D%/module-sizes.c $(T_TESTMOD)
