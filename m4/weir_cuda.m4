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
