# SPDX-License-Identifier: MIT
# WEIR_CHECK_CURL
# ---------------
# --with-curl=yes|no|auto: is there a libcurl of 7.75 or newer, for the module
# for URLs? Asked for and not there is an error, otherwise a notice. Sets
# weir_curl to yes or no, CURL_CFLAGS, CURL_LIBS and the conditional HAVE_CURL.
AC_DEFUN([WEIR_CHECK_CURL],
[AC_ARG_WITH([curl],
  [AS_HELP_STRING([--with-curl@<:@=yes|no|auto@:>@],
   [build the module for URLs (https, s3, hf and others) with libcurl
    @<:@auto@:>@])],
  [],[with_curl=auto])
weir_curl=no
AS_IF([test "x$with_curl" != xno],
 [PKG_CHECK_MODULES([CURL],[libcurl >= 7.75],[weir_curl=yes],
   [AS_IF([test "x$with_curl" = xauto],
     [AC_MSG_NOTICE([no libcurl of 7.75 or newer (libcurl4-openssl-dev): the module for URLs will not be built])],
     [AC_MSG_ERROR([--with-curl: pkg-config finds no libcurl of 7.75 or newer])])])])
AM_CONDITIONAL([HAVE_CURL],[test "x$weir_curl" = xyes])])
