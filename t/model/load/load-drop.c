/* SPDX-License-Identifier: MIT */
/* A load that leaves nothing of its files in the page cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "io/file.h"
#include "sample.h"
#include "tap.h"

#define BYTES (8u << 20)
#define TRIES 50 /* the kernel may evict a page at any time, or hold it */

static char path[] = "/var/tmp/weir-drop-XXXXXX";
static struct weir *root;
static struct weir_buft *plain;

/* Load through the page cache; the model has one file. */
static struct weir_model *load(uint32_t flags)
{
	struct weir_select_opts by = WEIR_SELECT_OPTS_INIT;
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	by.way = WEIR_WAY_BUFFERED;
	o.flags = flags;
	if (weir_model_open(root, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 ||
	    weir_plan_add(p, NULL, plain, &by) < 0 ||
	    weir_load_start(p, &o, &l) < 0)
		bail("%s", weir_error());
	if (weir_load_wait(l, -1) < 0)
		bail("%s", weir_error());
	weir_load_free(l);
	weir_plan_free(p);
	return m;
}

/* How much of the model is in the page cache, in 1/1000. */
static unsigned resident(struct weir_model *m)
{
	unsigned r = weir__file_resident(weir_model_file(m, 0), 0, BYTES);

	weir_model_close(m);
	return r;
}

/* The file has no dirty pages, which cannot be dropped. */
static bool is_droppable(void)
{
	struct weir_model *m;
	unsigned r = 1000;
	int fd = open(path, O_RDWR);

	if (fd < 0 || fsync(fd) < 0)
		bail("%s: %s", path, strerror(errno));
	for (int i = 0; i < TRIES && r; i++) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (weir_model_open(root, path, NULL, &m) < 0)
			bail("%s", weir_error());
		r = resident(m);
	}
	close(fd);
	return !r;
}

static void drops(uint32_t flags, const char *title)
{
	unsigned r = 1000;

	for (int i = 0; i < TRIES && r; i++)
		r = resident(load(flags));
	is_int(r, 0, "%s", title);
}

int main(void)
{
	const struct sample_tensor t = { "a", "U8", BYTES, 1 };
	struct weir_dev *cpu;
	int fd = mkstemp(path);
	unsigned r = 0;

	plan(3);
	if (fd < 0)
		bail("%s", path);
	close(fd);
	sample_write(path, &t, 1, 8, 1);
	if (weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) < 0)
		bail("%s", weir_error());
	for (int i = 0; i < TRIES && r <= 900; i++)
		r = resident(load(0));
	ok(r > 900, "a load through the page cache leaves the file there");
	if (is_droppable()) {
		drops(WEIR_LOAD_DROP,
		      "with WEIR_LOAD_DROP nothing of the file stays there");
		drops(WEIR_LOAD_DROP | WEIR_LOAD_UNCHECKED,
		      "with WEIR_LOAD_DROP nothing stays of a file that was read again");
	} else {
		skip(2, "the file system keeps all files in memory");
	}
	weir_close(root);
	unlink(path);
	return done_testing();
}
