/* SPDX-License-Identifier: MIT */
/*
 * Executable graphs and runs. A scheduler has the devices, and limits for the
 * memory that graphs use. An executable graph holds what was decided for one
 * graph: the device and the order of its operations, and the place of every
 * result. It never changes. A run executes an executable graph, as often as
 * the program likes, in memory that was allocated when the executable graph
 * was made.
 *
 *	weir_sched_new(&dev, 1, NULL, &sched);
 *	weir_exec_new(sched, graph, &exec);
 *	weir_run_new(exec, &run);
 *	weir_run_input(run, ids, data, bytes);
 *	weir_run_start(run);
 *	weir_run_wait(run, -1);
 *	weir_run_output(run, logits, &tensor);
 *
 * Only the number of a node that is passed to a run matters: it is a node of
 * the graph for which the executable graph was made, or the node with the same
 * number of an equal graph.
 */
#ifndef WEIR_SCHED_H
#define WEIR_SCHED_H

#include <weir/base.h>
#include <weir/dev.h>
#include <weir/graph.h>
#include <weir/stream.h>
#include <weir/tensor.h>

WEIR__BEGIN

struct weir_sched;
struct weir_exec;
struct weir_run;

/*
 * The observer. A run calls it when the result @t of an observed node is
 * complete, on a thread of the library; the device continues when it returns.
 * Several runs, and several devices of one run, may call it at the same time.
 * @node is the number of the node in the graph. @t is valid during the call;
 * weir_tensor_data() returns its bytes if they are in host memory. If the
 * observer returns a negative errno, the run fails with it.
 *
 * It may call weir, but may not wait for the run, nor use a call that blocks
 * on memory that the run writes, such as weir_tensor_get(): these would wait
 * for the observer itself.
 */
typedef int weir_observe_fn(void *arg, struct weir_run *run, uint64_t node,
			    const struct weir_tensor *t);

struct weir_sched_opts {
	size_t size;
	uint32_t copies;   /* copies of the inputs and outputs, and so the
			      number of runs of an executable graph that can
			      exist at a time, at most 1024; 0: 1 */
	uint32_t place_ms; /* ms for which the exact planner searches for places
			      of results that need less memory, for each graph
			      that is compiled; 0: it is not used */
	uint64_t budget;   /* bytes of memory, of all devices together, for all
			      executable graphs of the scheduler; 0: no limit */
	weir_observe_fn *observe; /* NULL: observed nodes are not reported */
	void *observe_arg;
	/*
	 * Bytes of the memory of each device for all executable graphs. 0: no
	 * limit; NULL: no device has a limit.
	 */
	const uint64_t *budgets;
	/*
	 * Bytes of the memory of each device for copies of constant leaves
	 * that are in files, or in memory that it cannot use. If the copies do
	 * not fit, the device keeps some; the others are prefetched: each run
	 * reads them again, in the order of use, ahead of the operations. 0:
	 * no limit; NULL: no device has a limit. These bytes do not count
	 * towards the budgets.
	 */
	const uint64_t *weights;
};
WEIR__DECLARE_OPTS_INIT(weir_sched_opts)
#define WEIR_SCHED_OPTS_INIT WEIR__OPTS_INIT(weir_sched_opts)

/*
 * Make a scheduler for the @n devices. Any thread may use it. The options are
 * copied. Free it with weir_sched_free(): its executable graphs and runs stay
 * valid.
 *
 * Leaves in memory of a device that cannot compute are copied to the devices
 * that use them.
 *
 * -EOPNOTSUPP: no device computes. -EINVAL: no device, more than 64, the same
 * device twice, or invalid options. -ENOMEM. Errors of weir_dev_configure().
 */
WEIR_API int weir_sched_new(struct weir_dev *const *devs, unsigned n,
			    const struct weir_sched_opts *opts,
			    struct weir_sched **ret_sched)
	WEIR_NONNULL(1, 4) WEIR_NODISCARD;
