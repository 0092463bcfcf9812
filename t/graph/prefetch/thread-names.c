/* SPDX-License-Identifier: MIT */
/*
 * The names of the threads that load, prefetch and compute, as the kernel has
 * them.
 */
#include <dirent.h>
#include <string.h>
#include <time.h>

#include <weir/ops.h>

#include "files.h"
#include "leaf.h"
#include "sample.h"
#include "streams.h"

#define N 256
#define PARTS 8
#define BYTES ((uint64_t)N * N * 4) /* bytes of a weight */

/*
 * Those of weir-io(7), without numbers; "weir/" is that of a stream without a
 * name.
 */
static const char *const documented[] = {
	"weir-io",       "weir-cp",    "weir-rd",   "weir-prefault",
	"weir-sink",     "weir-watch", "weir-free", "weir-lease",
	"weir-team",     "weir-place", "weir/cpu",  "weir/run CPU",
	"weir/prefetch",
};
#define N_DOCUMENTED (sizeof(documented) / sizeof(documented[0]))
static bool seen[N_DOCUMENTED];

static char path[] = "/var/tmp/weir-names-XXXXXX";
static const struct sample_tensor tensors[] = { { "a", "F32", 3000000, 4 } };

/* @comm ends with a new line. False: it is not documented. */
static bool note(const char *comm)
{
	for (size_t i = 0; i < N_DOCUMENTED; i++) {
		size_t n = strlen(documented[i]);

		if (strncmp(comm, documented[i], n) ||
		    comm[n + strspn(comm + n, "0123456789")] != '\n')
			continue;
		seen[i] = true;
		return true;
	}
	return false;
}

/* How many threads of the library have names that are not documented. */
static unsigned look(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned others = 0;
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		char file[300], comm[32] = "";
		FILE *f;

		snprintf(file, sizeof(file), "/proc/self/task/%.20s/comm",
			 d->d_name);
		f = fopen(file, "r");
		if (!f)
			continue;
		(void)!fgets(comm, sizeof(comm), f);
		fclose(f);
		if (!strncmp(comm, "weir", 4) && !note(comm)) {
			diag("thread '%s'", comm);
			others++;
		}
	}
	closedir(dir);
	return others;
}

/* A thread is named after it has started: wait for the name. */
static bool has(const char *name)
{
	const struct timespec ms = { .tv_nsec = MS };
	size_t i = 0;

	while (strcmp(documented[i], name))
		i++;
	for (int k = 0; k < 10000 && !seen[i]; k++) {
		look();
		nanosleep(&ms, NULL);
	}
	return seen[i];
}

/* The sum of an input and of weights in a file. */
static struct weir_graph *sums(struct weir_file *file)
{
	const int64_t shape[] = { N, N }, row[] = { 1, N };
	struct weir_graph *g = graph_new();
	struct weir_node *y = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, row);
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 2, shape));
	for (uint64_t i = 0; i < PARTS; i++)
		y = weir_add(g, weir_graph_leaf_file(g, &t, file, i * BYTES),
			     y);
	weir_graph_output(g, y);
	must(weir_graph_error(g, NULL));
	return g;
}

int main(void)
{
	static float numbers[PARTS * N * N], x[N];
	const uint64_t limit = 3 * (BYTES + 4096);
	struct weir_sched_opts o = { .size = sizeof(o), .weights = &limit };
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_dev *dev = cpu_of(weir);
	struct weir_sched *sched;
	struct weir_stream *s;
	struct weir_file *file;
	struct weir_graph *g;
	struct weir_exec *exec;
	struct weir_run *run;
	struct weir_tensor t = bytes(weir, 64);
	int fd;

	plan(4);
	if ((fd = mkstemp(path)) < 0)
		bail("mkstemp");
	close(fd);
	sample_write(path, tensors, 1, 16, 3);
	if (sample_load_way(weir, path, WEIR_WAY_BUFFERED, 3, -1))
		bail("%s", weir_error());
	ok(has("weir-io"), "a reactor has the name weir-ioN");

	must(weir_stream_new(dev, NULL, &s));
	must(weir_stream_fill(s, &t, 0, 64, 7));
	must(weir_stream_sync(s, -1));
	ok(has("weir/cpu"), "a stream without a name has that of its device");

	files_begin();
	files_bytes("names.bin", numbers, sizeof(numbers));
	must(weir_file_open(weir, files_path("names.bin"), NULL, &file));
	g = sums(file);
	must(weir_sched_new(&dev, 1, &o, &sched));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, weir_graph_node(g, 0), x, sizeof(x)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(has("weir/run CPU"), "the thread of a run has the whole name");
	is_int(look(), 0, "no thread of the library has another name");

	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	weir_file_close(file);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_close(weir);
	unlink(path);
	return done_testing();
}
