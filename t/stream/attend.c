/* SPDX-License-Identifier: MIT */
/*
 * The caller of a native stream submits the copies of a file operation, and the
 * root may abandon that operation meanwhile. Both files are compiled into this
 * test, which does the two one after the other.
 */
#include "../../lib/stream/fileio.c"
#include "../../lib/stream/mode_native.c"

#include <stdlib.h>

#include "tap.h"

static unsigned submitted;

static int count_submit(void *queue, struct weir_backend_work *work)
{
	(void)queue;
	(void)work;
	submitted++;
	return 0;
}

static const struct weir_backend_queue_ops queue_ops = {
	.size = sizeof(queue_ops),
	.submit = count_submit
};
static const struct weir_backend backend = { .size = sizeof(backend),
					     .queue = &queue_ops };

int main(void)
{
	struct weir_dev dev = { .backend = &backend };
	struct weir_stream stream = { .dev = &dev,
				      .ops = &queue_ops,
				      .mode = &weir__stream_native };
	struct weir__stream_op op = { .stream = &stream, .unsubmitted = 100 };
	struct weir__fileio *io = calloc(1, sizeof(*io) + sizeof(io->ext[0]));
	struct weir_backend_work first = { .width = 60, .rows = 1 };
	struct weir_backend_work second = { .width = 40, .rows = 1 };

	plan(4);
	io->op = &op;
	io->ext[0].len = 100;
	io->refs = 2;
	op.io = io;
	io->job.arg = io;
	pthread_mutex_init(&stream.lock, NULL);
	pthread_mutex_init(&stream.submit_lock, NULL);
	native_submit_copy(&io->job, &first);
	is_int(submit_copies(&stream, io), 60,
	       "the caller submits the copies that are ready");
	ok(op.unsubmitted == 40 && submitted == 1,
	   "a submitted copy is counted down in its operation");
	native_submit_copy(&io->job, &second);
	fileio_release(&op);
	op.unsubmitted = 7; /* the operation is used again */
	submit_copies(&stream, io);
	is_int(op.unsubmitted, 7,
	       "a copy of an abandoned operation is not counted down in it");
	is_int(submitted, 1,
	       "a copy of an abandoned operation is not submitted");
	free(io);
	return done_testing();
}
