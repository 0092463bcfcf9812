# SPDX-License-Identifier: MIT
# `make bundle`: the tests and benches for a machine without build tools.
BUNDLE = $(PACKAGE)-$(VERSION)-$(host_cpu)-linux
BUNDLE_LIMIT = 41943040
bundledir = .

# Tests that need the sources, or that change mounts or users.
BUNDLE_LEAVE_OUT = t/house/tap.sh t/house/bootstrap.sh t/house/headers.sh t/house/layers.sh \
	t/house/format.sh t/house/exports.sh t/house/pages.sh t/house/install.sh t/house/dist.sh \
	t/kernels/instructions.sh t/house/bundle.sh t/core/gdb.sh \
	t/io/env-ring.sh t/alloc/env-memory.sh t/io/env-files.sh $(T_PY_SH) $(T_HTTP_C)
BUNDLE_FILES = t/tap.inc t/cli.inc t/gpu.inc t/safetensors.py t/gguf.py \
	t/corpus \
	bench/decode_gpu bench/decode_llama.py bench/decode_worker.py \
	$(BENCH_PEERS)
bundle: all $(check_PROGRAMS) $(check_LTLIBRARIES) bench/peer_weir \
	bench/products bench/decode_weir
	@NAME='$(BUNDLE)' LIMIT='$(BUNDLE_LIMIT)' \
		PROGRAMS='$(BUNDLE_ALSO)' TESTS='$(TESTS)' \
		FILES='$(BUNDLE_FILES)' LEAVE_OUT='$(BUNDLE_LEAVE_OUT)' \
		prefix='$(prefix)' libdir='$(libdir)' srcdir='$(top_srcdir)' \
		MAKE='$(MAKE)' LIBTOOL='$(LIBTOOL)' STRIP='$(STRIP)' \
		SANITIZER='$(enable_sanitizer)' \
		$(SHELL) $(top_srcdir)/%D%/pack '$(bundledir)'
.PHONY: bundle
BUNDLE_ALSO = bench/load bench/engine bench/peer_weir bench/products \
	bench/decode_weir examples/load \
	examples/arrive examples/queue

# The other loaders, as wheels for the Python of the other machine.
WHEELS_FOR = 3.12
WHEELS_LIBC = 2.39
WHEELS_LIMIT = 67108864
WHEELS_PIP = python3 -m pip
WHEELS = $(PACKAGE)-$(VERSION)-$(host_cpu)-wheels-$(WHEELS_FOR)
bundle-peers: bundle
	@NAME='$(WHEELS)' BUNDLE='$(BUNDLE)' VERSION='$(WHEELS_FOR)' \
		LIBC='$(WHEELS_LIBC)' MACHINE='$(host_cpu)' \
		LIMIT='$(WHEELS_LIMIT)' PIP='$(WHEELS_PIP)' \
		$(SHELL) $(top_srcdir)/%D%/pack-peers '$(bundledir)'
.PHONY: bundle-peers

EXTRA_DIST += %D%/README.md %D%/pack %D%/pack-peers %D%/program \
	%D%/one-test %D%/run-tests %D%/run-bench %D%/run-all \
	%D%/run-items.inc
CLEANFILES += $(BUNDLE).tar.gz $(PACKAGE)-$(VERSION)-$(host_cpu)-wheels-*.tar
