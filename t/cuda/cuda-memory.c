/* SPDX-License-Identifier: MIT */
/*
 * Native streams when memory runs out: each record and each sync of one needs a
 * marker in the device's queue.
 */
#include "gpu.h"
#include "nomem.h"

static struct weir *weir;
static struct weir_event *event;

static int record(struct weir_stream *native)
{
	return weir_stream_record(native, event);
}

static int sync_stream(struct weir_stream *native)
{
	return weir_stream_sync(native, -1);
}

static void without_memory(int (*call)(struct weir_stream *), const char *name)
{
	/* A new stream has no operations to use again. */
	struct weir_stream *native =
		gpu_stream(weir, "native", WEIR_STREAM_NATIVE);

	nomem_begin(1);
	is_err(call(native), -ENOMEM, "no memory for an operation",
	       "%s of a native stream without memory for a marker fails", name);
	ok(nomem_end(), "%s of a native stream allocates its marker", name);
	is_int(weir_event_query(event), 1,
	       "%s without memory for a marker records no event", name);
	is_int(call(native), 0,
	       "%s of a native stream succeeds again when there is memory",
	       name);
	weir_stream_free(native);
}

int main(void)
{
	open_driver();
	plan(11);
	weir = open_cuda();
	event = new_event(weir, 0);
	without_memory(sync_stream, "weir_stream_sync");
	without_memory(record, "weir_stream_record");
	is_int(weir_event_wait(event, -1), 0,
	       "an event that was recorded at the second attempt is done");
	weir_event_free(event);
	weir_close(weir);
	all_given_back("after all,");
	return done_testing();
}
