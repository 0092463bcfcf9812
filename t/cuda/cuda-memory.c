/* SPDX-License-Identifier: MIT */
/*
 * Native streams when memory runs out: each record and each sync of one needs a
 * marker in the device's queue. And device memory of a descriptor.
 */
#include <unistd.h>

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

static int shared_fd;

static int wrap_shared(void)
{
	struct weir_buf *buf;
	int r = weir_buf_wrap_fd(gpu_memory(weir, WEIR_MEM_DEVICE), shared_fd,
				 0, 4096, WEIR_WRAP_READONLY, &buf);

	if (r >= 0)
		weir_buf_free(buf);
	return r;
}

static void wrapping(void)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir_buf *buf;

	if (!on_fake(4))
		return;
	o.flags = WEIR_BUF_SHARED;
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), 4096, &o, &buf));
	must(weir_buf_share(buf, WEIR_SHARE_WRITABLE, &shared_fd));
	nomem_each(wrap_shared, 1, "wrapping a descriptor of device memory");
	close(shared_fd);
	weir_buf_free(buf);
}

int main(void)
{
	open_driver();
	plan(11 + 4);
	weir = open_cuda();
	event = new_event(weir, 0);
	without_memory(sync_stream, "weir_stream_sync");
	without_memory(record, "weir_stream_record");
	is_int(weir_event_wait(event, -1), 0,
	       "an event that was recorded at the second attempt is done");
	weir_event_free(event);
	wrapping();
	weir_close(weir);
	all_given_back("after all,");
	return done_testing();
}
