/* SPDX-License-Identifier: MIT */
/*
 * Every call that the library exports, in a child of the process that opened
 * the root, while threads that the child does not have hold the root's locks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>
#include <weir/cuda.h>

#include "core/root.h"
#include "dev/registry.h"
#include "fork_calls.h"
#include "graph/exec/run.h"
#include "mem/buf.h"
#include "model/load/weights.h"
#include "sample.h"
#include "stream/stream.h"
#include "tap.h"

/* Written by the child, read by the parent. */
static struct notes {
	char made[1 << 14];  /* " name " for each call made */
	char wrong[1 << 14]; /* calls that returned another value */
} * notes;

static struct weir *weir;
static struct weir_dev *dev;
static struct weir_buft *buft;
static struct weir_buf *buf, *joined;
static struct weir_stream *stream;
static struct weir_graph *graph;
static struct weir_sched *sched;
static struct weir_exec *exec;
static struct weir_run *run;
static struct weir_event *event;
static struct weir_heap *heap;
static struct weir_block block;
static struct weir_file *file;
static struct weir_model *model;
static struct weir_plan *plan_of_all;
static struct weir_save *save;
static struct weir_load *load;
static struct weir_manifest *manifest;
static struct weir_weights *weights;
static struct weir_publication *publication;
static const struct weir_lifetime lifetime = { .upper = 1, .bytes = 1 };
static struct weir_placement *placement;
static char path[] = "/var/tmp/weir-fork-XXXXXX";

void fork_made(const char *name)
{
	size_t at = strlen(notes->made);

	snprintf(notes->made + at, sizeof(notes->made) - at, " %s ", name);
}

void fork_check(const char *name, intptr_t got, intptr_t want)
{
	size_t at = strlen(notes->wrong);

	if (got != want)
		snprintf(notes->wrong + at, sizeof(notes->wrong) - at,
			 "%s returned %lld, not %lld\n", name, (long long)got,
			 (long long)want);
}