WEIR_API void weir_sched_free(struct weir_sched *sched); /* NULL: allowed */

/*
 * Pin nodes to @dev: executable graphs that are made from now on compute there
 * each node whose name matches @pattern, as in fnmatch(3), and each node that
 * reads or writes a leaf whose name matches. If several pins match a name, the
 * last one decides; the pin of a node has precedence over those of its leaves.
 * A pin stays until it is removed: @dev NULL removes the pin with exactly this
 * pattern; if @pattern is NULL too, all pins are removed.
 *
 * weir_exec_new() returns -EOPNOTSUPP if the device of a pin does not have the
 * operation, or cannot use the leaf that the node writes.
 *
 * -EINVAL: @dev is no device of the scheduler, or does not compute; or
 * @pattern is NULL and @dev is not. -ENOMEM.
 */
WEIR_API int weir_sched_pin(struct weir_sched *sched, const char *pattern,
			    struct weir_dev *dev) WEIR_NONNULL(1);
/*
 * Get the rates of device @i of the scheduler, or replace them for executable
 * graphs that are made from now on. Nodes whose device neither pins nor leaves
 * decide are assigned by rates. The library measures each device once, when
 * its rates are first needed, which may block for some milliseconds; then they
 * do not change, so equal graphs are planned alike. A scheduler with one
 * device needs no rates.
 *
 * -EINVAL: there is no device @i, or a rate is not positive and finite.
 */
WEIR_API int weir_sched_rates(struct weir_sched *sched, unsigned i,
			      struct weir_rates *ret_rates) WEIR_NONNULL(1, 3);
WEIR_API int weir_sched_set_rates(struct weir_sched *sched, unsigned i,
				  const struct weir_rates *rates)
	WEIR_NONNULL(1, 3);

/* An executable graph in numbers, or an estimate of one. */
struct weir_exec_info {
	size_t size; /* set by the caller */

	/* Bytes of memory that devices allocate. */
	uint64_t bytes;   /* the sum of the next three; the budgets limit it */
	uint64_t results; /* results of operations, which share bytes */
	uint64_t inputs;  /* all copies of the inputs, and of the outputs if
			       there are several copies */
	uint64_t workspace; /* what the devices need besides */
	uint64_t lowest;    /* least bytes of any placement of the results */

	/* Bytes that do not count towards the budgets. */
	uint64_t leaves;     /* tensors of the program that are used in place */
	uint64_t kept;       /* constant leaves that devices keep */
	uint64_t prefetched; /* constant leaves that each run reads again */
	uint64_t prefetch_buffer; /* the memory into which they are read */

	uint64_t nodes;    /* nodes of the graph */
	uint64_t computed; /* operations that a run computes */
	uint64_t in_place; /* operations whose result replaces a source */

	uint32_t lanes;          /* devices that compute: weir_exec_lane() */
	uint32_t splits;         /* see weir_exec_split() */
	uint32_t transfers;      /* see weir_exec_transfer() */
	uint32_t imports;        /* transfers of constant leaves */
	uint64_t transfer_bytes; /* bytes that each run copies between
				    devices */
	uint64_t import_bytes;   /* bytes of the imports */

	uint64_t fingerprint[2]; /* fingerprint of the graph */
	uint32_t copies;         /* copies of inputs and outputs */
	uint32_t taken;          /* copies that runs have; an estimate: 0 */
	uint64_t times; /* how often weir_exec_new() has returned it; an
			   estimate: 0 */
};
/*
 * Estimate what weir_exec_new() would need. Changes nothing: no memory of a
 * device is allocated, and executable graphs and runs stay as they are.
 * Budgets do not limit it, and leaves need not be placed. Otherwise errors of
 * weir_exec_new().
 */
WEIR_API int weir_sched_estimate(struct weir_sched *sched,
				 const struct weir_graph *g,
				 struct weir_exec_info *ret_estimate)
	WEIR_NONNULL(1, 2, 3);
/*
 * Estimate only the part of device @i of the scheduler. -EINVAL: there is no
 * device @i.
 */
