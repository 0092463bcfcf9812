/* SPDX-License-Identifier: MIT */
/*
 * What the C library may lack. config.h includes it, so that everything that
 * is compiled sees it.
 */
#ifndef WEIR_COMPAT_H
#define WEIR_COMPAT_H

#include <string.h>

/* glibc has these since 2.32, musl has neither. Never NULL here. */
#ifndef HAVE_STRERRORNAME_NP
const char *strerrorname_np(int err);
#endif
#ifndef HAVE_STRERRORDESC_NP
const char *strerrordesc_np(int err);
#endif

/* POSIX has one that returns int, glibc one that returns the text. */
#ifndef STRERROR_R_CHAR_P
char *weir__strerror_r(int err, char *buf, size_t n);
#define strerror_r weir__strerror_r
#endif

/* Of Linux 5.14; musl knows less of the kernel than its headers do. */
#ifndef __GLIBC__
#define MADV_POPULATE_WRITE 23
#endif

#endif
