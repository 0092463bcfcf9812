/* SPDX-License-Identifier: MIT */
/* Reports the accesses of loads to the race checker (races/races.h). */
#include <stdio.h>

#include "core/error.h"
#include "races/races.h"
#include "model/load/load.h"

static struct weir__races_bytes bytes_of(const struct weir_weights *w, size_t i)
{
	const struct weir__spot *s = &w->layout->spot[i];
	const struct weir__cut *cut = weir__layout_cut(w->layout, s->cut);
	const struct weir_buf *buf = w->buf[s->buf];
	struct weir__races_bytes b = {
		.space = weir__buf_space(buf),
		.lo = (uintptr_t)buf->mem.base + s->at,
		.width = s->bytes,
		.rows = 1,
		.write = true,
		.name = weir__weights_tensor(w, i)->name,
	};

	b.base = b.lo;
	if (cut && cut->rows > 1) {
		b.width = cut->mem_width;
		b.pitch = cut->mem_pitch;
		b.rows = cut->rows;
	}
	return b;
}

void weir__load_races(struct weir_load *l)
{
	const struct weir_weights *w = l->weights;
	const struct weir_model *m = l->model;
	char label[80];

	if (!weir__races_on(l->weir))
		return;
	snprintf(label, sizeof(label), "the load of '%.40s'",
		 m->n_files ? m->file[0]->base : "");
	weir__races_add_load(&l->arrival->timeline, label, l->arrival->n);
	for (size_t i = 0; i < w->layout->n; i++) {
		uint32_t buf = w->layout->spot[i].buf;
		struct weir__races_bytes b;

		if (buf == WEIR__NO_BUF ||
		    w->layout->buf[buf].buft->desc.kind == WEIR_MEM_MAPPED)
			continue;
		b = bytes_of(w, i);
		weir__races_load_writes(&l->arrival->timeline, i, &b);
	}
	weir__races_flush(l->weir);
}

void weir__load_races_arrived(struct weir_load *l)
{
	struct weir__arrival *a = l->arrival;

	if (weir__ended_count(&a->ended) == a->n || atomic_load(&a->finished))
		weir__races_host_knows(&a->timeline, a->n);
}