static const struct weir_backend *
no_backend(const struct weir_backend_host *host, int *ret_err)
{
	(void)host;
	(void)ret_err;
	return NULL;
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void devices(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_buft_info kind = { .size = sizeof(kind) };
	struct weir_tensor t = { .dtype = WEIR_DTYPE_U8 };
	struct weir_threads threads = { .size = sizeof(threads) };
	uint64_t avail, total;
	struct weir_buft *b;
	struct weir_dev *d;
	const char *s[2];

	fails(weir_backend_add, weir, no_backend);
	fails(weir_module_load, weir, "/nowhere/weir-x.so");
	fails(weir_module_refused, weir, 0, &s[0], &s[1]);
	returns(0, weir_dev_count, weir);
	returns(NULL, weir_dev_get, weir, 0);
	fails(weir_dev_find, weir, "CPU", &d);
	fails(weir_dev_find_type, weir, WEIR_DEV_CPU, &d);
	fails(weir_dev_best, weir, &d);
	fails(weir_dev_configure, weir, "CPU", &d);
	fails(weir_dev_info, dev, &info);
	fails(weir_dev_memory, dev, &avail, &total);
	fails(weir_dev_buft, dev, WEIR_MEM_PLAIN, &b);
	returns(NULL, weir_dev_proc, dev, "any");
	fails(weir_dev_set_threads, dev, &threads);
	fails(weir_buft_info, buft, &kind);
	fails(weir_buft_memory, buft, &avail, &total);
	returns(0, weir_buft_alloc_size, buft, &t);
	fails(weir_buft_set_budget, buft, 0);
}

static void memory(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_tensor t = { .dtype = WEIR_DTYPE_U8 };
	struct weir_tensor placed = { .buf = buf, .dtype = WEIR_DTYPE_U8 };
	struct weir_tensor other = placed;
	struct weir_tensors_info tensors = { .size = sizeof(tensors) };
	struct weir_rect rect = {
		.width = 1, .rows = 1, .pitch = 1, .host_pitch = 1
	};
	struct weir_buf *b;
	char byte = 0;
	int fd;

	other.offset = 1;
	fails(weir_buf_alloc, buft, 4096, NULL, &b);
	fails(weir_buf_wrap, buft, &byte, 1, NULL, NULL, &b);
	fails(weir_buf_wrap_fd, buft, 0, 0, 1, 0, &b);
	fails(weir_buf_share, buf, 0, &fd);
	fails(weir_buf_map, buft, file, 0, 1, &b);
	fails(weir_buf_join, &buf, 1, &b);
	returns(NULL, weir_buf_member, joined, 0);
	returns(buf, weir_buf_ref, buf);
	fails(weir_buf_info, buf, &info);
	fails(weir_buf_clear, buf, 0);
	returns(NULL, weir_buf_data, buf);
	fails(weir_tensor_place, &t, buf, 0);
	returns(NULL, weir_tensor_data, &placed);
	fails(weir_tensors_alloc, buft, &t, 1, &b);
	fails(weir_tensors_place, buf, 0, &t, 1, NULL);
	fails(weir_tensors_measure, buft, &t, 1, &tensors);
	b = NULL;
	fails(weir_placement_alloc, placement, &buft, &b);
	fails(weir_placement_apply, placement, &buf, &t, 1);
	fails(weir_tensor_set_2d, &placed, &rect, &byte);
	fails(weir_tensor_get_2d, &placed, &rect, &byte);
	fails(weir_tensor_set, &placed, 0, &byte, 1);
	fails(weir_tensor_get, &placed, 0, &byte, 1);
	fails(weir_tensor_fill, &placed, 0, 1, 0);
	fails(weir_tensor_copy, &placed, &other);
	fails(weir_cuda_buf_wrap, dev, 4096, 1, NULL, NULL, &b);
	fails(weir_cuda_buf_ptr, buf, &(uint64_t){ 0 });
}

static void streams(void)
{
	struct weir_tensor t = { .buf = buf, .dtype = WEIR_DTYPE_U8 };
	struct weir_tensor other = { .buf = buf,
				     .offset = 1,
				     .dtype = WEIR_DTYPE_U8 };
	struct weir_rect r = {
		.width = 1, .rows = 1, .pitch = 1, .host_pitch = 1
	};
	struct CUstream_st *native;
	struct weir_failure f;
	struct weir_stream *s;
	struct weir_event *e;
	char byte = 0;
	int64_t ns;

	fails(weir_stream_new, dev, NULL, &s);
	fails(weir_stream_set, stream, &t, 0, &byte, 1);
	fails(weir_stream_get, stream, &t, 0, &byte, 1);
	fails(weir_stream_set_2d, stream, &t, &r, &byte);
	fails(weir_stream_get_2d, stream, &t, &r, &byte);
	fails(weir_stream_fill, stream, &t, 0, 1, 0);
	fails(weir_stream_copy, stream, &t, &other);
	fails(weir_stream_read, stream, file, 0, &t, 0, 1);
	fails(weir_stream_read_2d, stream, file, 0, &t, &r);
	fails(weir_stream_write, stream, file, 0, &t, 0, 1);
	fails(weir_stream_call, stream, nothing, NULL);
	fails(weir_stream_record, stream, event);
	fails(weir_stream_wait, stream, event);
	fails(weir_stream_sync, stream, -1);
	fails(weir_stream_error, stream, &f);
	fails(weir_stream_reset, stream);
	fails(weir_event_new, weir, 0, &e);
	fails(weir_event_query, event);
	fails(weir_event_wait, event, -1);
	fails(weir_event_fd, event);
	fails(weir_event_error, event, &f);
	fails(weir_event_elapsed, event, event, &ns);
	fails(weir_cuda_stream_wrap, dev, NULL, &s);
	fails(weir_cuda_stream_native, stream, &native);
}

static void heaps(void)
{
	struct weir_heap_stats stats = { .size = sizeof(stats) };
	struct weir_block b;
	struct weir_heap *h;

	fails(weir_heap_new, buft, NULL, &h);
	fails(weir_heap_alloc, heap, 100, 0, NULL, &b);
	fails(weir_heap_free, &block, NULL);
	fails(weir_heap_find, heap, block.addr, &b);
	fails(weir_heap_stats, heap, &stats);
	fails(weir_heap_trim, heap, 0);
	fails(weir_heap_record, heap, -1);
}

static void models(void)
{
	uint8_t digest[32];
	struct weir_file_info file_info = { .size = sizeof(file_info) };
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_entry entry = { .size = sizeof(entry) };
	struct weir_value value = { .size = sizeof(value) };
	struct weir_model_fd fd = { 0 };
	struct weir_source_info source_info = { .size = sizeof(source_info) };
	struct weir_source_desc source_desc = { .size = sizeof(source_desc) };
	const struct weir_source source = { .size = sizeof(source) };
	struct weir_file *f;
	struct weir_model *m;
	size_t i;

	fails(weir_file_open, weir, path, NULL, &f);
	fails(weir_file_info, file, &file_info);
	fails(weir_file_read, file, 0, digest, 1);
	fails(weir_file_digest, file, WEIR_DIGEST_XXH3, digest);
	fails(weir_source_add, weir, &source, NULL);
	fails(weir_source_file, weir, &source, NULL, &source_info, &f);
	fails(weir_fetch, weir, "https://a/b", "c", NULL, NULL);
	fails(weir_source_configure, weir, "https", "");
	fails(weir_source_describe, weir, 0, &source_desc);
	fails(weir_model_open, weir, path, NULL, &m);
	fails(weir_model_open_fds, weir, &fd, 1, NULL, &m);
	fails(weir_model_open_files, weir, &file, 1, NULL, &m);
	fails(weir_model_info, model, &info);
	returns(0, weir_model_count, model);
	fails(weir_model_tensor, model, 0, &entry);
	fails(weir_model_find, model, "a", &i);
	fails(weir_model_meta, model, "key", &value);
	fails(weir_model_meta_at, model, 0, &value);
	fails(weir_model_meta_item, model, &value, 0, &value);
	returns(NULL, weir_model_file, model, 0);
	fails(weir_model_beside, model, "a", &f);
}

static void loads(void)
{
	struct weir_estimate estimate = { .size = sizeof(estimate) };
	struct weir_load_report report = { .size = sizeof(report) };
	struct weir_park_info park_info = { .size = sizeof(park_info) };
	struct weir_progress progress = { .size = sizeof(progress) };
	struct weir_entry entry = { .size = sizeof(entry) };
	struct weir_manifest_info manifest_info = { .size = sizeof(
							    manifest_info) };
	struct weir_sink sink = WEIR_SINK_INIT;
	struct weir_manifest *other;
	struct weir_weights *w;
	struct weir_failure f;
	struct weir_plan *p;
	uint64_t bytes;
	struct weir_load *l;
	uint8_t digest[32];
	size_t i;

	fails(weir_plan_new, model, &p);
	fails(weir_plan_add, plan_of_all, NULL, buft, NULL);
	fails(weir_plan_add_tensors, plan_of_all, NULL, 0);
	fails(weir_plan_set_align, plan_of_all, 64);
	fails(weir_targets_layout, model, NULL, 0, 0, 0, NULL, &bytes);
	fails(weir_plan_sink, plan_of_all, NULL, &sink);
	fails(weir_plan_digest, plan_of_all, WEIR_DIGEST_XXH3);
	fails(weir_plan_verify, plan_of_all, manifest);
	fails(weir_plan_estimate, plan_of_all, &estimate, 1);
	fails(weir_load_start, plan_of_all, NULL, &l);
	fails(weir_load_weights, load, &w);
	fails(weir_load_record, load, WEIR_ALL, event);
	fails(weir_load_wait, load, -1);
	fails(weir_load_next, load, -1, &i);
	fails(weir_load_find, load, "x", &i);
	fails(weir_load_fd, load);
	fails(weir_load_digest, load, 0, digest);
	fails(weir_load_manifest, load, &other);
	fails(weir_manifest_open, weir, path, &other);
	fails(weir_manifest_info, manifest, &manifest_info);
	fails(weir_manifest_write, manifest, 1);
	fails(weir_load_progress, load, &progress);
	fails(weir_load_error, load, WEIR_ALL, &f);
	fails(weir_load_report, load, &report);
	fails(weir_load_cancel, load);
	fails(weir_load_all, weir, path, buft, NULL, &w);
	returns(0, weir_weights_count, weights);
	returns(NULL, weir_weights_get, weights, 0);
	returns(NULL, weir_weights_find, weights, "a");
	fails(weir_weights_entry, weights, 0, &entry);
	returns(weights, weir_weights_ref, weights);
	fails(weir_weights_digest, weights, 0, WEIR_DIGEST_XXH3, digest);
	fails(weir_weights_park, weights, NULL);
	fails(weir_weights_unpark, weights, event);
	fails(weir_weights_park_info, weights, &park_info);
}

static void saves(void)
{
	struct weir_value value = { .size = sizeof(value), .key = "k" };
	struct weir_save_report report = { .size = sizeof(report) };
	struct weir_progress progress = { .size = sizeof(progress) };
	struct weir_save_info info = { .size = sizeof(info) };
	struct weir_tensor t = { 0 };
	struct weir_failure f;
	struct weir_save *s;

	fails(weir_save_new, weir, "x.gguf", NULL, &s);
	fails(weir_save_add, save, "x", &t, 0);
	fails(weir_save_copy, save, "x", model, 0, NULL, 0);
	fails(weir_save_shape, save, "x", 0, NULL);
	fails(weir_save_meta, save, &value);
	fails(weir_save_copy_meta, save, model, NULL);
	fails(weir_save_info, save, &info);
	fails(weir_save_start, save, NULL);
	fails(weir_save_wait, save, -1);
	fails(weir_save_record, save, event);
	fails(weir_save_cancel, save);
	fails(weir_save_progress, save, &progress);
	fails(weir_save_error, save, &f);
	fails(weir_save_report, save, &report);
}

/* Calls without a root work as in the parent. */
static void sharing(void)
{
	struct weir_publication *p;
	struct weir_weights *w;
	int fd;

	fails(weir_weights_share, weights, &fd);
	fails(weir_weights_open, weir, 0, NULL, &w);
	fails(weir_publish, weir, "@x", 0, 0, &p);
	fails(weir_published, weir, "@x", 0, &fd);
}

static void values(void)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct weir_placement_info placed = { .size = sizeof(placed) };
	struct weir_placement *p;
	struct weir_tensor t, view;
	int64_t shape = 4;
	size_t bytes;

	returns(0, weir_dtype_info, WEIR_DTYPE_U8, &info);
	returns(0, weir_convert, WEIR_DTYPE_F32, NULL, WEIR_DTYPE_F16, NULL, 0);
	returns(0, weir_tensor_init, &t, WEIR_DTYPE_U8, 1, &shape);
	returns(0, weir_tensor_bytes, &t, &bytes);
	returns(0, weir_tensor_view, &t, 0, 1, 2, &view);
	returns(0, weir_placement_new, &lifetime, 1, NULL, &p);
	returns(0, weir_placement_info, p, 0, &placed);
	returns(0, weir_placement_offset, p, 0);
	returns(1, weir_placement_member, p, 0, 0);
	ends(weir_placement_free, p);
	returns(WEIR_VERSION, weir_version, );
	fork_check("weir_version_string", *weir_version_string(), '0');
	fork_made("weir_version_string");
	fork_check("weir_error", !*weir_error(), 0);
	fork_made("weir_error");
}

