/* SPDX-License-Identifier: MIT */
/*
 * A source of bytes of a program's own: the files in an uncompressed tar
 * archive, by the scheme "tar". It loads one as a model, straight out of the
 * archive, and lists its tensors:
 *
 *	tar cf models.tar tiny.safetensors
 *	source tar://models.tar/tiny.safetensors
 *
 * weir-source(7) describes the interface. Reads are made here by one thread in
 * the order in which they come; cancel takes those back that it has not begun.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#define BLOCK 512u /* a header has one block, a file whole blocks */

struct archive {
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	struct weir_source_read *first, **end;
	bool quit;
};

struct member {
	struct archive *archive;
	int fd;
	uint64_t at; /* of its first byte, in the archive */
};

/* The links of the list, and the member that is read. */
static struct weir_source_read **next_of(struct weir_source_read *read)
{
	return (struct weir_source_read **)&read->priv[0];
}

static struct member *member_of(const struct weir_source_read *read)
{
	return read->priv[1];
}

/* Returns 0 or -errno. */
static int read_bytes(const struct member *m, unsigned char *to, uint64_t n,
		      uint64_t off)
{
	while (n) {
		ssize_t r = pread(m->fd, to, n, (off_t)(m->at + off));

		if (r < 0)
			return -errno;
		if (r == 0)
			return -ESTALE; /* the archive was cut short */
		to += r;
		off += (uint64_t)r;
		n -= (uint64_t)r;
	}
	return 0;
}

static struct weir_source_read *wait_for_read(struct archive *a)
{
	struct weir_source_read *read;

	pthread_mutex_lock(&a->lock);
	while (!a->first && !a->quit)
		pthread_cond_wait(&a->changed, &a->lock);
	read = a->first;
	if (read) {
		a->first = *next_of(read);
		if (!a->first)
			a->end = &a->first;
	}
	pthread_mutex_unlock(&a->lock);
	return read;
}

static void *serve(void *arg)
{
	struct weir_source_read *read;

	while ((read = wait_for_read(arg))) {
		int err = read_bytes(member_of(read), read->buf, read->len,
				     read->off);

		read->done(read, err,
			   err == -ESTALE ? "the archive is shorter now"
					  : NULL);
	}
	return NULL;
}

static void tar_read(void *object, struct weir_source_read *read)
{
	struct member *m = object;
	struct archive *a = m->archive;

	read->priv[1] = m;
	*next_of(read) = NULL;
	pthread_mutex_lock(&a->lock);
	*a->end = read;
	a->end = next_of(read);
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

/* A read that has begun ends by itself, soon enough. */
static void tar_cancel(void *object, struct weir_source_read *read)
{
	struct archive *a = ((struct member *)object)->archive;
	struct weir_source_read **link;
	bool found;

	pthread_mutex_lock(&a->lock);
	for (link = &a->first; *link && *link != read; link = next_of(*link))
		;
	found = *link;
	if (found) {
		*link = *next_of(read);
		if (!*link)
			a->end = link;
	}
	pthread_mutex_unlock(&a->lock);
	if (found)
		read->done(read, -ECANCELED, NULL);
}

/* Find @name in the archive: its place and its size. */
static int find(struct member *m, const char *name, uint64_t *ret_bytes,
		char why[WEIR_SOURCE_WHY])
{
	char head[BLOCK + 1] = "";

	for (;;) {
		uint64_t bytes;

		if (read_bytes(m, (unsigned char *)head, BLOCK, 0) < 0 ||
		    !*head) {
			snprintf(why, WEIR_SOURCE_WHY,
				 "the archive has no file %s", name);
			return -ENOENT;
		}
		if (memcmp(head + 257, "ustar", 5) != 0) {
			snprintf(why, WEIR_SOURCE_WHY,
				 "this is no tar archive of the form ustar");
			return -EBADMSG;
		}
		head[124 + 12] = '\0';
		bytes = strtoull(head + 124, NULL, 8);
		m->at += BLOCK;
		head[100] = '\0';
		if (!strcmp(head, name)) {
			*ret_bytes = bytes;
			return 0;
		}
		m->at += (bytes + BLOCK - 1) / BLOCK * BLOCK;
	}
}

/* "tar://ARCHIVE/NAME": the archive is the longest part that is a file. */
static int tar_open(void *self, const char *url, void **ret_object,
		    struct weir_source_info *ret_info,
		    char why[WEIR_SOURCE_WHY])
{
	struct member *m = calloc(1, sizeof(*m));
	char *path = strdup(url + strlen("tar://")), *slash;
	struct stat st;
	int r = -ENOMEM;

	if (!m || !path)
		goto out;
	m->archive = self;
	m->fd = -1;
	for (slash = path; (slash = strchr(slash + 1, '/')); *slash = '/') {
		*slash = '\0';
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
			break;
	}
	r = -ENOENT;
	if (!slash) {
		snprintf(why, WEIR_SOURCE_WHY, "there is no such archive");
		goto out;
	}
	m->fd = open(path, O_RDONLY | O_CLOEXEC);
	r = m->fd < 0 ? -errno : find(m, slash + 1, &ret_info->bytes, why);
	if (r == 0)
		*ret_object = m;
out:
	if (r < 0 && m) {
		if (m->fd >= 0)
			close(m->fd);
		free(m);
	}
	free(path);
	return r;
}

static void tar_close(void *object)
{
	struct member *m = object;

	close(m->fd);
	free(m);
}

static void tar_stop(void *self)
{
	struct archive *a = self;

	pthread_mutex_lock(&a->lock);
	a->quit = true;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static int add_tar(struct weir *weir)
{
	static const char *const schemes[] = { "tar", NULL };
	static const struct weir_source source = {
		.size = sizeof(source),
		.abi = WEIR_SOURCE_ABI,
		.name = "tar",
		.schemes = schemes,
		.open = tar_open,
		.close = tar_close,
		.read = tar_read,
		.cancel = tar_cancel,
		.stop = tar_stop,
	};
	struct archive *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	a->end = &a->first;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	r = -pthread_create(&a->thread, NULL, serve, a);
	if (r < 0) {
		free(a);
		return r;
	}
	r = weir_source_add(weir, &source, a);
	if (r < 0)
		tar_stop(a);
	return r;
}

static int list(struct weir *weir, const char *url)
{
	struct weir_buft *ram;
	struct weir_weights *w;
	int r = weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &ram);

	if (r >= 0)
		r = weir_load_all(weir, url, ram, NULL, &w);
	if (r < 0)
		return r;
	for (size_t i = 0; i < weir_weights_count(w); i++) {
		struct weir_entry e = { .size = sizeof(e) };

		r = weir_weights_entry(w, i, &e);
		if (r < 0)
			break;
		printf("%s %llu\n", e.name, (unsigned long long)e.bytes);
	}
	weir_weights_free(w);
	return r;
}

int main(int argc, char **argv)
{
	struct weir *weir;
	int r;

	if (argc != 2) {
		fprintf(stderr, "usage: source tar://ARCHIVE/NAME\n");
		return 2;
	}
	r = weir_open(NULL, &weir);
	if (r >= 0) {
		r = add_tar(weir);
		if (r >= 0)
			r = list(weir, argv[1]);
		if (r < 0)
			fprintf(stderr, "source: %s\n", weir_error());
		weir_close(weir);
	}
	return r < 0;
}
