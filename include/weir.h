/* SPDX-License-Identifier: MIT */
/*
 * weir moves model weights between files, host memory and devices,
 * asynchronously. weir(7) explains the concepts and has a complete program.
 *
 * The public headers, except <weir/cuda.h> and <weir/backend.h>, which a
 * program includes itself:
 *
 *	base.h    the root object (struct weir), options, errors, versions
 *	dev.h     devices and the kinds of memory that each has
 *	mem.h     buffers: allocations of memory
 *	tensor.h  tensors: element type, shape, and place in a buffer
 *	file.h    open files
 *	source.h  sources of bytes: URLs, and objects of the program
 *	digest.h  digests of files and tensors; manifests
 *	stream.h  streams (in-order queues of a device) and events
 *	heap.h    blocks of buffers, freed in the order of streams
 *	model.h   model files: their tensors and metadata
 *	plan.h    plans: which tensors to load, and where
 *	load.h    loads and weights
 *	fetch.h   models that are copied from URLs into a folder
 *	share.h   weights that processes share; descriptors by name
 *	placement.h  lifetimes in, offsets out: the memory of a graph
 *	graph.h   graphs: computations that are described before they run
 *	ops.h     the operations of graphs
 *	sched.h   executable graphs: the plan of a graph on a device; runs of it
 *	compare.h copies of graphs on other devices; comparing two devices
 */
#ifndef WEIR_H
#define WEIR_H

#include <weir/base.h>
#include <weir/dev.h>
#include <weir/mem.h>
#include <weir/tensor.h>
#include <weir/file.h>
#include <weir/source.h>
#include <weir/digest.h>
#include <weir/stream.h>
#include <weir/heap.h>
#include <weir/model.h>
#include <weir/plan.h>
#include <weir/load.h>
#include <weir/park.h>
#include <weir/save.h>
#include <weir/fetch.h>
#include <weir/share.h>
#include <weir/placement.h>
#include <weir/graph.h>
#include <weir/ops.h>
#include <weir/sched.h>
#include <weir/compare.h>

#endif
