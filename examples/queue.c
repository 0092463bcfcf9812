/* SPDX-License-Identifier: MIT */
/*
 * queue FILE: a stream in an event loop. Queues reads of the first and the last
 * 4 KiB of a file and a call of a function, then polls the descriptor of an
 * event until all of them are done.
 */
#include <poll.h>
#include <stdio.h>
#include <weir.h>

enum {
	ROW_BYTES = 4096
};

/* The library calls this on one of its threads when both reads are done. */
static int print_done(void *arg)
{
	printf("done: %s\n", (const char *)arg);
	return 0;
}

static int two_rows(struct weir_buft *plain, struct weir_tensor *t,
		    struct weir_buf **ret_buf)
{
	const int64_t shape[] = { 2, ROW_BYTES };
	int ret = weir_tensor_init(t, WEIR_DTYPE_U8, 2, shape);

	return ret < 0 ? ret : weir_tensors_alloc(plain, t, 1, ret_buf);
}

static int wait_in_poll(struct weir_event *done)
{
	struct pollfd p = { .fd = weir_event_fd(done), .events = POLLIN };

	if (p.fd < 0)
		return p.fd;
	while (poll(&p, 1, -1) != 1)
		; /* interrupted by a signal */
	return weir_event_query(done);
}

static int queue(struct weir_stream *s, struct weir_file *file,
		 const struct weir_tensor *t, struct weir_event *done)
{
	static char arg[] = "two reads";
	struct weir_file_info info = { .size = sizeof(info) };
	int ret = weir_file_info(file, &info);

	if (ret < 0 || info.bytes < ROW_BYTES)
		return ret;
	if ((ret = weir_stream_read(s, file, 0, t, 0, ROW_BYTES)) < 0 ||
	    (ret = weir_stream_read(s, file, info.bytes - ROW_BYTES, t,
				    ROW_BYTES, ROW_BYTES)) < 0 ||
	    (ret = weir_stream_call(s, print_done, arg)) < 0 ||
	    (ret = weir_stream_record(s, done)) < 0)
		return ret;
	return wait_in_poll(done);
}

static int run(struct weir *weir, const char *path)
{
	struct weir_dev *cpu = weir_dev_get(weir, 0);
	struct weir_stream *s = NULL;
	struct weir_file *file = NULL;
	struct weir_event *done = NULL;
	struct weir_buf *buf = NULL;
	struct weir_buft *plain;
	struct weir_tensor t;
	int ret;

	if ((ret = weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain)) == 0 &&
	    (ret = two_rows(plain, &t, &buf)) == 0 &&
	    (ret = weir_file_open(weir, path, NULL, &file)) == 0 &&
	    (ret = weir_stream_new(cpu, NULL, &s)) == 0 &&
	    (ret = weir_event_new(weir, 0, &done)) == 0)
		ret = queue(s, file, &t, done);
	weir_event_free(done);
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(buf);
	return ret;
}

int main(int argc, char **argv)
{
	struct weir *weir;
	int ret;

	if (argc != 2) {
		fprintf(stderr, "usage: queue FILE\n");
		return 2;
	}
	ret = weir_open(NULL, &weir);
	if (ret == 0) {
		ret = run(weir, argv[1]);
		if (ret < 0)
			fprintf(stderr, "%s\n", weir_error());
		weir_close(weir);
	}
	return ret < 0;
}
