/* SPDX-License-Identifier: MIT */
/*
 * park MODEL...: several models take turns in the memory of one device, as
 * those of a server do. Each is loaded and parked; then each comes back once,
 * while all others are parked. A model that comes back is read again from its
 * files, so parked models need no memory; all addresses stay what they were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

static int load(struct weir *weir, const char *path, struct weir_weights **ret)
{
	struct weir_select_opts opts = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *memory;
	struct weir_dev *dev;
	int r = weir_dev_best(weir, &dev);

	opts.buf_flags = WEIR_BUF_PARKABLE;
	if (r == 0 && weir_dev_buft(dev, WEIR_MEM_DEVICE, &memory) < 0)
		r = weir_dev_buft(dev, WEIR_MEM_HUGE, &memory);
	return r < 0 ? r : weir_load_all(weir, path, memory, &opts, ret);
}

static int park(struct weir_weights *w)
{
	struct weir_park_opts opts = WEIR_PARK_OPTS_INIT;

	opts.flags = WEIR_PARK_CONSTANT;
	return weir_weights_park(w, &opts);
}

/* Work would be queued in streams that wait for @ready. */
static int use(struct weir_weights *w, struct weir_event *ready)
{
	struct weir_park_info info = { .size = sizeof(info) };
	int r = weir_weights_park_info(w, &info);

	if (r == 0)
		r = weir_weights_unpark(w, ready);
	if (r == 0)
		r = weir_event_wait(ready, -1);
	if (r == 0)
		printf("%llu bytes are back, %llu of them from copies\n",
		       (unsigned long long)info.released,
		       (unsigned long long)info.copied);
	return r;
}

static int take_turns(struct weir *weir, struct weir_weights **w,
		      char *const *path, int n)
{
	struct weir_event *ready;
	int r = weir_event_new(weir, 0, &ready);

	if (r < 0)
		return r;
	for (int i = 0; i < n && r == 0; i++) {
		r = load(weir, path[i], &w[i]);
		if (r == 0)
			r = park(w[i]);
	}
	for (int i = 0; i < n && r == 0; i++) {
		r = use(w[i], ready);
		if (r == 0)
			r = park(w[i]);
	}
	weir_event_free(ready);
	return r;
}

int main(int argc, char **argv)
{
	struct weir_weights **w = calloc((size_t)argc, sizeof(*w));
	struct weir *weir;
	int r = w ? weir_open(NULL, &weir) : -1;

	if (r == 0) {
		r = take_turns(weir, w, argv + 1, argc - 1);
		if (r < 0)
			fprintf(stderr, "%s\n", weir_error());
		for (int i = 0; i < argc; i++)
			weir_weights_free(w[i]);
		weir_close(weir);
	}
	free(w);
	return r ? 1 : 0;
}