WEIR_API int weir_sched_estimate_dev(struct weir_sched *sched,
				     const struct weir_graph *g, unsigned i,
				     struct weir_exec_info *ret_estimate)
	WEIR_NONNULL(1, 2, 4);

/*
 * Make an executable graph for @g, or take an existing one: the scheduler
 * keeps those in use and a few others, and finds them by the graph's
 * fingerprint. An executable graph that is taken again has the leaves' buffers
 * and events of @g, and the names of the graph for which it was made first. @g
 * may then be changed, reset or freed. The executable graph references the
 * buffers of leaves; the program keeps the events.
 *
 * May block: allocates memory and prepares the operations on the device. A CUDA
 * device takes up to seconds when it loads kernels for the first time; runs and
 * copies of other threads go on. If it fails, all other executable graphs are
 * as before.
 *
 * The failure of the graph. -EOPNOTSUPP: no device has an operation, or a pin
 * cannot be kept; the sentence names the node and the reasons. -EINVAL: a leaf
 * is not placed, or a device that needs it can neither use its memory nor get
 * a copy, because the scheduler does not have the device of that memory.
 * -ENOMEM: no memory, or a budget would be exceeded, which is checked before
 * anything is allocated; the sentence has both numbers. -EOVERFLOW: on a
 * device, all copies of the inputs and the results are over 2^63 - 1 bytes.
 */
WEIR_API int weir_exec_new(struct weir_sched *sched, const struct weir_graph *g,
			   struct weir_exec **ret_exec)
	WEIR_NONNULL(1, 2, 3) WEIR_NODISCARD;
/* NULL is allowed. Never blocks: runs keep what they need. */
WEIR_API void weir_exec_free(struct weir_exec *exec);

/* Describe an executable graph. Any thread. -EINVAL: the size is not set. */
WEIR_API int weir_exec_info(const struct weir_exec *exec,
			    struct weir_exec_info *ret_info) WEIR_NONNULL(1, 2);

/* Where the bytes of a node are. */
enum weir_node_where {
	WEIR_NODE_NOWHERE = 0, /* the node is not computed: nothing needs it */
	WEIR_NODE_LEAF = 1,    /* in a tensor of the program */
	WEIR_NODE_INPUTS = 2,  /* planned memory, a part of each copy */
	WEIR_NODE_RESULTS = 3  /* planned memory that all runs share */
};
/* Why the bytes are there. */
enum weir_node_why {
	WEIR_NODE_NOT_NEEDED =
		0,              /* no output, observed node or write needs it */
	WEIR_NODE_PLACED = 1,   /* the program has placed the leaf */
	WEIR_NODE_WRITES = 2,   /* it writes a leaf */
	WEIR_NODE_VIEWS = 3,    /* it has the bytes of another node */
	WEIR_NODE_KEPT = 4,     /* an input, or an output of a copy */
	WEIR_NODE_IN_PLACE = 5, /* a source was not needed any more */
	WEIR_NODE_PLANNED = 6,  /* the planner has chosen the place */
	WEIR_NODE_IN_FILE = 7   /* a leaf in a file: it has no address */
};
/* Why a node is computed on its device. */
enum weir_node_cause {
	WEIR_NODE_CAUSE_NONE = 0,    /* nothing is computed */
	WEIR_NODE_CAUSE_PINNED = 1,  /* weir_sched_pin() */
	WEIR_NODE_CAUSE_WRITES = 2,  /* the leaf that it writes is there */
	WEIR_NODE_CAUSE_WEIGHTS = 3, /* its largest leaf is there */
	WEIR_NODE_CAUSE_COST = 4,    /* it costs least there */
	WEIR_NODE_CAUSE_ONLY = 5     /* no other device has the operation */
};
struct weir_node_place {
	size_t size;          /* set by the caller */
	struct weir_dev *dev; /* where it is computed; NULL: nowhere */
	uint32_t where;       /* enum weir_node_where */
	uint32_t why;         /* enum weir_node_why */
	uint64_t offset;      /* in its memory; for a leaf its address */
	uint64_t bytes;       /* bytes of its tensor */
	int64_t over;   /* number of the node whose place it takes; -1: none */
	uint64_t step;  /* position among the nodes that its device computes; if
			   it is not computed, that of the next one that is */
	uint64_t until; /* the step from which on its bytes are used for others;
			   UINT64_MAX: they are kept */
	uint32_t cause; /* enum weir_node_cause: why it is computed there */
	uint32_t needed; /* 1: an output, an observed node or a write needs it;
			    a run does not need an input that has 0 */
};
/* Describe the place of node @i. Any thread. -EINVAL: there is no node @i. */
WEIR_API int weir_exec_explain(const struct weir_exec *exec, uint64_t i,
			       struct weir_node_place *ret_place)
	WEIR_NONNULL(1, 3);

