/* SPDX-License-Identifier: MIT */
/* Sharing weights while allocations fail. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "kind.h"
#include "nomem.h"
#include "tap.h"

static struct weir *root;
static struct weir_weights *weights;
static int shared;

static int share(void)
{
	int fd, r = weir_weights_share(weights, &fd);

	if (r >= 0)
		close(fd);
	return r;
}

static int open_shared(void)
{
	struct weir_weights *w;
	int r = weir_weights_open(root, shared, NULL, &w);

	if (r >= 0)
		weir_weights_free(w);
	return r;
}

static int publish(void)
{
	struct weir_publication *p;
	int r = weir_publish(root, files_path("socket"), shared, 0, &p);

	if (r >= 0)
		weir_publication_free(p);
	return r;
}

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

int main(void)
{
	struct weir_select_opts opts = WEIR_SELECT_OPTS_INIT;
	int before;

	plan(3 * 4 + 1);
	files_begin();
	files_st("m.safetensors",
		 "{\"a\":{\"dtype\":\"U8\",\"shape\":[100],"
		 "\"data_offsets\":[0,100]}}",
		 100);
	opts.buf_flags = WEIR_BUF_SHARED;
	if (weir_open(NULL, &root) < 0 ||
	    weir_load_all(root, files_path("m.safetensors"),
			  kind_of(root, "CPU", WEIR_MEM_PLAIN), &opts,
			  &weights) < 0 ||
	    weir_weights_share(weights, &shared) < 0)
		bail("%s", weir_error());
	before = descriptors();
	nomem_each(share, 3, "sharing weights");
	nomem_each(open_shared, 5, "opening shared weights");
	nomem_each(publish, 2, "publishing a descriptor");
	is_int(descriptors() - before, 0,
	       "calls that fail for want of memory leave no descriptor open");
	close(shared);
	weir_weights_free(weights);
	weir_close(root);
	return done_testing();
}