static void the_root(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_weights *w;
	struct weir *own;

	fails(weir_trim, weir, 0);
	fails(weir_io_info, weir, &info);
	fails(weir_trace_start, weir, "/dev/null");
	fails(weir_trace_stop, weir);
	ends(weir_save_free, save);
	ends(weir_load_free, load);
	ends(weir_weights_free, weights);
	ends(weir_publication_free, publication);
	ends(weir_plan_free, plan_of_all);
	ends(weir_manifest_close, manifest);
	ends(weir_model_close, model);
	ends(weir_file_close, file);
	ends(weir_heap_destroy, heap);
	ends(weir_event_free, event);
	ends(weir_stream_free, stream);
	ends(weir_buf_free, buf);
	ends(weir_close, weir);
	returns(0, weir_open, NULL, &own);
	fork_check("weir_dev_find of its own root",
		   weir_dev_find(own, "CPU", &dev), 0);
	fork_check("weir_load_all of its own root to memory of the parent",
		   weir_load_all(own, path, buft, NULL, &w), -EPERM);
	weir_close(own);
}

static void child(void)
{
	const struct fork_objects objects = { .weir = weir,
					      .dev = dev,
					      .buft = buft,
					      .buf = buf,
					      .file = file,
					      .stream = stream,
					      .event = event,
					      .graph = graph,
					      .sched = sched,
					      .exec = exec,
					      .run = run };

	alarm(60);
	devices();
	memory();
	streams();
	heaps();
	models();
	loads();
	saves();
	sharing();
	fork_graphs(&objects);
	values();
	the_root();
	_exit(0);
}

