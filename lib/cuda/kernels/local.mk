# SPDX-License-Identifier: MIT
# Each .cu file becomes an image: code of several GPUs (.cubins), and PTX for
# others (.ptxz), both compressed by zstd. image.c contains both. Without nvcc the
# PTX of a release is used.
CUDA_KERNELS_CU = %D%/products.cu %D%/attention.cu %D%/copies.cu %D%/rows.cu \
	%D%/reduce.cu %D%/elements.cu %D%/fused.cu %D%/sort.cu %D%/encode.cu \
	%D%/tiles.cu %D%/tiles_blocks.cu %D%/tiles_k.cu \
	%D%/tiles_small.cu %D%/tiles_values.cu %D%/columns.cu \
	%D%/matvec_floats.cu %D%/matvec_blocks.cu %D%/matvec_k.cu \
	%D%/matvec_small.cu %D%/matvec_values.cu %D%/matvec_codebooks.cu \
	%D%/attention_chunks.cu \
	%D%/attention_tiles.cu
CUDA_KERNELS_H = %D%/params.h %D%/device.cuh %D%/blocks.cuh \
	%D%/quants.cuh %D%/indices.cuh %D%/rotate.cuh \
	%D%/tiles.cuh %D%/tiles_blocks.cuh %D%/unpack.cuh %D%/sequences.cuh %D%/queries.cuh %D%/chunk_rows.cuh \
	%D%/matvec.cuh %D%/matvec_blocks.cuh %D%/values.cuh \
	%D%/rounded.cuh
CUDA_KERNELS_PTX = $(CUDA_KERNELS_CU:.cu=.ptx)
CUDA_KERNELS_PTXZ = $(CUDA_KERNELS_CU:.cu=.ptxz)
CUDA_KERNELS_CUBINS = $(CUDA_KERNELS_CU:.cu=.cubins)
CUDA_KERNELS_LOG = $(CUDA_KERNELS_CU:.cu=.log)
EXTRA_DIST += %D%/README.md %D%/MATVEC.md %D%/ATTENTION.md %D%/TILES.md \
	%D%/compile.sh %D%/resources.sh %D%/resources.txt $(CUDA_KERNELS_CU) $(CUDA_KERNELS_H)

# By a variable: a rule for the name itself would replace the one of automake.
CUDA_IMAGE_LO = lib/cuda/weir_cuda_la-image.lo
if HAVE_NVCC
CUDA_KERNELS_CPPFLAGS = -DWEIR__CUDA_CUBINS='"$(abs_builddir)/%D%/"' \
	-DWEIR__CUDA_PTX='"$(abs_builddir)/%D%/"'
SUFFIXES = .cu .cubins
.cu.cubins:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SHELL) \
		$(top_srcdir)/lib/cuda/kernels/compile.sh \
		'$(NVCC)' $(top_srcdir) $< $(@:.cubins=)
$(CUDA_KERNELS_CUBINS): $(CUDA_KERNELS_H) %D%/compile.sh
$(CUDA_IMAGE_LO): $(CUDA_KERNELS_CUBINS)
CLEANFILES += $(CUDA_KERNELS_CUBINS) $(CUDA_KERNELS_PTX) \
	$(CUDA_KERNELS_PTXZ) $(CUDA_KERNELS_LOG)
# An archive of a release has the PTX, for builds without nvcc.
dist-hook: $(CUDA_KERNELS_CUBINS)
	for file in $(CUDA_KERNELS_PTX); do \
		cp $$file $(distdir)/$$file || exit; \
	done
else
if HAVE_KERNELS
CUDA_KERNELS_CPPFLAGS = -DWEIR__CUDA_PTX='"$(abs_builddir)/%D%/"'
SUFFIXES = .ptx .ptxz
.ptx.ptxz:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && zstd -q -19 -c $< >$@
$(CUDA_IMAGE_LO): $(CUDA_KERNELS_PTXZ)
CLEANFILES += $(CUDA_KERNELS_PTXZ)
dist-hook:
	for file in $(CUDA_KERNELS_PTX); do \
		cp $(srcdir)/$$file $(distdir)/$$file || exit; \
	done
else
CUDA_KERNELS_CPPFLAGS =
endif
endif
# After a change of the kernels, or of the compiler.
resources: $(CUDA_KERNELS_CUBINS)
	$(SHELL) $(top_srcdir)/%D%/resources.sh '$(NVCC)' $(CUDA_KERNELS_LOG) \
		>$(top_srcdir)/%D%/resources.txt
.PHONY: resources
