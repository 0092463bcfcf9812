/* SPDX-License-Identifier: MIT */
/* Bytes that arrive while a run that needs them is running. */
#include "random_later.h"

#include <semaphore.h>

#include "tap.h"

static struct weir_stream *stream;
static sem_t gate;
static unsigned waiting; /* transfers before which the stream waits */

void later_begin(struct weir_dev *dev)
{
	if (sem_init(&gate, 0, 0) < 0 ||
	    weir_stream_new(dev, NULL, &stream) < 0)
		bail("no stream for later bytes: %s", weir_error());
}

void later_end(void)
{
	weir_stream_free(stream);
	sem_destroy(&gate);
}

static int pass(void *arg)
{
	(void)arg;
	while (sem_wait(&gate) < 0)
		;
	return 0;
}

void later_set(const struct weir_tensor *t, const void *bytes,
	       struct weir_event *event)
{
	size_t n;

	if (weir_tensor_bytes(t, &n) < 0 ||
	    weir_tensor_fill(t, 0, n, 0xff) < 0 ||
	    weir_stream_call(stream, pass, NULL) < 0 ||
	    weir_stream_set(stream, t, 0, bytes, n) < 0 ||
	    weir_stream_record(stream, event) < 0)
		bail("bytes that arrive later: %s", weir_error());
	waiting++;
}

void later_arrive(uint64_t spins)
{
	for (; waiting; waiting--) {
		for (uint64_t i = spins % 20000; i; i--)
			__asm__ volatile("");
		spins = spins * 6364136223846793005u + 1442695040888963407u;
		sem_post(&gate);
	}
}

void later_wait(void)
{
	if (weir_stream_sync(stream, -1) < 0)
		bail("bytes that arrive later: %s", weir_error());
}
