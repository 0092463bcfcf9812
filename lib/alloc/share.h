/* SPDX-License-Identifier: MIT */
/* The calls of share.c for use inside the library. */
#ifndef WEIR__SHARE_H
#define WEIR__SHARE_H

#include <weir/mem.h>

int weir__buf_share(struct weir_buf *buf, uint32_t flags, int *ret_fd);
int weir__buf_wrap_fd(struct weir_buft *buft, int fd, uint64_t off, size_t size,
		      uint32_t flags, struct weir_buf **ret_buf);

#endif
