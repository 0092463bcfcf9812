# SPDX-License-Identifier: MIT
# Small complete programs. t/house/examples.sh runs them; t/house/install.sh builds load.c
# with the installed library.
check_PROGRAMS += %D%/load %D%/arrive %D%/queue %D%/engine \
	%D%/park %D%/remote %D%/share %D%/save %D%/source
%C%_load_SOURCES = %D%/load.c
%C%_load_LDADD = lib/libweir.la
%C%_arrive_SOURCES = %D%/arrive.c
%C%_arrive_LDADD = lib/libweir.la
%C%_queue_SOURCES = %D%/queue.c
%C%_queue_LDADD = lib/libweir.la
%C%_engine_SOURCES = %D%/engine.c
%C%_engine_LDADD = lib/libweir.la
%C%_save_SOURCES = %D%/save.c
%C%_save_LDADD = lib/libweir.la
%C%_park_SOURCES = %D%/park.c
%C%_park_LDADD = lib/libweir.la
%C%_remote_SOURCES = %D%/remote.c
%C%_remote_LDADD = lib/libweir.la
%C%_source_SOURCES = %D%/source.c
%C%_source_LDADD = lib/libweir.la
%C%_share_SOURCES = %D%/share.c
%C%_share_LDADD = lib/libweir.la
EXTRA_DIST += %D%/README.md %D%/module.c %D%/remote.py %D%/rmm.cpp \
	%D%/weir_torch.py
