/* SPDX-License-Identifier: MIT */
/*
 * weir: model weights between files, host memory and devices, asynchronously.
 * weir(7) has the concepts and a complete program. <weir/cuda.h> is apart.
 */
#ifndef WEIR_H
#define WEIR_H

#include <weir/base.h>
#include <weir/dev.h>
#include <weir/mem.h>
#include <weir/tensor.h>
#include <weir/file.h>
#include <weir/stream.h>
#include <weir/model.h>

#endif
