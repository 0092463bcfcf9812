/* SPDX-License-Identifier: MIT */
/*
 * save MODEL OUT [SHARD_BYTES]: load a model, save its matrices of F32 as BF16
 * and all else as it is, with one more pair of metadata, and print the
 * progress.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

static int fail(void)
{
	fprintf(stderr, "%s\n", weir_error());
	return -1;
}

static int add_all(struct weir_save *save, const struct weir_weights *w)
{
	const struct weir_value maker = { .size = sizeof(maker),
					  .key = "maker",
					  .type = WEIR_VALUE_STRING,
					  .str = "examples/save",
					  .len = 13 };

	for (size_t i = 0; i < weir_weights_count(w); i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);
		bool wide = t->ndim == 2 && t->dtype == WEIR_DTYPE_F32;
		uint32_t dtype = wide ? WEIR_DTYPE_BF16 : 0;

		if (weir_save_add(save, t->name, t, dtype) < 0)
			return fail();
	}
	return weir_save_meta(save, &maker) < 0 ? fail() : 0;
}

/* The save runs in the background; a program would do other work meanwhile. */
static int run(struct weir_save *save)
{
	struct weir_save_report rep = { .size = sizeof(rep) };
	struct weir_progress p = { .size = sizeof(p) };

	if (weir_save_start(save, NULL) < 0)
		return fail();
	while (weir_save_wait(save, 100000000) == -ETIMEDOUT) {
		if (weir_save_progress(save, &p) < 0)
			return fail();
		fprintf(stderr, "%llu of %llu bytes\n",
			(unsigned long long)p.bytes,
			(unsigned long long)p.total);
	}
	if (weir_save_wait(save, 0) < 0 || weir_save_report(save, &rep) < 0)
		return fail();
	printf("saved %llu bytes, %llu of them with O_DIRECT\n",
	       (unsigned long long)rep.bytes, (unsigned long long)rep.direct);
	if (*rep.note)
		fprintf(stderr, "%s\n", rep.note);
	return 0;
}

int main(int argc, char **argv)
{
	struct weir_save_opts opts = WEIR_SAVE_OPTS_INIT;
	struct weir_weights *w = NULL;
	struct weir_save *save = NULL;
	struct weir *weir = NULL;
	struct weir_buft *huge;
	int r;

	if (argc != 3 && argc != 4)
		return fprintf(stderr, "usage: %s MODEL OUT [SHARD_BYTES]\n",
			       argv[0]),
		       2;
	if (argc == 4)
		opts.shard_bytes = strtoull(argv[3], NULL, 10);
	if (weir_open(NULL, &weir) < 0 ||
	    weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_load_all(weir, argv[1], huge, NULL, &w) < 0 ||
	    weir_save_new(weir, argv[2], &opts, &save) < 0)
		r = fail();
	else
		r = add_all(save, w);
	if (r >= 0)
		r = run(save);
	weir_save_free(save);
	weir_weights_free(w);
	weir_close(weir);
	return r < 0;
}
