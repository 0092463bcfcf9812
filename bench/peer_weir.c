/* SPDX-License-Identifier: MIT */
/*
 * peer_weir MODEL [DEVICE | map | read]: weir's side of bench/peers.
 *
 * The same protocol as the children of the other loaders (peers_child.py): it
 * prints "ready" and waits for a line. Then it makes one load, in which the
 * root and its rings are timed, too, to fresh memory; prints one line of JSON
 * with the time; and prints the digest of every tensor in that memory.
 *
 * DEVICE is CUDA<n>; without it the destination is host memory. The device's
 * context exists before "ready", as for the others, which import PyTorch. With
 * "map" the file is mapped, and a byte of each page of each tensor is read;
 * with "read" every byte is read, for its digest, before the clock stops.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weir.h>

#include "bus.h"
#include "must.h"
#include "raw.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static void await_line(void)
{
	int c;

	while ((c = getchar()) != '\n')
		if (c == EOF)
			exit(1);
}

/* Reset the peak RSS, so that it is the load's, if the kernel can. */
static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "5", 1) != 1)
		fprintf(stderr, "the peak of memory cannot be reset\n");
	close(fd);
}

/* A value of /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	size_t n = strlen(key);
	uint64_t kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, n) &&
		    sscanf(line + n, ": %" SCNu64, &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* The names are those of weir synth and need no escapes. */
static void put_digests(struct weir_weights *w)
{
	uint8_t digest[32];

	for (size_t i = 0; i < weir_weights_count(w); i++) {
		int n = weir_weights_digest(w, i, WEIR_DIGEST_XXH3, digest);

		must(n);
		for (int k = 0; k < n; k++)
			printf("%02x", digest[k]);
		printf("  %s\n", weir_weights_get(w, i)->name);
	}
}

/*
 * As MAP_POPULATE does, which llama.cpp maps with; before Linux 5.14 nothing.
 */
static void populate(uintptr_t p, size_t bytes)
{
	uintptr_t from = p & ~(uintptr_t)4095;

	madvise((void *)from, p + bytes - from, MADV_POPULATE_READ);
}

static void read_pages(const struct weir_weights *w)
{
	for (size_t i = 0; i < weir_weights_count(w); i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);
		const volatile unsigned char *p = weir_tensor_data(t);
		size_t bytes;

		must(weir_tensor_bytes(t, &bytes));
		populate((uintptr_t)p, bytes);
		for (size_t at = 0; at < bytes; at += 4096)
			(void)p[at];
	}
}

static void read_bytes(struct weir_weights *w)
{
	uint8_t digest[32];

	for (size_t i = 0; i < weir_weights_count(w); i++)
		must(weir_weights_digest(w, i, WEIR_DIGEST_XXH3, digest));
}

/* To memory of the device @to, to mapped pages, or to huge pages. */
static struct weir_weights *load(struct weir *weir, const char *path,
				 const char *to)
{
	struct weir_select_opts select = WEIR_SELECT_OPTS_INIT;
	bool map = to && !strcmp(to, "map");
	bool read = to && !strcmp(to, "read");
	bool host = !to || map || read;
	struct weir_weights *weights;
	struct weir_buft *buft;
	struct weir_dev *dev;

	select.way = map ? WEIR_WAY_MAP : WEIR_WAY_AUTO;
	must(weir_dev_find(weir, host ? "CPU" : to, &dev));
	must(weir_dev_buft(dev,
			   map    ? WEIR_MEM_MAPPED
			   : host ? WEIR_MEM_HUGE
				  : WEIR_MEM_DEVICE,
			   &buft));
	must(weir_load_all(weir, path, buft, &select, &weights));
	if (map)
		read_pages(weights);
	if (read)
		read_bytes(weights);
	return weights;
}

int main(int argc, char **argv)
{
	const char *to = argc == 3 ? argv[2] : NULL;
	struct weir_weights *weights;
	struct weir *weir;
	uint64_t before;
	double begun, cpu;

	if (argc != 2 && argc != 3)
		die("usage: peer_weir MODEL [DEVICE | map | read]");
	if (to && strcmp(to, "map") && strcmp(to, "read"))
		bus_open(to);
	printf("ready {\"weir\": \"%s\"}\n", weir_version_string());
	fflush(stdout);
	await_line();

	reset_peak();
	before = status_bytes("VmRSS");
	cpu = raw_cpu();
	begun = raw_now();
	must(weir_open(NULL, &weir));
	weights = load(weir, argv[1], to);
	begun = raw_now() - begun;
	cpu = raw_cpu() - cpu;
	printf("{\"seconds\": %.6f, \"cpu\": %.6f, \"before\": %" PRIu64
	       ", \"peak\": %" PRIu64 ", \"tensors\": %zu}\n",
	       begun, cpu, before, status_bytes("VmHWM"),
	       weir_weights_count(weights));
	fflush(stdout);

	put_digests(weights);
	weir_weights_free(weights);
	weir_close(weir);
	return 0;
}
