# SPDX-License-Identifier: MIT
T_CUDA_SH = %D%/cuda-step.sh %D%/cuda-url.sh %D%/cuda.sh %D%/cuda-driver.sh \
	%D%/cuda-contract.sh %D%/cuda-kernels.sh %D%/cuda-counts.sh %D%/hooks.sh
dist_check_SCRIPTS += $(T_CUDA_SH)
EXTRA_DIST += %D%/seeds.sh %D%/counts.sh %D%/counts.txt %D%/flight.sh %D%/flight.txt
if HAVE_CUDA
T_CUDA_C = %D%/cuda-abi.t %D%/cuda-batch.t %D%/cuda-block.t %D%/cuda-budget.t \
	%D%/cuda-calls.t %D%/cuda-ends.t %D%/cuda-faults.t %D%/cuda-files.t \
	%D%/cuda-foreign.t %D%/cuda-free.t %D%/cuda-heap.t \
	%D%/cuda-heap-ends.t %D%/cuda-heap-region.t %D%/cuda-blocked.t %D%/cuda-lanes.t %D%/cuda-late.t \
	%D%/cuda-memory.t %D%/cuda-native.t %D%/cuda-native-io.t \
	%D%/cuda-opening.t %D%/cuda-park.t %D%/cuda-park-ends.t %D%/cuda-peer.t %D%/cuda-races.t \
	%D%/cuda-races-runs.t %D%/cuda-races-computed.t %D%/cuda-rows.t %D%/cuda-save.t %D%/cuda-share.t %D%/cuda-stream.t \
	%D%/cuda-torch.t %D%/cuda-torch-inside.t %D%/cuda-traps.t \
	%D%/cuda-wrong.t %D%/cuda-compute.t %D%/cuda-compute-faults.t %D%/cuda-quants.t \
	%D%/cuda-supports.t %D%/cuda-graphs.t %D%/cuda-graph-faults.t %D%/cuda-rates.t %D%/cuda-fuse.t \
	%D%/cuda-fuse-products.t %D%/cuda-fuse-rows.t %D%/cuda-fuse-matrices.t %D%/cuda-fuse-heads.t \
	%D%/cuda-elements.t %D%/cuda-whole-rows.t %D%/cuda-rows-by-index.t %D%/cuda-copies.t \
	%D%/cuda-rope.t %D%/cuda-attention.t %D%/cuda-products.t %D%/cuda-any.t %D%/cuda-grids.t %D%/cuda-random.t
T_CUDA_C += %D%/cuda-tiles.t %D%/cuda-cublaslt.t %D%/cuda-cublaslt-runs.t \
	%D%/cuda-cublaslt-library.t %D%/cuda-cublaslt-abi.t %D%/cuda-launch-faults.t
T_CUDA_C += %D%/cuda-lengths.t %D%/cuda-chunks.t %D%/cuda-attention-bits.t \
	%D%/cuda-attention-tiles.t %D%/cuda-attention-places.t
T_CUDA_C += %D%/cuda-matvec.t %D%/cuda-matvec-bits.t
if HAVE_KERNELS
T_CUDA_C += %D%/cuda-unpack.t
endif
check_PROGRAMS += $(T_CUDA_C) %D%/counts
TESTS += $(T_CUDA_C) $(T_CUDA_SH)
%C%_cuda_save_t_SOURCES = %D%/cuda-save.c $(T_FILES) $(T_GPU) $(T_LEAKS)
%C%_cuda_save_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_share_t_SOURCES = %D%/cuda-share.c $(T_GPU) $(T_KIND) $(T_SAMPLE) $(T_LEAKS)
%C%_cuda_share_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_stream_t_SOURCES = %D%/cuda-stream.c $(T_GPU)
%C%_cuda_stream_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_abi_t_SOURCES = %D%/cuda-abi.c
%C%_cuda_batch_t_SOURCES = %D%/cuda-batch.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_peer_t_SOURCES = %D%/cuda-peer.c $(T_GPU)
%C%_cuda_peer_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_calls_t_SOURCES = %D%/cuda-calls.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_calls_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_ends_t_SOURCES = %D%/cuda-ends.c $(T_GPU) $(T_SAMPLE) $(T_LEAKS)
%C%_cuda_ends_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_faults_t_SOURCES = %D%/cuda-faults.c $(T_GPU) $(T_SAMPLE) $(T_LEAKS)
%C%_cuda_faults_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_budget_t_SOURCES = %D%/cuda-budget.c $(T_GPU) $(T_RESERVE)
%C%_cuda_budget_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_park_ends_t_SOURCES = %D%/cuda-park-ends.c $(T_GPU) $(T_SAMPLE) \
	$(T_NOMEM)