/*
 * A split: nodes that one device computes and that follow each other in the
 * graph, with nothing but views and leaves between them.
 */
struct weir_split {
	size_t size;          /* set by the caller */
	struct weir_dev *dev; /* where it is computed */
	uint64_t first;       /* number of its first node */
	uint64_t n;           /* number of its nodes */
	uint64_t inputs;      /* tensors that it gets from elsewhere: results of
				 other devices, and copies for its device */
	uint64_t bytes;       /* the bytes of these tensors */
};
/* Describe split @i. Any thread. -EINVAL: there is no split @i. */
WEIR_API int weir_exec_split(const struct weir_exec *exec, uint64_t i,
			     struct weir_split *ret_split) WEIR_NONNULL(1, 3);

/* The part of an executable graph that one device computes. */
struct weir_lane {
	size_t size;          /* set by the caller */
	struct weir_dev *dev; /* where it is computed */
	uint64_t nodes;       /* operations that it computes in a run */
	/*
	 * CUDA devices; 0 for others. Counts of works include those of other
	 * executable graphs of an equal graph. A run is one work for each lane
	 * if it has nothing to wait for.
	 */
	uint64_t kernels;  /* launches that all its operations need */
	uint64_t graphs;   /* CUDA graphs that were built of them so far */
	uint64_t as_graph; /* works so far that were one CUDA graph */
	uint64_t directly; /* works whose kernels were launched one by one */
	/*
	 * Why the last work was not launched as a CUDA graph, or why the first
	 * one will not be; "": it was.
	 */
	char why[200];
	/*
	 * Products of many columns that NVIDIA's cuBLASLt computes, and its
	 * name and version; or 0, and why it computes none, "": there is no
	 * product that it might compute.
	 */
	uint64_t by_library;
	char library[200];
};
/*
 * Describe lane @i, of weir_exec_info.lanes. Any thread. May block while the
 * device is given work. -EINVAL: there is no lane @i.
 */
WEIR_API int weir_exec_lane(const struct weir_exec *exec, uint64_t i,
			    struct weir_lane *ret_lane) WEIR_NONNULL(1, 3);

/*
 * How a device gets the bytes of a tensor that it cannot use where they are.
 */
enum weir_transfer_how {
	WEIR_TRANSFER_INPUT = 0, /* an input: it is set there too */
	WEIR_TRANSFER_COPY = 1,  /* copied in each run */
	WEIR_TRANSFER_KEPT = 2,  /* a constant leaf: read or copied once */
	WEIR_TRANSFER_PREFETCHED =
		3 /* a constant leaf: read or copied in each run, to memory that
		     other leaves use too */
};
struct weir_transfer {
	size_t size;           /* set by the caller */
	struct weir_dev *from; /* NULL: from a file, or an input */
	struct weir_dev *to;   /* the device that reads the bytes */
	uint64_t node;         /* number of the node that has them */
	uint64_t bytes;
	uint64_t step; /* the first step of @to that reads it */
	uint32_t how;  /* enum weir_transfer_how */
	uint32_t reserved;
};
/*
 * Describe transfer @i; transfers are in the order of the nodes that read them
 * first. Any thread. -EINVAL: there is no transfer @i.
 */