static void must(int r)
{
	if (r < 0)
		bail("%s", weir_error());
}

static void make_run(void)
{
	struct weir_node *x;
	float value = 3;

	must(weir_graph_new(&graph));
	x = weir_graph_input(graph, "x", WEIR_DTYPE_F32, 0, NULL);
	weir_graph_output(graph,
			  weir_graph_op(graph, WEIR_OP_SQR, NULL, 0, &x, 1));
	must(weir_sched_new(&dev, 1, NULL, &sched));
	must(weir_exec_new(sched, graph, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, x, &value, sizeof(value)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
}

static const char *path_of_socket(void)
{
	static char name[32];

	snprintf(name, sizeof(name), "@weir-t-fork-%d", (int)getpid());
	return name;
}

static void make_objects(void)
{
	static const struct sample_tensor tensor = { "a", "U8", 100000, 1 };
	int fd = mkstemp(path);

	if (fd < 0)
		bail("%s", path);
	close(fd);
	sample_write(path, &tensor, 1, 8, 1);
	must(weir_open(NULL, &weir));
	must(weir_dev_find(weir, "CPU", &dev));
	must(weir_dev_buft(dev, WEIR_MEM_PLAIN, &buft));
	must(weir_buf_alloc(buft, 4096, NULL, &buf));
	must(weir_buf_join(&buf, 1, &joined));
	must(weir_placement_new(&lifetime, 1, NULL, &placement));
	must(weir_stream_new(dev, NULL, &stream));
	must(weir_event_new(weir, WEIR_EVENT_TIMED, &event));
	must(weir_heap_new(buft, NULL, &heap));
	must(weir_heap_alloc(heap, 100, 0, NULL, &block));
	must(weir_file_open(weir, path, NULL, &file));
	must(weir_model_open(weir, path, NULL, &model));
	must(weir_plan_new(model, &plan_of_all));
	must(weir_plan_add(plan_of_all, NULL, buft, NULL));
	must(weir_plan_digest(plan_of_all, WEIR_DIGEST_XXH3));
	must(weir_load_start(plan_of_all, NULL, &load));
	must(weir_load_weights(load, &weights));
	must(weir_load_wait(load, -1));
	must(weir_publish(weir, path_of_socket(), 0, 0, &publication));
	must(weir_save_new(weir, "x.gguf", NULL, &save));
	must(weir_load_manifest(load, &manifest));
	must(weir_stream_record(stream, event));
	make_run();
}

/* Each lock that a thread may hold in the middle of a call. */
static void lock_all(void)
{
	pthread_mutex_lock(&weir->lock);
	pthread_mutex_lock(&weir__registry(weir)->module_lock);
	pthread_rwlock_wrlock(&weir->trace_lock);
	pthread_mutex_lock(&dev->lock);
	pthread_mutex_lock(&buf->lock);
	pthread_mutex_lock(&stream->lock);
	pthread_mutex_lock(&stream->timeline.lock);
	pthread_mutex_lock(&sched->lock);
	pthread_mutex_lock(&sched->compiler->lock);
	pthread_mutex_lock(&run->lock);
	pthread_mutex_lock(&weights->lock);
	pthread_mutex_lock(&weights->arrival->timeline.lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&weights->arrival->timeline.lock);
	pthread_mutex_unlock(&weights->lock);
	pthread_mutex_unlock(&run->lock);
	pthread_mutex_unlock(&sched->compiler->lock);
	pthread_mutex_unlock(&sched->lock);
	pthread_mutex_unlock(&stream->timeline.lock);
	pthread_mutex_unlock(&stream->lock);
	pthread_mutex_unlock(&buf->lock);
	pthread_mutex_unlock(&dev->lock);
	pthread_rwlock_unlock(&weir->trace_lock);
	pthread_mutex_unlock(&weir__registry(weir)->module_lock);
	pthread_mutex_unlock(&weir->lock);
}

/* How many names of the map the child did not call; -1: there is no map. */
static int count_uncalled(void)
{
	const char *srcdir = getenv("srcdir");
	char map[4096], line[256], name[128], called[140];
	int n = 0, seen = 0;
	FILE *f;

	snprintf(map, sizeof(map), "%s/lib/libweir.map",
		 srcdir ? srcdir : "..");
	f = fopen(map, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " weir_%100[a-z0-9_];", name) != 1)
			continue;
		snprintf(called, sizeof(called), " weir_%s ", name);
		seen++;
		if (strstr(notes->made, called))
			continue;
		diag("weir_%s is not called", name);
		n++;
	}
	fclose(f);
	return seen ? n : -1;
}