%C%_cuda_park_ends_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_cuda_park_ends_t_LDADD = $(T_STATIC) -ldl
%C%_cuda_park_t_SOURCES = %D%/cuda-park.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_park_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_block_t_SOURCES = %D%/cuda-block.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_block_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_heap_t_SOURCES = %D%/cuda-heap.c $(T_GPU)
%C%_cuda_heap_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_heap_region_t_SOURCES = %D%/cuda-heap-region.c $(T_GPU)
%C%_cuda_heap_region_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_heap_ends_t_SOURCES = %D%/cuda-heap-ends.c $(T_GPU) $(T_NOMEM)
%C%_cuda_heap_ends_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_cuda_heap_ends_t_LDADD = $(T_STATIC) -ldl
%C%_cuda_blocked_t_SOURCES = %D%/cuda-blocked.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_blocked_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_late_t_SOURCES = %D%/cuda-late.c $(T_GPU) $(T_UNCACHED)
%C%_cuda_late_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_lanes_t_SOURCES = %D%/cuda-lanes.c $(T_GPU) $(T_LEAKS)
%C%_cuda_memory_t_SOURCES = %D%/cuda-memory.c $(T_GPU) $(T_NOMEM)
%C%_cuda_memory_t_LDFLAGS = $(T_NOMEM_FLAGS)
%C%_cuda_memory_t_LDADD = $(T_STATIC)
%C%_cuda_native_t_SOURCES = %D%/cuda-native.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_native_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_native_io_t_SOURCES = %D%/cuda-native-io.c $(T_GPU)
%C%_cuda_native_io_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_races_t_SOURCES = %D%/cuda-races.c t/racing.c t/racing.h \
	$(T_GPU) $(T_SAMPLE)
%C%_cuda_races_computed_t_SOURCES = %D%/cuda-races-computed.c t/racing.c \
	t/racing.h $(T_GPU)
%C%_cuda_races_runs_t_SOURCES = %D%/cuda-races-runs.c t/racing.c \
	t/racing.h $(T_GPU)
