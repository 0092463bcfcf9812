/* SPDX-License-Identifier: MIT */
/* A resident file that is mapped; a byte of each page is read. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define PAGE 4096u

static unsigned read_pages(const unsigned char *p, size_t n)
{
	unsigned sum = 0;

	for (size_t at = 0; at < n; at += PAGE)
		sum += *(const volatile unsigned char *)(p + at);
	return n ? sum + ((const volatile unsigned char *)p)[n - 1] : 0;
}

struct mapped {
	const struct file *file;
	struct loader loader;
};

static void raw_mapped(void *arg, struct sample *s)
{
	const struct file *f = ((struct mapped *)arg)->file;
	double cpu = raw_cpu(), begun = raw_now();
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, f->bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED)
		die("%s: cannot be mapped", f->path);
	read_pages(p, f->bytes);
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = f->bytes;
	munmap(p, f->bytes);
	close(fd);
}

static void read_tensors(const struct weir_weights *w)
{
	for (size_t i = 0; i < weir_weights_count(w); i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);
		size_t bytes;

		must(weir_tensor_bytes(t, &bytes));
		read_pages(weir_tensor_data(t), bytes);
	}
}

static void weir_mapped(void *arg, struct sample *s)
{
	struct mapped *m = arg;
	struct weir_select_opts select = WEIR_SELECT_OPTS_INIT;
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_weights *weights;
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *l;

	select.way = WEIR_WAY_MAP;
	must(weir_model_open(m->loader.weir, m->file->path, NULL, &model));
	must(weir_plan_new(model, &plan));
	must(weir_plan_add(plan, NULL, m->loader.mapped, &select));
	must(weir_load_start(plan, NULL, &l));
	must(weir_load_wait(l, -1));
	must(weir_load_weights(l, &weights));
	read_tensors(weights);
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = m->file->bytes;
	weir_load_free(l);
	weir_plan_free(plan);
	weir_model_close(model);
	weir_weights_free(weights);
}

void row_map(unsigned pairs)
{
	struct mapped m = { .file = model_large() };
	struct pair p = { .name = "map, every page read",
			  .limit = "mmap, every page read",
			  .file_a = m.file,
			  .file_b = m.file,
			  .resident = true,
			  .a = raw_mapped,
			  .b = weir_mapped,
			  .arg = &m };
	struct result r;

	loader_open(&m.loader, 0);
	pair_run(&p, pairs, true, &r);
	r.judged = GOAL_VALUE;
	r.goal = 20;
	result_add(&r);
	loader_close(&m.loader);
}
