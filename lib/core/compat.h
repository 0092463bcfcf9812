/* SPDX-License-Identifier: MIT */
/*
 * Functions that some C libraries lack. config.h includes this header, so each
 * source file has it.
 */
#ifndef WEIR_COMPAT_H
#define WEIR_COMPAT_H

#include <string.h>
#include <sys/mman.h>

/* glibc has these since 2.32, musl has neither. These do not return NULL. */
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

/*
 * In Linux since 5.14, and not in the headers of musl and of glibc before 2.35.
 */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#endif
