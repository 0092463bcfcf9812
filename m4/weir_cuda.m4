# SPDX-License-Identifier: MIT
# WEIR_CHECK_CUDA
# ---------------
# --with-cuda=DIR|no|auto: is there a DIR/include/cuda.h of CUDA 13.0 or newer?
# Nothing else is needed to build the module: the driver's library is opened at
# run time. Asked for and not there is an error, otherwise a notice. Sets
# weir_cuda to yes or no, CUDA_CPPFLAGS and the conditional HAVE_CUDA.
AC_DEFUN([WEIR_CHECK_CUDA],
[AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda@<:@=DIR|no|auto@:>@],
   [build the module for CUDA devices with DIR/include/cuda.h; auto looks in
    /usr/local/cuda and /usr @<:@auto@:>@])],
  [],[with_cuda=auto])
weir_cuda=no
CUDA_CPPFLAGS=
AS_CASE([$with_cuda],
 [no],[weir_cuda_dirs=],
 [yes|auto],[weir_cuda_dirs="/usr/local/cuda /usr"],
 [weir_cuda_dirs=$with_cuda])
AS_IF([test "x$with_cuda" != xno],
 [AC_MSG_CHECKING([for cuda.h of CUDA 13.0 or newer])
  weir_save_CPPFLAGS=$CPPFLAGS
  for weir_cuda_dir in $weir_cuda_dirs; do
    test -f "$weir_cuda_dir/include/cuda.h" || continue
    AS_IF([test "x$weir_cuda_dir" = x/usr],[weir_cuda_cppflags=],
     [weir_cuda_cppflags="-isystem $weir_cuda_dir/include"])
    CPPFLAGS="$weir_save_CPPFLAGS $weir_cuda_cppflags"
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <cuda.h>
#if CUDA_VERSION < 13000
#error too old
#endif]])],
     [weir_cuda=yes
      CUDA_CPPFLAGS=$weir_cuda_cppflags
      break])
  done
  CPPFLAGS=$weir_save_CPPFLAGS
  AS_IF([test $weir_cuda = yes],
   [AC_MSG_RESULT([$weir_cuda_dir/include])],
   [AC_MSG_RESULT([no])
    AS_IF([test "x$with_cuda" = xauto],
     [AC_MSG_NOTICE([the module for CUDA devices will not be built])],
     [AC_MSG_ERROR([--with-cuda=$with_cuda: there is no cuda.h of CUDA 13.0 or newer in $weir_cuda_dirs])])])])
AC_SUBST([CUDA_CPPFLAGS])
AM_CONDITIONAL([HAVE_CUDA],[test "x$weir_cuda" = xyes])])

# WEIR_CHECK_NVCC
# ---------------
# --with-nvcc=FILE|no|auto: does the CUDA compiler of release 13 or newer work?
# auto looks in the toolkit of cuda.h and in PATH. Without it the module gets the
# kernels that an archive of a release has as PTX, and without these it computes
# nothing. The module contains kernels compressed, so they need zstd: the library
# and the command. Sets weir_kernels to nvcc, ptx or no, NVCC, ZSTD_CFLAGS,
# ZSTD_LIBS, and the conditionals HAVE_NVCC and HAVE_KERNELS. After
# WEIR_CHECK_CUDA.
AC_DEFUN([WEIR_CHECK_NVCC],
[AC_ARG_WITH([nvcc],
  [AS_HELP_STRING([--with-nvcc@<:@=FILE|no|auto@:>@],
   [compile the kernels for CUDA devices with this nvcc of CUDA 13.0 or newer;
    auto looks beside cuda.h and in PATH @<:@auto@:>@])],
  [],[with_nvcc=auto])
weir_kernels=no
NVCC=
AS_CASE([$with_nvcc],
 [no],[weir_nvccs=],
 [yes|auto],[weir_nvccs="$weir_cuda_dir/bin/nvcc nvcc"],
 [weir_nvccs=$with_nvcc])
AS_IF([test $weir_cuda = yes && test "x$with_nvcc" != xno],
 [AC_MSG_CHECKING([for a working nvcc of CUDA 13.0 or newer])
  AS_ECHO(['#if __CUDACC_VER_MAJOR__ < 13
#error too old
#endif
extern "C" __global__ void k(int *p) { *p = 1; }']) >conftest.cu
  for weir_nvcc in $weir_nvccs; do
    AS_IF(["$weir_nvcc" -cubin -arch=sm_80 -o conftest.cubin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
     [NVCC=$weir_nvcc
      weir_kernels=nvcc
      break])
  done
  rm -f conftest.cu conftest.cubin
  AS_IF([test $weir_kernels = nvcc],
   [AC_MSG_RESULT([$NVCC])],
   [AC_MSG_RESULT([no])
    AS_IF([test "x$with_nvcc" != xauto],
     [AC_MSG_ERROR([--with-nvcc=$with_nvcc: this compiler is not there, does not work (config.log) or is older than CUDA 13.0])])])])
AS_IF([test $weir_cuda = yes && test $weir_kernels = no],
 [AS_IF([test -f "$srcdir/lib/cuda/kernels/elements.ptx"],
   [weir_kernels=ptx],
   [AC_MSG_NOTICE([no nvcc: the module for CUDA devices will move bytes and compute nothing])])])
AS_IF([test $weir_kernels != no],
 [weir_lacks=
  PKG_CHECK_MODULES([ZSTD],[libzstd],[],[weir_lacks="library zstd (libzstd-dev)"])
  AC_CHECK_PROG([weir_zstd],[zstd],[yes],[no])
  test $weir_zstd = yes || weir_lacks="command zstd"
  AS_IF([test "x$weir_lacks" != x],
   [AS_IF([test "x$with_nvcc" != xauto && test "x$with_nvcc" != xno],
     [AC_MSG_ERROR([--with-nvcc: there is no $weir_lacks, which the kernels need])])
    weir_kernels=no
    AC_MSG_NOTICE([no $weir_lacks: the module for CUDA devices will move bytes and compute nothing])])])
AC_SUBST([NVCC])
AC_SUBST([weir_kernels])
AM_CONDITIONAL([HAVE_NVCC],[test $weir_kernels = nvcc])
AM_CONDITIONAL([HAVE_KERNELS],[test $weir_kernels != no])])
