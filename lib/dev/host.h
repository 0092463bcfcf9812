/* SPDX-License-Identifier: MIT */
/* The table of functions that the library offers its backends. */
#ifndef WEIR__HOST_H
#define WEIR__HOST_H

#include "dev/backend.h"

extern const struct weir__host weir__host;

#endif