%C%_cuda_rows_t_SOURCES = %D%/cuda-rows.c $(T_GPU) $(T_ROWS)
%C%_cuda_torch_t_SOURCES = %D%/cuda-torch.c $(T_SAID) $(T_GPU) $(T_LEAKS)
%C%_cuda_torch_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_torch_inside_t_SOURCES = %D%/cuda-torch-inside.c $(T_SAID) $(T_GPU) $(T_LEAKS)
%C%_cuda_torch_inside_t_LDADD = $(LDADD) -ldl
%C%_cuda_traps_t_SOURCES = %D%/cuda-traps.c $(T_GPU) $(T_SAMPLE)
%C%_cuda_traps_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_wrong_t_SOURCES = %D%/cuda-wrong.c $(T_GPU)
%C%_cuda_wrong_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_foreign_t_SOURCES = %D%/cuda-foreign.c $(T_GPU)
%C%_cuda_free_t_SOURCES = %D%/cuda-free.c $(T_GPU) $(T_LEAKS)
%C%_cuda_free_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_files_t_SOURCES = %D%/cuda-files.c $(T_GPU)
%C%_cuda_files_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_opening_t_SOURCES = %D%/cuda-opening.c $(T_GPU)
%C%_cuda_opening_t_LDADD = lib/libweir.la t/libtap.la -ldl
if HAVE_NVCC
T_CODE = -DT_HAVE_CODE
endif
%C%_cuda_compute_t_CPPFLAGS = $(AM_CPPFLAGS) $(T_CODE)
%C%_cuda_compute_t_SOURCES = %D%/cuda-compute.c $(T_GPU)
%C%_cuda_compute_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_fuse_products_t_SOURCES = %D%/cuda-fuse-products.c $(T_GPU)
%C%_cuda_fuse_products_t_LDADD = lib/libweir.la t/libtap.la -ldl -lm
%C%_cuda_fuse_t_SOURCES = %D%/cuda-fuse.c $(T_GPU)
%C%_cuda_fuse_t_LDADD = lib/libweir.la t/libtap.la -ldl
T_SEGMENT = %D%/segment.c %D%/segment.h $(T_GPU)
%C%_cuda_fuse_rows_t_SOURCES = %D%/cuda-fuse-rows.c $(T_SEGMENT)
%C%_cuda_fuse_rows_t_LDADD = $(LDADD) -ldl
%C%_cuda_fuse_matrices_t_SOURCES = %D%/cuda-fuse-matrices.c $(T_SEGMENT)
%C%_cuda_fuse_matrices_t_LDADD = $(LDADD) -ldl
%C%_cuda_fuse_heads_t_SOURCES = %D%/cuda-fuse-heads.c $(T_SEGMENT)
%C%_cuda_fuse_heads_t_LDADD = $(LDADD) -ldl
%C%_cuda_rates_t_SOURCES = %D%/cuda-rates.c $(T_GPU)
%C%_cuda_rates_t_LDADD = lib/libweir.la t/libtap.la -ldl
T_GRAPH_RUNS = %D%/graph_runs.c %D%/graph_runs.h $(T_GPU)
%C%_cuda_graph_faults_t_SOURCES = %D%/cuda-graph-faults.c $(T_GRAPH_RUNS)
%C%_cuda_graph_faults_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_graphs_t_SOURCES = %D%/cuda-graphs.c $(T_GRAPH_RUNS)
%C%_cuda_graphs_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_quants_t_SOURCES = %D%/cuda-quants.c $(T_GPU)
%C%_cuda_quants_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_supports_t_SOURCES = %D%/cuda-supports.c $(T_GPU)
%C%_cuda_supports_t_LDADD = $(LDADD) -ldl
%C%_cuda_compute_faults_t_SOURCES = %D%/cuda-compute-faults.c $(T_GPU)
%C%_cuda_compute_faults_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_launch_faults_t_SOURCES = %D%/cuda-launch-faults.c $(T_GPU)
%C%_cuda_launch_faults_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_random_t_SOURCES = %D%/cuda-random.c $(T_RANDOM) $(T_GPU)
%C%_cuda_random_t_LDADD = $(LDADD) -ldl
%C%_cuda_matvec_bits_t_SOURCES = %D%/cuda-matvec-bits.c $(T_GPU)
%C%_cuda_matvec_bits_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_counts_SOURCES = %D%/counts.c $(T_GPU)
%C%_counts_LDADD = lib/libweir.la t/libtap.la -ldl
# The trials of the kernels of the CPU, on CUDA0.
%C%_cuda_elements_t_SOURCES = t/kernels/kernel-elements.c $(T_CUDA_TRIAL)
%C%_cuda_elements_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_elements_t_LDADD = $(LDADD) -ldl
%C%_cuda_whole_rows_t_SOURCES = t/kernels/kernel-whole-rows.c $(T_CUDA_TRIAL)
%C%_cuda_whole_rows_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_whole_rows_t_LDADD = $(LDADD) -ldl
%C%_cuda_rows_by_index_t_SOURCES = t/kernels/kernel-rows.c $(T_CUDA_TRIAL)
%C%_cuda_rows_by_index_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_rows_by_index_t_LDADD = $(LDADD) -ldl
%C%_cuda_copies_t_SOURCES = t/kernels/kernel-copies.c $(T_CUDA_TRIAL)
%C%_cuda_copies_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_copies_t_LDADD = $(LDADD) -ldl
%C%_cuda_rope_t_SOURCES = t/kernels/kernel-rope.c $(T_CUDA_TRIAL)
%C%_cuda_rope_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_rope_t_LDADD = $(LDADD) -ldl
%C%_cuda_lengths_t_SOURCES = t/kernels/kernel-lengths.c $(T_CUDA_TRIAL)
%C%_cuda_lengths_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_lengths_t_LDADD = $(LDADD) -ldl
%C%_cuda_attention_t_SOURCES = t/kernels/kernel-attention.c $(T_CUDA_TRIAL)
%C%_cuda_attention_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_attention_t_LDADD = $(LDADD) -ldl
%C%_cuda_products_t_SOURCES = t/kernels/kernel-products.c $(T_CUDA_TRIAL)
%C%_cuda_products_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_products_t_LDADD = $(LDADD) -ldl
%C%_cuda_grids_t_SOURCES = %D%/cuda-grids.c $(T_ATTEND)
%C%_cuda_grids_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_grids_t_LDADD = $(LDADD) -ldl
%C%_cuda_any_t_SOURCES = t/kernels/kernel-any.c $(T_CUDA_TRIAL)
%C%_cuda_any_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_any_t_LDADD = $(LDADD) -ldl
%C%_cuda_attention_tiles_t_SOURCES = %D%/cuda-attention-tiles.c $(T_ATTEND)
%C%_cuda_attention_tiles_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_attention_tiles_t_LDADD = $(LDADD) -ldl
%C%_cuda_attention_places_t_SOURCES = %D%/cuda-attention-places.c $(T_ATTEND)
%C%_cuda_attention_places_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_attention_places_t_LDADD = $(LDADD) -ldl -lm
%C%_cuda_chunks_t_SOURCES = %D%/cuda-chunks.c $(T_ATTEND)
%C%_cuda_chunks_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_chunks_t_LDADD = $(LDADD) -ldl
%C%_cuda_attention_bits_t_SOURCES = %D%/cuda-attention-bits.c $(T_GPU)
%C%_cuda_attention_bits_t_LDADD = lib/libweir.la t/libtap.la -ldl
%C%_cuda_tiles_t_SOURCES = %D%/cuda-tiles.c $(T_CUDA_TRIAL)
%C%_cuda_tiles_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_tiles_t_LDADD = $(LDADD) -ldl
%C%_cuda_cublaslt_t_SOURCES = %D%/cuda-cublaslt.c $(T_CUDA_TRIAL)
%C%_cuda_cublaslt_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_cublaslt_t_LDADD = $(LDADD) -ldl
T_PRODUCT_RUNS = %D%/product_runs.c %D%/product_runs.h $(T_GPU)
%C%_cuda_cublaslt_library_t_SOURCES = %D%/cuda-cublaslt-library.c \
	$(T_PRODUCT_RUNS)
