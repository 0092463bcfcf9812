/* SPDX-License-Identifier: MIT */
/* A load that leaves nothing of its files in the page cache. */
#include <stdlib.h>
#include <unistd.h>

#include <weir.h>

#include "io/file.h"
#include "sample.h"
#include "tap.h"

#define BYTES (8u << 20)

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
	is_int(weir_load_wait(l, -1), 0, "a load with flags %u ends well",
	       flags);
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

int main(void)
{
	const struct sample_tensor t = { "a", "U8", BYTES, 1 };
	struct weir_dev *cpu;
	int fd = mkstemp(path);

	plan(6);
	if (fd < 0)
		bail("%s", path);
	close(fd);
	sample_write(path, &t, 1, 8, 1);
	if (weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) < 0)
		bail("%s", weir_error());
	ok(resident(load(0)) > 900,
	   "a load through the page cache leaves the file there");
	is_int(resident(load(WEIR_LOAD_DROP)), 0,
	       "with WEIR_LOAD_DROP nothing of the file stays there");
	is_int(resident(load(WEIR_LOAD_DROP | WEIR_LOAD_UNCHECKED)), 0,
	       "with WEIR_LOAD_DROP nothing stays of a file that was read again");
	weir_close(root);
	unlink(path);
	return done_testing();
}
