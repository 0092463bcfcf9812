/* SPDX-License-Identifier: MIT */
/*
 * Weights that several processes of one host use, without a copy; and
 * descriptors by name. weir_buf_share() of mem.h shares a single buffer.
 */
#ifndef WEIR_SHARE_H
#define WEIR_SHARE_H

#include <weir/base.h>

WEIR__BEGIN

/*
 * Make a descriptor by which other processes open @weights: with the same
 * names, dtypes, shapes and places, and without a copy. All buffers of the
 * weights must have WEIR_BUF_SHARED (weir_select_opts.buf_flags). From now on
 * no process can map those in host memory writable; memory of a device cannot
 * be protected so, and must only be read. The descriptor has what is needed:
 * it can be inherited, sent by SCM_RIGHTS or published by weir_publish(), any
 * number of processes can open it, and it stays valid when this process ends.
 * It keeps the memory, until all its duplicates are closed. The caller closes
 * it. Any thread; waits for nothing but the driver of a device.
 *
 * -EBUSY: the weights are still being filled. -EINVAL: a tensor went to a sink,
 * so it is not in memory. -EOPNOTSUPP: a buffer was not allocated with
 * WEIR_BUF_SHARED, or the UUID of its device is not known. -ENODEV: a device is
 * lost. -E2BIG: they have more than 252 buffers. -ETOOMANYREFS,
 * -EMFILE: the user or the process has too many descriptors. The error of the
 * load that filled the weights, if it failed.
 */
WEIR_API int weir_weights_share(struct weir_weights *weights, int *ret_fd)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;

/*
 * Open weights that another process, or this one, has shared: @fd is a
 * descriptor of weir_weights_share(), which may be closed afterwards. The
 * tensors are only read. Host memory is mapped as the kind @mapped
 * (WEIR_MEM_MAPPED; CUDA0_Mapped is page-locked for fast copies to that
 * device); NULL: that of the CPU. Memory of a device becomes memory of the same
 * device, which is found by its UUID. The memory exists until the last process
 * has freed its weights. Any thread; blocks while the memory is mapped.
 *
 * -EINVAL: @fd is not such a descriptor, or @mapped is of another kind.
 * -EBADMSG: its table is damaged, or of another version of weir. -ENODEV: this
 * process does not have a device in whose memory weights are, or it is lost.
 * -ENOMEM, and errors of weir_buf_wrap_fd().
 */
WEIR_API int weir_weights_open(struct weir *weir, int fd,
			       struct weir_buft *mapped,
			       struct weir_weights **ret_weights)
	WEIR_NONNULL(1, 4) WEIR_NODISCARD;

/*
 * Publish a descriptor by name: each process of the same user, or of root, that
 * calls weir_published() gets a duplicate. @name is the path of a socket, which
 * is made, or an abstract name after '@'. A path left by a process that has
 * died is replaced. A thread of the library answers until
 * weir_publication_free(), also after weir_close(). @fd is duplicated.
 *
 * WEIR_PUBLISH_ANY_USER: answer all users; in weir_published(): accept a
 * publisher of another user, whose bytes must then be trusted.
 *
 * -EADDRINUSE: a process publishes by this name. -ENAMETOOLONG: the name has
 * more than 107 bytes. -EEXIST: the path is of a file that is not a socket.
 * -EINVAL: @name is "" or "@", or unknown flags. -EBADF. Other errors of
 * bind(2), and those of starting a thread.
 */
WEIR_API int weir_publish(struct weir *weir, const char *name, int fd,
			  uint32_t flags,
			  struct weir_publication **ret_publication)
	WEIR_NONNULL(1, 2, 5) WEIR_NODISCARD;
#define WEIR_PUBLISH_ANY_USER 0x01u

/*
 * End the publication, and remove its name. Processes keep what they have. NULL
 * is allowed. Blocks until the thread has ended, for milliseconds.
 */
WEIR_API void weir_publication_free(struct weir_publication *publication);

/*
 * Get the descriptor that is published by @name; the caller closes it. Blocks
 * until the publisher answers, up to 5 seconds.
 *
 * -ENOENT, -ECONNREFUSED: nobody publishes by this name. -EACCES: the publisher
 * is of another user, or does not answer this one. -ETIMEDOUT: it does not
 * answer. -EPROTO: the socket is not one of weir_publish(). -EINVAL, -EMFILE.
 */
WEIR_API int weir_published(struct weir *weir, const char *name, uint32_t flags,
			    int *ret_fd) WEIR_NONNULL(1, 2, 4) WEIR_NODISCARD;

WEIR__END

#endif
