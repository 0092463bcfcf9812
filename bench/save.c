/* SPDX-License-Identifier: MIT */
/*
 * bench/save [--dir DIR] [--mb SIZE] [--pairs N] [--device NAME] [--python
 * PYTHON --script save_peers.py]: saving tensors from memory to files, against
 * the disk: 8 threads that write 4 MiB at a time with O_DIRECT to a file whose
 * blocks are reserved, as fio does. Both times are from the creation of the
 * file to the end of fsync(2), and the ways take turns. With a Python that has
 * the packages safetensors, gguf and numpy, their writers take their turns too,
 * on arrays in memory, and with torch that of its tensors; each is followed by
 * fsync(2) of its file.
 *
 * The tensors are 64 of equal length, one after the other in huge pages. With a
 * device they are saved from its memory too, against the slower of the disk and
 * of copies by a stream to page-locked memory.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#include "must.h"
#include "raw.h"
#include "result.h"

#define N_TENSORS 64u
#define CHUNK ((size_t)4 << 20)
#define N_THREADS 8u
#define MAX_PAIRS 51u
#define GOAL 0.9

static const char *dir = ".";
static const char *python;
static const char *script = "save_peers.py";
static size_t bytes = (size_t)2 << 30;
static unsigned pairs = 7;
static const char *device; /* NULL: none */
static struct weir *root;
static struct weir_buf *buf;
/* Of the device. */
static struct weir_buf *on_device, *locked;
static struct weir_stream *stream;

static struct {
	int fd;
	const unsigned char *from;
	_Atomic size_t at;
} raw;

