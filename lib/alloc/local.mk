# SPDX-License-Identifier: MIT
lib_libweir_core_la_SOURCES += %D%/addresses.c %D%/addresses.h \
	%D%/arena.c %D%/arena.h %D%/arenas.h \
	%D%/avail.c %D%/avail.h %D%/host.c %D%/host.h %D%/pages.c %D%/pages.h \
	%D%/prefault.c %D%/prefault.h %D%/room.c %D%/share.c %D%/share.h %D%/publish.c %D%/slots.c %D%/slots.h \
	%D%/topology.c %D%/topology.h
EXTRA_DIST += %D%/README.md
