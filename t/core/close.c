/* SPDX-License-Identifier: MIT */
/* Roots that are closed immediately after a load. */
#include <weir.h>

#include "files.h"
#include "tap.h"

#define ROUNDS 400

static int load_and_close(bool weights_last)
{
	struct weir_weights *w = NULL;
	struct weir_buft *buft;
	struct weir_dev *cpu;
	struct weir *root;
	int r = weir_open(NULL, &root);

	if (r < 0)
		return r;
	r = weir_dev_find(root, "CPU", &cpu);
	if (r >= 0)
		r = weir_dev_buft(cpu, WEIR_MEM_PLAIN, &buft);
	if (r >= 0)
		r = weir_load_all(root, files_path("m"), buft, NULL, &w);
	if (!weights_last)
		weir_weights_free(w);
	weir_close(root);
	if (weights_last)
		weir_weights_free(w);
	return r;
}

int main(void)
{
	int err = 0;

	plan(2);
	files_begin();
	files_st("m", "{" ENTRY("a", "U8", "[1048576]", "[0,1048576]") "}",
		 1 << 20);
	for (int i = 0; i < ROUNDS && err >= 0; i++)
		err = load_and_close(false);
	is_int(err, 0, "a root may be closed just after a load has ended");
	for (int i = 0; i < ROUNDS && err >= 0; i++)
		err = load_and_close(true);
	is_int(err, 0, "weights may be freed after their root is closed");
	return done_testing();
}
