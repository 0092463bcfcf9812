/* SPDX-License-Identifier: MIT */
/* The files of weir synth: the layout of the tensors, headers, and bytes. */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weir.h>
#include "output.h"
#include "signals.h"
#include "synth.h"

/*
 * Assign the tensors to shards in the order of the architecture. Each shard
 * ends where its share of the bytes is reached; no shard is empty.
 */
static void assign_shards(struct synth_model *m, uint64_t shards)
{
	uint64_t bytes = 0, k = 0;

	for (size_t i = 0; i < m->count; i++) {
		struct synth_tensor *t = &m->tensors[i];
		unsigned __int128 share;

		t->shard = (uint32_t)k;
		bytes += t->bytes;
		share = (unsigned __int128)m->bytes * (k + 1) / shards;
		if (k + 1 < shards &&
		    (bytes >= share || m->count - i - 1 == shards - k - 1))
			k++;
	}
}

/* Order in a file: wider elements first, so that all are aligned; by name. */
static int compare_places(const void *va, const void *vb)
{
	const struct synth_tensor *a = va, *b = vb;

	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	if (a->dtype->bits != b->dtype->bits)
		return a->dtype->bits > b->dtype->bits ? -1 : 1;
	return strcmp(a->name, b->name);
}

void synth_lay_out(struct synth_model *m, uint64_t shards, uint64_t align)
{
	uint64_t offset = 0;

	assign_shards(m, shards);
	qsort(m->tensors, m->count, sizeof(*m->tensors), compare_places);
	for (size_t i = 0; i < m->count; i++) {
		struct synth_tensor *t = &m->tensors[i];

		if (i && t->shard != t[-1].shard)
			offset = 0;
		offset = (offset + align - 1) / align * align;
		t->offset = offset;
		offset += t->bytes;
	}
}

/* The names of presets contain nothing that JSON escapes. */
static void put_entry(FILE *to, const struct synth_tensor *t)
{
	fprintf(to, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
		t->dtype->name);
	for (unsigned i = 0; i < t->ndim; i++)
		fprintf(to, "%s%llu", i ? "," : "",
			(unsigned long long)t->shape[i]);
	fprintf(to, "],\"data_offsets\":[%llu,%llu]}",
		(unsigned long long)t->offset,
		(unsigned long long)(t->offset + t->bytes));
}