%C%_cuda_cublaslt_library_t_LDADD = lib/libweir.la t/libtap.la -ldl -lm
%C%_cuda_cublaslt_runs_t_SOURCES = %D%/cuda-cublaslt-runs.c $(T_PRODUCT_RUNS)
%C%_cuda_cublaslt_runs_t_LDADD = lib/libweir.la t/libtap.la -ldl -lm
%C%_cuda_cublaslt_abi_t_SOURCES = %D%/cuda-cublaslt-abi.c
%C%_cuda_cublaslt_abi_t_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_cuda_unpack_t_SOURCES = %D%/cuda-unpack.c lib/cuda/unpack.c
%C%_cuda_unpack_t_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_cuda_unpack_t_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS)
%C%_cuda_unpack_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
%C%_cuda_unpack_t_LDADD = t/libtap.la $(ZSTD_LIBS)
%C%_cuda_matvec_t_SOURCES = %D%/cuda-matvec.c $(T_CUDA_TRIAL)
%C%_cuda_matvec_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/t/kernels
%C%_cuda_matvec_t_LDADD = $(LDADD) -ldl
endif
# After a change of the kernels, or of the compiler.
counts: all %D%/counts
	$(MAKE) check-tests TESTS=t/cuda/cuda-counts.sh >/dev/null; \
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/counts.sh '$(NVCC)' \
		%D%/counts >$(srcdir)/%D%/counts.txt
	$(SHELL) $(srcdir)/%D%/flight.sh \
		$(top_srcdir)/lib/cuda/kernels/resources.txt \
		>$(srcdir)/%D%/flight.txt
.PHONY: counts
# What CUDA devices compute, with other orders of warps and blocks.
seeds: all
	$(MAKE) check TESTS= >/dev/null
	$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/%D%/seeds.sh $(SEEDS)
.PHONY: seeds
