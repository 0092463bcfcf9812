# SPDX-License-Identifier: MIT
T_HOUSE_SH = %D%/tap.sh %D%/bootstrap.sh %D%/headers.sh %D%/layers.sh %D%/symbols.sh \
	%D%/names.sh %D%/format.sh %D%/exports.sh %D%/pages.sh %D%/llama.sh %D%/valgrind.sh \
	%D%/examples.sh %D%/install.sh %D%/dist.sh
dist_check_SCRIPTS += $(T_HOUSE_SH)
TESTS += $(T_HOUSE_SH)
dist_check_SCRIPTS += %D%/bench.sh %D%/bench-heap.sh %D%/bundle.sh
TESTS += %D%/bench-heap.sh %D%/bundle.sh
if HAVE_CUDA
TESTS += %D%/bench.sh
endif
