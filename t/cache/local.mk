# SPDX-License-Identifier: MIT
T_CACHE_C = %D%/partial.t %D%/fetch.t %D%/cached.t %D%/held.t
check_PROGRAMS += $(T_CACHE_C)
TESTS += $(T_CACHE_C)
%C%_partial_t_SOURCES = %D%/partial.c $(T_FILES)
%C%_fetch_t_SOURCES = %D%/fetch.c $(T_FILES) $(T_MEM_SOURCE)
%C%_fetch_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_pwrite
%C%_fetch_t_LDADD = $(T_STATIC)
%C%_cached_t_SOURCES = %D%/cached.c $(T_FILES) $(T_MEM_SOURCE)
%C%_cached_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_pwrite \
	$(T_WRAP)sys_lock_shared
%C%_cached_t_LDADD = $(T_STATIC)
%C%_held_t_SOURCES = %D%/held.c $(T_FILES) $(T_MEM_SOURCE)
%C%_held_t_LDFLAGS = $(AM_LDFLAGS) $(T_WRAP)sys_pwrite
%C%_held_t_LDADD = $(T_STATIC)