int main(void)
{
	int status = -1, n;
	pid_t pid;

	plan(5);
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (notes == MAP_FAILED)
		bail("mmap");
	make_objects();
	lock_all();
	pid = fork();
	if (!pid)
		child();
	unlock_all();
	waitpid(pid, &status, 0);
	if (!ok(WIFEXITED(status) && !WEXITSTATUS(status),
		"no call in a child waits or crashes"))
		diag("status %d after%s", status, notes->made);
	is_str(notes->wrong, "",
	       "every call with a root in a child returns -EPERM, NULL or 0");
	n = count_uncalled();
	if (n < 0)
		skip(1, "no lib/libweir.map here");
	else
		is_int(n, 0,
		       "every call that the library exports is called in the child");
	is_int(weir_load_wait(load, -1), 0,
	       "the parent's load ends well after its child has ended");
	is_int(sample_wrong(weights, 1), 0,
	       "the parent's weights have the right bytes after its child has ended");
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(graph);
	weir_save_free(save);
	weir_load_free(load);
	weir_weights_free(weights);
	weir_manifest_close(manifest);
	weir_plan_free(plan_of_all);
	weir_model_close(model);
	weir_file_close(file);
	weir_heap_destroy(heap);
	weir_event_free(event);
	weir_stream_free(stream);
	weir_placement_free(placement);
	weir_buf_free(joined);
	weir_buf_free(buf);
	weir_close(weir);
	unlink(path);
	return done_testing();
}