char *synth_header(const struct synth_tensor *t, size_t n, size_t *ret_size)
{
	char *text = NULL;
	uint64_t length = 0;
	FILE *to = open_memstream(&text, ret_size);

	if (!to)
		return NULL;
	fwrite(&length, sizeof(length), 1, to);
	fputs("{\"__metadata__\":{\"format\":\"pt\"}", to);
	for (size_t i = 0; i < n; i++)
		put_entry(to, &t[i]);
	putc('}', to);
	while (ftell(to) % 8)
		putc(' ', to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	length = htole64(*ret_size - sizeof(length));
	memcpy(text, &length, sizeof(length));
	return text;
}

void synth_shard_name(uint32_t shard, uint64_t shards, const char *suffix,
		      char name[SYNTH_SHARD_NAME])
{
	if (shards == 1)
		snprintf(name, SYNTH_SHARD_NAME, "model%s", suffix);
	else
		snprintf(name, SYNTH_SHARD_NAME, "model-%05u-of-%05u%s",
			 shard + 1, (unsigned)shards, suffix);
}

static int compare_names(const void *va, const void *vb)
{
	const struct synth_tensor *a = va, *b = vb;

	return strcmp(a->name, b->name);
}

char *synth_index(struct synth_model *m, uint64_t shards, size_t *ret_size)
{
	char name[SYNTH_SHARD_NAME], *text = NULL;
	FILE *to = open_memstream(&text, ret_size);

	if (!to)
		return NULL;
	qsort(m->tensors, m->count, sizeof(*m->tensors), compare_names);
	fprintf(to,
		"{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n"
		"  \"weight_map\": {",
		(unsigned long long)m->bytes);
	for (size_t i = 0; i < m->count; i++) {
		synth_shard_name(m->tensors[i].shard, shards, ".safetensors",
				 name);
		fprintf(to, "%s\n    \"%s\": \"%s\"", i ? "," : "",
			m->tensors[i].name, name);
	}
	fputs("\n  }\n}\n", to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

/* Types of metadata. */
enum {
	GGUF_U16 = 2,
	GGUF_I32 = 5,
	GGUF_STRING = 8
};

/* GGML's number of the dtype; -1: GGUF lacks it. */
static int32_t ggml_number(const struct synth_dtype *dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	for (unsigned i = 1; i < WEIR_DTYPE_GGML; i++)
		if (weir_dtype_info((enum weir_dtype)i, &info) >= 0 &&
		    !strcmp(info.name, dtype->name))
			return info.ggml;
	return -1;
}

void synth_gguf_filter(struct synth_model *m)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->count; i++) {
		struct synth_tensor *t = &m->tensors[i];

		if (ggml_number(t->dtype) >= 0) {
			m->tensors[kept++] = *t;
			continue;
		}
		m->bytes -= t->bytes;
		free(t->name);
	}
	m->count = kept;
}

static void put(FILE *to, uint64_t v, size_t bytes)
{
	v = htole64(v);
	fwrite(&v, 1, bytes, to);
}

static void put_string(FILE *to, const char *s)
{
	put(to, strlen(s), 8);
	fputs(s, to);
}

static void put_pair(FILE *to, const char *key, uint32_t type, uint64_t v,
		     size_t bytes)
{
	put_string(to, key);
	put(to, type, 4);
	put(to, v, bytes);
}

/* The innermost dimension is first. */
static void put_info(FILE *to, const struct synth_tensor *t)
{
	put_string(to, t->name);
	put(to, t->ndim, 4);
	for (unsigned i = t->ndim; i--;)
		put(to, t->shape[i], 8);
	put(to, (uint64_t)ggml_number(t->dtype), 4);
	put(to, t->offset, 8);
}

char *synth_gguf_header(const struct synth_model *m,
			const struct synth_tensor *t, size_t n, uint64_t shards,
			size_t *ret_size)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, ret_size);

	if (!to)
		return NULL;
	fputs("GGUF", to);
	put(to, 3, 4);
	put(to, n, 8);
	put(to, shards > 1 ? 4 : 1, 8);
	put_string(to, "general.architecture");
	put(to, GGUF_STRING, 4);
	put_string(to, "synth");
	if (shards > 1) {
		put_pair(to, "split.no", GGUF_U16, t->shard, 2);
		put_pair(to, "split.count", GGUF_U16, shards, 2);
		put_pair(to, "split.tensors.count", GGUF_I32, m->count, 4);
	}
	for (size_t i = 0; i < n; i++)
		put_info(to, &t[i]);
	while (ftell(to) % SYNTH_GGUF_ALIGN)
		putc(0, to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

/* The files that a signal handler removes. */
static struct synth_files *pending;

/* Async-signal-safe: frees nothing. */
static void remove_files(const struct synth_files *fs)
{
	for (size_t i = 0; i < fs->count; i++)
		unlink(fs->files[i].renamed ? fs->files[i].path
					    : fs->files[i].tmp);
	if (fs->made_dir)
		rmdir(fs->dir);
}

static void remove_pending(void)
{
	if (pending)
		remove_files(pending);
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	if (slash == path)
		return strdup("/");
	return strndup(path, (size_t)(slash - path));
}

/*
 * Returns 1 if the directory is empty, 0 if it is not, or a negative errno if
 * it cannot be read.
 */
static int is_empty_directory(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int empty = 1;

	if (!dir)
		return -errno;
	while (empty && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			empty = 0;
	closedir(dir);
	return empty;
}

static int check_file(const struct synth_files *fs)
{
	struct stat st;

	if (lstat(fs->out, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return fail("%s: is a directory", fs->out);
	if (!fs->force)
		return fail("%s: exists; --force replaces it", fs->out);
	return 0;
}

static int make_directory(struct synth_files *fs)
{
	int empty;

	if (mkdir(fs->out, 0777) == 0) {
		fs->made_dir = true;
		return 0;
	}
	if (errno != EEXIST)
		return fail("%s: cannot be created: %s", fs->out,
			    strerror(errno));
	empty = is_empty_directory(fs->out);
	if (empty == -ENOTDIR)
		return fail("%s: is not a directory", fs->out);
	if (empty < 0)
		return fail("%s: cannot be read: %s", fs->out,
			    strerror(-empty));
	if (!empty && !fs->force)
		return fail("%s: is not empty; --force replaces a model in it",
			    fs->out);
	return 0;
}

int synth_files_begin(struct synth_files *fs, const char *out, bool single,
		      bool force, size_t n)
{
	*fs = (struct synth_files){ .out = out, .force = force };
	pending = fs;
	signals_catch(remove_pending);
	fs->dir = single ? directory_of(out) : strdup(out);
	fs->files = calloc(n, sizeof(*fs->files));
	if (!fs->dir || !fs->files)
		return fail_memory();
	return single ? check_file(fs) : make_directory(fs);
}

/* Add the next file, so that remove_files() includes it from here on. */
static struct synth_file *add_file(struct synth_files *fs, const char *name)
{
	struct synth_file *f = &fs->files[fs->count];
	const char *base = strrchr(fs->out, '/');

	if (!name)
		name = base ? base + 1 : fs->out;
	if (asprintf(&f->path, "%s/%s", fs->dir, name) < 0)
		f->path = NULL;
	if (asprintf(&f->tmp, "%s/.%s.XXXXXX", fs->dir, name) < 0)
		f->tmp = NULL;
	if (!f->path || !f->tmp) {
		free(f->path);
		free(f->tmp);
		return NULL;
	}
	fs->count = fs->count + 1;
	return f;
}

static const struct synth_file *last_file(const struct synth_files *fs)
{
	return &fs->files[fs->count - 1];
}

int synth_files_create(struct synth_files *fs, const char *name, uint64_t bytes,
		       int *ret_fd)
{
	struct synth_file *f = add_file(fs, name);
	int fd;

	if (!f)
		return fail_memory();
	fd = mkostemp(f->tmp, O_CLOEXEC);
	if (fd < 0)
		return fail("%s: cannot be created: %s", f->path,
			    strerror(errno));
	/* Fail now if the disk is too small; some file systems cannot tell. */
	if (bytes && fallocate(fd, 0, 0, (off_t)bytes) < 0 &&
	    (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
		fail("%s: needs %llu bytes: %s", f->path,
		     (unsigned long long)bytes, strerror(errno));
		close(fd);
		return EXIT_FAILURE;
	}
	*ret_fd = fd;
	return 0;
}

int synth_files_write(const struct synth_files *fs, int fd, const void *data,
		      size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return fail("%s: cannot be written: %s",
				    last_file(fs)->path, strerror(errno));
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

int synth_files_close(struct synth_files *fs, int fd, int status)
{
	mode_t mask = umask(0);
	int err = 0;

	umask(mask);
	if (status) {
		close(fd);
		return status;
	}
	if (fchmod(fd, 0666 & ~mask) < 0 || fsync(fd) < 0)
		err = errno;
	if (close(fd) < 0 && !err)
		err = errno;
	if (err)
		return fail("%s: cannot be written: %s", last_file(fs)->path,
			    strerror(err));
	return 0;
}

/* model.safetensors, its index, model-00001-of-00002.gguf. */
static bool is_model_file(const char *name)
{
	unsigned a, b;
	int n = 0;

	if (sscanf(name, "model-%5u-of-%5u%n", &a, &b, &n) == 2 &&
	    n == (int)strlen("model-00001-of-00002"))
		return !strcmp(name + n, ".safetensors") ||
		       !strcmp(name + n, ".gguf");
	return !strcmp(name, "model.safetensors") ||
	       !strcmp(name, "model.safetensors.index.json") ||
	       !strcmp(name, "model.gguf");
}

/*
 * Remove files of an older model in the directory: the new one may have fewer.
 */
static int remove_old_model(const struct synth_files *fs)
{
	DIR *dir = opendir(fs->dir);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return fail("%s: cannot be read: %s", fs->dir, strerror(errno));
	while (r == 0 && (entry = readdir(dir)))
		if (is_model_file(entry->d_name) &&
		    unlinkat(dirfd(dir), entry->d_name, 0) < 0)
			r = fail("%s/%s: cannot be removed: %s", fs->dir,
				 entry->d_name, strerror(errno));
	closedir(dir);
	return r;
}

static int file_rename(const struct synth_files *fs, struct synth_file *f)
{
	int r = -1;

	if (!fs->force) {
		r = renameat2(AT_FDCWD, f->tmp, AT_FDCWD, f->path,
			      RENAME_NOREPLACE);
		if (r < 0 && errno != EINVAL && errno != ENOSYS)
			return fail("%s: cannot be created: %s", f->path,
				    strerror(errno));
	}
	if (r < 0)
		r = rename(f->tmp, f->path);
	if (r < 0)
		return fail("%s: cannot be created: %s", f->path,
			    strerror(errno));
	f->renamed = true;
	return 0;
}

/* Flush the directory, so that the new names survive a power failure. */
static int sync_directory(const struct synth_files *fs)
{
	int fd = open(fs->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0 || fsync(fd) < 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	return err && err != EINVAL
		       ? fail("%s: the files are complete, but cannot be flushed to the disk: %s",
			      fs->dir, strerror(err))
		       : 0;
}

int synth_files_commit(struct synth_files *fs)
{
	int r = 0;

	if (fs->force && !strcmp(fs->dir, fs->out))
		r = remove_old_model(fs);
	for (size_t i = 0; r == 0 && i < fs->count; i++)
		r = file_rename(fs, &fs->files[i]);
	if (r == 0)
		r = sync_directory(fs);
	if (r == 0) {
		pending = NULL;
		fs->made_dir = false;
	}
	return r;
}

void synth_files_end(struct synth_files *fs)
{
	if (pending == fs)
		remove_files(fs);
	pending = NULL;
	for (size_t i = 0; i < fs->count; i++) {
		free(fs->files[i].tmp);
		free(fs->files[i].path);
	}
	free(fs->files);
	free(fs->dir);
}
