/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <weir.h>

int main(int argc, char **argv)
{
	struct weir *weir = NULL;
	struct weir_buft *huge;
	struct weir_weights *w;

	if (argc != 2)
		return fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
	if (weir_open(NULL, &weir) < 0 ||
	    weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_load_all(weir, argv[1], huge, NULL, &w) < 0) {
		fprintf(stderr, "%s\n", weir_error());
		weir_close(weir);
		return 1;
	}
	for (size_t i = 0; i < weir_weights_count(w); i++)
		puts(weir_weights_get(w, i)->name);
	weir_weights_free(w);
	weir_close(weir);
}