static const char *path_of(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void *write_chunks(void *arg)
{
	size_t at;

	while ((at = atomic_fetch_add(&raw.at, CHUNK)) < bytes)
		if (pwrite(raw.fd, raw.from + at, CHUNK, (off_t)at) !=
		    (ssize_t)CHUNK)
			die("%s: a direct write failed", path_of("raw"));
	return arg;
}

static double raw_write(void)
{
	pthread_t thread[N_THREADS];
	double begun = raw_now(), seconds;

	raw.fd = open(path_of("raw"), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT,
		      0600);
	if (raw.fd < 0)
		die("%s: no file can be made for direct writes",
		    path_of("raw"));
	(void)!fallocate(raw.fd, 0, 0, (off_t)bytes);
	atomic_store(&raw.at, 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		if (pthread_create(&thread[i], NULL, write_chunks, NULL))
			die("no thread can be started");
	for (unsigned i = 0; i < N_THREADS; i++)
		pthread_join(thread[i], NULL);
	if (fsync(raw.fd) < 0)
		die("%s: fsync failed", path_of("raw"));
	seconds = raw_now() - begun;
	close(raw.fd);
	unlink(path_of("raw"));
	return seconds;
}

/* Copies of as many bytes from the device. */
static double bus_copy(void)
{
	const int64_t n = (int64_t)CHUNK;
	double begun = raw_now();
	struct weir_tensor from, to;

	must(weir_tensor_init(&from, WEIR_DTYPE_I8, 1, &n));
	to = from;
	must(weir_tensor_place(&to, locked, 0));
	must(weir_tensor_place(&from, on_device, 0));
	for (uint64_t at = 0; at < bytes; at += CHUNK) {
		from.offset = at;
		must(weir_stream_copy(stream, &to, &from));
	}
	must(weir_stream_sync(stream, -1));
	return raw_now() - begun;
}

static double save(const char *name, struct weir_buf *from, bool sharded)
{
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;
	const int64_t shape = (int64_t)(bytes / N_TENSORS);
	struct weir_save *s;
	char label[40];
	double begun, seconds;

	o.shard_bytes = sharded ? bytes / 4 : 0;
	must(weir_save_new(root, path_of(name), &o, &s));
	for (unsigned i = 0; i < N_TENSORS; i++) {
		struct weir_tensor t;

		snprintf(label, sizeof(label), "model.layers.%02u.weight", i);
		must(weir_tensor_init(&t, WEIR_DTYPE_I8, 1, &shape));
		must(weir_tensor_place(&t, from, i * (uint64_t)shape));
		must(weir_save_add(s, label, &t, 0));
	}
	begun = raw_now();
	must(weir_save_start(s, NULL));
	must(weir_save_wait(s, -1));
	seconds = raw_now() - begun;
	weir_save_free(s);
	return seconds;
}

static void remove_saved(void)
{
	char name[80];

	unlink(path_of("s.safetensors"));
	unlink(path_of("s.gguf"));
	unlink(path_of("s.safetensors.index.json"));
	for (unsigned i = 1; i <= 4; i++) {
		snprintf(name, sizeof(name), "s-%05u-of-00004.safetensors", i);
		unlink(path_of(name));
	}
}

/*
 * The seconds of the writers in Python. Returns their number: 3 with torch, 2
 * without it, 0 if they do not run.
 */
static int peers(double *ret_safetensors, double *ret_gguf, double *ret_torch)
{
	char command[9000];
	FILE *from;
	int n;

	if (!python)
		return 0;
	snprintf(command, sizeof(command), "'%s' '%s' '%s' %zu %u", python,
		 script, dir, bytes, N_TENSORS);
	from = popen(command, "r");
	n = from ? fscanf(from, "%lf %lf %lf", ret_safetensors, ret_gguf,
			  ret_torch)
		 : 0;
	return from && pclose(from) == 0 && n >= 2 ? n : 0;
}

enum {
	RAW,
	ONE,
	PARTS,
	GGUF,
	BUS,
	DEVICE,
	PEER,
	PEER_GGUF,
	PEER_TORCH,
	WAYS
};

static double take(unsigned way)
{
	if (way == RAW)
		return raw_write();
	if (way == BUS)
		return bus_copy();
	return save(way == GGUF ? "s.gguf" : "s.safetensors",
		    way == DEVICE ? on_device : buf, way == PARTS);
}

static void row(const char *name, const char *limit, double goal,
		const double *limits, const double *values)
{
	double a[MAX_PAIRS], b[MAX_PAIRS];

	memcpy(a, limits, sizeof(a));
	memcpy(b, values, sizeof(b));
	result_add_pairs(name, limit, "s", goal, a, b, pairs);
}

static void measure(void)
{
	static double t[WAYS][MAX_PAIRS];
	const unsigned ways = device ? PEER : BUS;
	double slower[MAX_PAIRS];
	int with = 3, n;

	for (unsigned i = 0; i < pairs; i++) {
		/* What is removed before takes time of what follows. */
		for (unsigned k = 0; k < ways; k++) {
			const unsigned way = (i + k) % ways;

			t[way][i] = take(way);
			remove_saved();
		}
		if (with) {
			n = peers(&t[PEER][i], &t[PEER_GGUF][i],
				  &t[PEER_TORCH][i]);
			with = n < with ? n : with;
		}
	}
	result_head();
	row("one safetensors file", "direct writes", GOAL, t[RAW], t[ONE]);
	row("one GGUF file", "direct writes", GOAL, t[RAW], t[GGUF]);
	row("four shards", "direct writes", GOAL, t[RAW], t[PARTS]);
	for (unsigned i = 0; i < pairs; i++)
		slower[i] = t[RAW][i] > t[BUS][i] ? t[RAW][i] : t[BUS][i];
	if (device)
		row("one safetensors file, device", "slower of disk and bus",
		    GOAL, slower, t[DEVICE]);
	if (with) {
		row("one safetensors file, package", "safetensors.numpy", 1,
		    t[PEER], t[ONE]);
		row("one GGUF file, package", "gguf.GGUFWriter", 1,
		    t[PEER_GGUF], t[GGUF]);
	}
	if (with == 3)
		row("one safetensors file, torch", "safetensors.torch", 1,
		    t[PEER_TORCH], t[ONE]);
	if (!with) {
		result_skip("the packages safetensors and gguf",
			    "no --python that has them");
	}
}

static void options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--dir"))
			dir = argv[i + 1];
		else if (!strcmp(argv[i], "--mb"))
			bytes = strtoull(argv[i + 1], NULL, 10) << 20;
		else if (!strcmp(argv[i], "--pairs"))
			pairs = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--device"))
			device = argv[i + 1];
		else if (!strcmp(argv[i], "--python"))
			python = argv[i + 1];
		else if (!strcmp(argv[i], "--script"))
			script = argv[i + 1];
		else
			die("%s is no option", argv[i]);
	}
	bytes -= bytes % (N_TENSORS * CHUNK);
	if (!bytes || !pairs || pairs > MAX_PAIRS)
		die("--mb is at least 256, --pairs 1 to %u", MAX_PAIRS);
}

static void device_open(void)
{
	struct weir_buft *memory, *pinned;
	struct weir_dev *dev;

	must(weir_dev_find(root, device, &dev));
	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &memory));
	must(weir_dev_buft(dev, WEIR_MEM_PINNED, &pinned));
	must(weir_buf_alloc(memory, bytes, NULL, &on_device));
	must(weir_buf_alloc(pinned, CHUNK, NULL, &locked));
	must(weir_stream_new(dev, NULL, &stream));
}

int main(int argc, char **argv)
{
	struct weir_buft *huge;
	struct weir_dev *cpu;

	options(argc, argv);
	must(weir_open(NULL, &root));
	must(weir_dev_find(root, "CPU", &cpu));
	must(weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge));
	must(weir_buf_alloc(huge, bytes + 4096, NULL, &buf));
	for (size_t i = 0; i < bytes; i += 8)
		*(uint64_t *)(void *)((char *)weir_buf_data(buf) + i) =
			i * 0x9e3779b97f4a7c15u;
	raw.from = weir_buf_data(buf);
	if (device)
		device_open();
	measure();
	weir_stream_free(stream);
	weir_buf_free(on_device);
	weir_buf_free(locked);
	weir_buf_free(buf);
	weir_close(root);
	return !result_all_ok();
}
