/* SPDX-License-Identifier: MIT */
/*
 * What the C library may lack. config.h includes it, so that everything that
 * is compiled sees it.
 */
#ifndef WEIR_COMPAT_H
#define WEIR_COMPAT_H

/* glibc has these since 2.32, musl has neither. Never NULL here. */
#ifndef HAVE_STRERRORNAME_NP
const char *strerrorname_np(int err);
#endif
#ifndef HAVE_STRERRORDESC_NP
const char *strerrordesc_np(int err);
#endif

#endif
