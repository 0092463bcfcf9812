/* SPDX-License-Identifier: MIT */
/*
 * share serve NAME MODEL [DEVICE]: loads a model once, into memory of the host
 * or of DEVICE (CUDA0) that processes share, and publishes it until its
 * standard input ends.
 * share read NAME: opens these weights in another process, without a copy.
 *
 * NAME is the path of a socket, or an abstract name such as @llama. Both print
 * each tensor with a checksum of its bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir.h>

static int fail_weir(void)
{
	fprintf(stderr, "%s\n", weir_error());
	return -1;
}

static int show(const struct weir_tensor *t)
{
	uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a */
	unsigned char *bytes;
	size_t n;
	int r;

	if (weir_tensor_bytes(t, &n) < 0)
		return fail_weir();
	bytes = malloc(n + 1);
	if (!bytes) {
		perror(t->name);
		return -1;
	}
	/* The host reads its own memory by weir_tensor_data(), without this. */
	r = weir_tensor_get(t, 0, bytes, n);
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3u;
	free(bytes);
	if (r < 0)
		return fail_weir();
	printf("%016llx %zu %s\n", (unsigned long long)sum, n, t->name);
	return 0;
}

static int show_all(const struct weir_weights *w)
{
	for (size_t i = 0; i < weir_weights_count(w); i++)
		if (show(weir_weights_get(w, i)) < 0)
			return -1;
	return fflush(stdout);
}

/* The device's own memory is of kind DEVICE, the CPU's is in huge pages. */
static int load(struct weir *weir, const char *model, const char *device,
		struct weir_weights **ret)
{
	struct weir_select_opts select = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *memory;
	struct weir_dev *dev;

	select.buf_flags = WEIR_BUF_SHARED;
	if (weir_dev_find(weir, device, &dev) < 0 ||
	    weir_dev_buft(dev, WEIR_MEM_DEVICE, &memory) < 0 ||
	    weir_load_all(weir, model, memory, &select, ret) < 0)
		return fail_weir();
	return 0;
}

static int publish(struct weir *weir, const char *name, struct weir_weights *w,
		   struct weir_publication **ret)
{
	int fd, r;

	if (weir_weights_share(w, &fd) < 0)
		return fail_weir();
	r = weir_publish(weir, name, fd, 0, ret);
	close(fd); /* the publication has its own */
	return r < 0 ? fail_weir() : 0;
}

static int serve(struct weir *weir, const char *name, const char *model,
		 const char *device)
{
	struct weir_publication *publication;
	struct weir_weights *w;
	int ret;

	if (load(weir, model, device, &w) < 0)
		return -1;
	ret = show_all(w);
	if (ret == 0)
		ret = publish(weir, name, w, &publication);
	if (ret == 0) {
		/* A thread of the library answers the readers. */
		while (getchar() != EOF)
			;
		weir_publication_free(publication);
	}
	weir_weights_free(w);
	return ret;
}

static int read_shared(struct weir *weir, const char *name)
{
	struct weir_weights *w;
	int fd, ret;

	if (weir_published(weir, name, 0, &fd) < 0)
		return fail_weir();
	ret = weir_weights_open(weir, fd, NULL, &w);
	close(fd); /* the weights stay, also when the server ends */
	if (ret < 0)
		return fail_weir();
	ret = show_all(w);
	weir_weights_free(w);
	return ret;
}

int main(int argc, char **argv)
{
	struct weir *weir;
	int ret;

	if (!((argc == 4 || argc == 5) && !strcmp(argv[1], "serve")) &&
	    !(argc == 3 && !strcmp(argv[1], "read"))) {
		fprintf(stderr, "usage: share serve NAME MODEL [DEVICE]\n"
				"       share read NAME\n");
		return 2;
	}
	if (weir_open(NULL, &weir) < 0)
		return fail_weir(), 1;
	ret = argc > 3 ? serve(weir, argv[2], argv[3],
			       argc > 4 ? argv[4] : "CPU")
		       : read_shared(weir, argv[2]);
	weir_close(weir);
	return ret < 0;
}
