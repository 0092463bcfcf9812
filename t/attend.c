/* SPDX-License-Identifier: MIT */
/*
 * The caller of a native stream, who hands copies to the driver, and a root that
 * gives up the operation meanwhile. The file is compiled into this test, which
 * does the two one after the other.
 */
#include "../lib/stream/fileio.c"

#include "tap.h"

static unsigned submitted;

static int submit(void *queue, struct weir__work *work)
{
	(void)queue;
	(void)work;
	submitted++;
	return 0;
}

static const struct weir__queue_ops queue_ops = { .size = sizeof(queue_ops),
						  .submit = submit };
static const struct weir__backend backend = { .size = sizeof(backend),
					      .queue = &queue_ops };

int main(void)
{
	struct weir_dev dev = { .backend = &backend };
	struct weir_stream stream = { .dev = &dev, .ops = &queue_ops };
	struct weir__stream_op op = { .stream = &stream, .unhanded = 100 };
	struct fileio io = { .op = &op, .ext.len = 100, .refs = 2 };
	struct weir__work first = { .width = 60 }, second = { .width = 40 };

	plan(4);
	op.io = &io;
	io.job.arg = &io;
	pthread_mutex_init(&stream.lock, NULL);
	fileio_submit_copy(&io.job, &first);
	is_int(hand_over(&stream, &io), 60, "a copy is handed to the driver");
	ok(op.unhanded == 40 && submitted == 1, "... and the operation knows");
	fileio_submit_copy(&io.job, &second);
	fileio_release(&op);
	op.unhanded = 7; /* of another by now */
	hand_over(&stream, &io);
	is_int(op.unhanded, 7,
	       "what was given up is not counted for the operation any more");
	is_int(submitted, 1, "... nor handed to the driver");
	return done_testing();
}