WEIR_API int weir_exec_transfer(const struct weir_exec *exec, uint64_t i,
				struct weir_transfer *ret_transfer)
	WEIR_NONNULL(1, 3);

/*
 * Make a run, which has a copy of the executable graph's inputs until it is
 * freed. One thread at a time uses a run, except for weir_run_cancel().
 * -EAGAIN: all copies are taken; the call does not wait for one. -ENOMEM.
 */
WEIR_API int weir_run_new(struct weir_exec *exec, struct weir_run **ret_run)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;
/*
 * NULL is allowed. Cancels the run and does not wait for it: memory and copy
 * stay in use until its work has ended.
 */
WEIR_API void weir_run_free(struct weir_run *run);

/*
 * Set an input: copy all @bytes bytes of it before the call returns; or copy
 * the tensor @t, of the same dtype, shape and strides, once @event is done
 * (NULL: at once), without waiting for it. The program keeps the bytes of @t
 * until the run has ended. Inputs keep their values when a run is started
 * again.
 *
 * -EINVAL: @node is no input of the executable graph, or @bytes or the tensor
 * do not fit; the sentence has both numbers. -EBUSY: the run has not ended.
 * Errors of weir_tensor_set(), or of weir_stream_copy() and
 * weir_stream_wait(): if a copy had begun, the input has to be set again. If
 * @event fails, so does the run, with -ECANCELED, and the input has to be set
 * again.
 */
WEIR_API int weir_run_input(struct weir_run *run, const struct weir_node *node,
			    const void *data, size_t bytes) WEIR_NONNULL(1, 2);
WEIR_API int
weir_run_input_tensor(struct weir_run *run, const struct weir_node *node,
		      const struct weir_tensor *t, struct weir_event *event)
	WEIR_NONNULL(1, 2, 3);

/*
 * Start the run, for the first time or again after it has ended, and return
 * without waiting for it: on a stream of the scheduler, or as one operation of
 * @stream, which is a stream of the device and not native. Operations that use
 * a leaf begin when its event, as it is recorded now, is done; operations
 * before them need not wait.
 *
 * If an operation, the observer or an event fails, the run ends with that
 * failure: -ECANCELED, with the cause, for an event; -EAGAIN if the thread of
 * a CPU's stream cannot be started. A run in @stream that fails or is
 * cancelled makes the stream fail, as other operations do.
 *
 * -EBUSY: the run has not ended. -EINVAL: an input is not set, or @stream is
 * of another device. -EOPNOTSUPP: @stream is native, or the executable graph
 * computes on several devices. -ECANCELED: @stream has failed. -ENOMEM: only
 * the first start of a run allocates.
 */
WEIR_API int weir_run_start(struct weir_run *run) WEIR_NONNULL(1);
WEIR_API int weir_stream_compute(struct weir_stream *stream,
				 struct weir_run *run) WEIR_NONNULL(1, 2);

/*
 * Start a part of the run, as weir_run_start(): only the operations of the
 * nodes [first, first + n). They read what earlier starts have left of the
 * results before, so a program starts the parts in their order, and no other
 * run of the executable graph in between. Observed nodes of the part are
 * reported. Errors of weir_run_start(). -EINVAL: the graph has fewer nodes.
 * -EOPNOTSUPP: the executable graph computes on several devices.
 */
WEIR_API int weir_run_start_part(struct weir_run *run, uint64_t first,
				 uint64_t n) WEIR_NONNULL(1);

/*
 * Record @event at the end of the run as it was started last. -EINVAL: it was
 * never started, or the event is of another root.
 */
WEIR_API int weir_run_record(struct weir_run *run, struct weir_event *event)
	WEIR_NONNULL(1, 2);
