# SPDX-License-Identifier: MIT
# `make bench` builds what is measured with; bench/README.md tells how.
EXTRA_PROGRAMS += %D%/load
%C%_load_SOURCES = %D%/load.c %D%/raw.c %D%/raw.h
%C%_load_LDADD = lib/libweir.la $(URING_LIBS)
bench: %D%/load
.PHONY: bench
EXTRA_DIST += %D%/README.md %D%/RESULTS.md
CLEANFILES += %D%/load
