# SPDX-License-Identifier: MIT
# libcuda.so.1 and libnvidia-ml.so.1 for tests, in %D%/.libs; never installed.
EXTRA_DIST += %D%/README.md %D%/ptx/README.md %D%/ptx/compile.sh \
	%D%/ptx/kernels.cu %D%/ptx/kernels.ptx %D%/ptx/faults.cu %D%/ptx/faults.ptx
if HAVE_CUDA
check_LTLIBRARIES += %D%/libcuda.la
%C%_libcuda_la_SOURCES = \
	%D%/control.h %D%/fakecuda.h %D%/queue.h %D%/copy.h \
	%D%/driver.c %D%/entries.c %D%/errors.c %D%/options.c \
	%D%/faults.c %D%/report.c %D%/handle.c \
	%D%/device.c %D%/context.c %D%/memory.c %D%/host.c \
	%D%/stream.c %D%/event.c %D%/queue.c %D%/engine.c \
	%D%/kernel.h %D%/module.c %D%/launch.c %D%/graph.c \
	%D%/place.c %D%/virtual.c %D%/capture.c %D%/copy.c %D%/memcpy.c %D%/batch.c %D%/value.c \
	%D%/library.c
FAKECUDA_PTX = %D%/ptx/ptx.h %D%/ptx/machine.h %D%/ptx/lanes.inc \
	%D%/ptx/operations.inc %D%/ptx/module.c \
	%D%/ptx/parse.c %D%/ptx/decode.c %D%/ptx/run.c %D%/ptx/alu.c \
	%D%/ptx/float.c %D%/ptx/access.c %D%/ptx/exchange.c %D%/ptx/mma.c \
	%D%/ptx/check.c %D%/ptx/rough.c
%C%_libcuda_la_SOURCES += $(FAKECUDA_PTX)
# By hand: which PTX of others is read (ptx/README.md).
EXTRA_PROGRAMS += %D%/ptx/survey
%C%_ptx_survey_SOURCES = %D%/ptx/survey.c $(FAKECUDA_PTX)
%C%_ptx_survey_LDADD = -lm
CLEANFILES += %D%/ptx/survey
%C%_libcuda_la_LIBADD = -lm
%C%_libcuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere -version-info 1:0:0 \
	-shared -Wl,-z,nodelete -Wl,-z,defs
check_LTLIBRARIES += %D%/libnvidia-ml.la
%C%_libnvidia_ml_la_SOURCES = %D%/nvml.c
%C%_libnvidia_ml_la_LDFLAGS = $(%C%_libcuda_la_LDFLAGS)
check_LTLIBRARIES += %D%/libcublasLt.la
%C%_libcublasLt_la_SOURCES = %D%/cublaslt.c %D%/cublaslt_math.c \
	%D%/cublaslt.h
%C%_libcublasLt_la_CPPFLAGS = $(AM_CPPFLAGS)
%C%_libcublasLt_la_LIBADD = -ldl -lm
%C%_libcublasLt_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere \
	-version-info 13:0:0 -shared -Wl,-z,nodelete -Wl,-z,defs

FAKECUDA_TESTS = %D%/fakecuda.t %D%/fakecuda-streams.t \
	%D%/fakecuda-faults.t %D%/fakecuda-nvml.t %D%/fakecuda-traps.t \
	%D%/fakecuda-export.t %D%/fakecuda-kernels.t \
	%D%/fakecuda-checks.t
dist_check_SCRIPTS += %D%/fakecuda-ptx.sh
TESTS += %D%/fakecuda-ptx.sh
FAKECUDA_CU = %D%/cu.c %D%/cu.h %D%/control.h
FAKECUDA_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
check_PROGRAMS += $(FAKECUDA_TESTS)
TESTS += $(FAKECUDA_TESTS)
%C%_fakecuda_t_SOURCES = %D%/fakecuda.c $(FAKECUDA_CU)
%C%_fakecuda_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_t_LDADD = t/libtap.la
%C%_fakecuda_streams_t_SOURCES = %D%/fakecuda-streams.c $(FAKECUDA_CU)
%C%_fakecuda_streams_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_streams_t_LDADD = t/libtap.la
%C%_fakecuda_export_t_SOURCES = %D%/fakecuda-export.c $(FAKECUDA_CU)
%C%_fakecuda_export_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_export_t_LDADD = t/libtap.la
%C%_fakecuda_kernels_t_SOURCES = %D%/fakecuda-kernels.c $(FAKECUDA_CU)
%C%_fakecuda_kernels_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_kernels_t_LDADD = t/libtap.la -lm
%C%_fakecuda_checks_t_SOURCES = %D%/fakecuda-checks.c $(FAKECUDA_CU)
%C%_fakecuda_checks_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_checks_t_LDADD = t/libtap.la
%C%_fakecuda_faults_t_SOURCES = %D%/fakecuda-faults.c $(FAKECUDA_CU)
%C%_fakecuda_faults_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_faults_t_LDADD = t/libtap.la
%C%_fakecuda_nvml_t_SOURCES = %D%/fakecuda-nvml.c $(FAKECUDA_CU)
%C%_fakecuda_nvml_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_nvml_t_LDADD = t/libtap.la
%C%_fakecuda_traps_t_SOURCES = %D%/fakecuda-traps.c $(FAKECUDA_CU)
%C%_fakecuda_traps_t_CPPFLAGS = $(FAKECUDA_CPPFLAGS)
%C%_fakecuda_traps_t_LDADD = t/libtap.la
endif