/*
 * Block until the run has ended, for at most @timeout_ns; -1: for any time.
 * 0, or its failure, with its sentence (-ESTALE: a file of a constant leaf has
 * changed since it was opened). -ETIMEDOUT: it has not ended. -EINVAL: it was
 * never started.
 */
WEIR_API int weir_run_wait(struct weir_run *run, int64_t timeout_ns)
	WEIR_NONNULL(1);
/*
 * End the run: devices are given no further operation, and it fails with
 * -ECANCELED, when those that they were given have ended. Any thread; never
 * blocks. The call has no effect if the run is not running.
 */
WEIR_API int weir_run_cancel(struct weir_run *run) WEIR_NONNULL(1);

/*
 * Get the tensor of an output. Its bytes are valid from the end of the run
 * until the run is started again or freed and, if the executable graph has one
 * copy, until any of its runs is started. Work of a stream that reads it after
 * weir_stream_compute() waits for the run. -EINVAL: @node is not marked as an
 * output.
 */
WEIR_API int weir_run_output(struct weir_run *run, const struct weir_node *node,
			     struct weir_tensor *ret_tensor)
	WEIR_NONNULL(1, 2, 3);

/*
 * Times and counts of the last start of a run. On several devices the parts of
 * the total are sums over the devices, so they may exceed it.
 */
struct weir_run_report {
	size_t size;        /* set by the caller */
	int64_t total_ns;   /* from the start to the end, or to now */
	int64_t queued_ns;  /* part before the first operation could begin */
	int64_t wait_ns;    /* part waiting for events of leaves and inputs */
	int64_t compute_ns; /* part computing, with the time in the queue */
	int64_t observe_ns; /* part in the observer */
	uint64_t nodes;     /* number of nodes that were computed so far */
	uint64_t works;     /* number of work items that were submitted to the
			       device for this run */
	uint64_t waits;     /* number of events that were not done yet */
	uint32_t started;   /* how often it was started */
	uint32_t running;   /* 1: it has not ended */
	int64_t prefetch_wait_ns; /* part waiting for constant leaves */
	uint64_t kept; /* bytes of the constant leaves that devices keep */
	uint64_t prefetched; /* bytes of the others that were read so far */
};
/* -EINVAL: the size is not set. */
WEIR_API int weir_run_report(struct weir_run *run,
			     struct weir_run_report *ret_report)
	WEIR_NONNULL(1, 2);

/*
 * One input or output of a graph: either @in or @out is not NULL, and has
 * @bytes bytes, all of the node's tensor.
 */
struct weir_graph_io {
	const struct weir_node *node;
	const void *in; /* the bytes of an input */
	void *out;      /* where the bytes of an output are copied to */
	size_t bytes;
};
struct weir_graph_compute_opts {
	size_t size;
	struct weir_dev *const *devs; /* NULL: those whose memory has leaves,
					 then the CPU */
	uint32_t n_devs;
	uint32_t reserved;                   /* 0 */
	const struct weir_sched_opts *sched; /* NULL: the defaults */
};
WEIR__DECLARE_OPTS_INIT(weir_graph_compute_opts)
#define WEIR_GRAPH_COMPUTE_OPTS_INIT WEIR__OPTS_INIT(weir_graph_compute_opts)

/*
 * Compute the graph once, and block until the outputs are copied. The call
 * makes a scheduler, an executable graph and a run, and frees them; a program
 * that computes often keeps an executable graph. Any thread; no thread may
 * change @g meanwhile.
 *
 * Errors of the calls above, and of weir_tensor_get(); the sentence begins
 * with the call that failed. -EINVAL: a node is of another graph, an input
 * that is needed is missing, a node is no input, or is not marked as an
 * output, or @bytes does not fit; or the options of the scheduler have budgets
 * or weights for each device, but there are no devs. The memory at @out is not
 * written unless the run succeeds.
 */
WEIR_API int weir_graph_compute(struct weir *weir, const struct weir_graph *g,
				const struct weir_graph_io *io, size_t n,
				const struct weir_graph_compute_opts *opts)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
