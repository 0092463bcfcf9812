/* SPDX-License-Identifier: MIT */
/* Saves from the memory of a device. */
#include <fcntl.h>
#include <sys/stat.h>

#include "files.h"
#include "gpu.h"

#define ROWS 3000
#define COLS 1500
#define BYTES ((size_t)ROWS * COLS)

static struct weir *root;

static struct weir_save *begin(const char *name)
{
	struct weir_save *s;

	must(weir_save_new(root, files_path(name), NULL, &s));
	return s;
}

static int finish(struct weir_save *s)
{
	int r = weir_save_start(s, NULL);

	if (r >= 0)
		r = weir_save_wait(s, -1);
	weir_save_free(s);
	return r;
}

static struct weir_buft *plain(void)
{
	struct weir_buft *buft;

	must(weir_dev_buft(cpu_of(root), WEIR_MEM_PLAIN, &buft));
	return buft;
}

/* A matrix of pattern 5 on the device. */
static struct weir_tensor matrix(void)
{
	const int64_t shape[] = { ROWS, COLS };
	struct weir_tensor flat = patterned(root, BYTES, 5), t;

	must(weir_tensor_init(&t, WEIR_DTYPE_I8, 2, shape));
	must(weir_tensor_place(&t, flat.buf, flat.offset));
	return t;
}

static void ways(void)
{
	struct weir_tensor t = matrix(), columns, rows, turned = t, all, halves;
	const int64_t half[] = { ROWS / 2, COLS / 2 };
	unsigned char *want = malloc(BYTES), *got = malloc(BYTES * 2);
	struct weir_save *s = begin("gpu.safetensors");
	struct weir_weights *w;
	unsigned long before;
	bool same = true;

	pattern(want, BYTES, 5);
	must(weir_tensor_view(&t, 1, 3, 1000, &columns));
	must(weir_tensor_view(&t, 0, 7, 900, &rows));
	/* The first rows, in the other order of the dimensions. */
	turned.shape[0] = COLS;
	turned.shape[1] = 2;
	turned.stride[0] = 1;
	turned.stride[1] = COLS;
	all = turned;
	all.shape[1] = ROWS;
	must(weir_tensor_init(&halves, WEIR_DTYPE_F16, 2, half));
	must(weir_tensor_place(&halves, t.buf, t.offset));
	must(weir_save_add(s, "whole", &t, 0));
	must(weir_save_add(s, "columns", &columns, 0));
	must(weir_save_add(s, "rows", &rows, 0));
	must(weir_save_add(s, "turned", &turned, 0));
	must(weir_save_add(s, "all", &all, 0));
	must(weir_save_add(s, "halves", &halves, WEIR_DTYPE_F32));
	before = fake.handle ? fake.calls("cuMemcpyDtoHAsync") : 0;
	is_int(finish(s), 0, "tensors of a device are saved");
	if (on_fake(1))
		ok(fake.calls("cuMemcpyDtoHAsync") - before < 100,
		   "rows that are near are copied together");
	must(weir_load_all(root, files_path("gpu.safetensors"), plain(), NULL,
			   &w));
	ok(!memcmp(weir_tensor_data(weir_weights_find(w, "whole")), want,
		   BYTES),
	   "a contiguous tensor of a device comes back");
	ok(!memcmp(weir_tensor_data(weir_weights_find(w, "rows")),
		   want + 7 * COLS, 900 * COLS),
	   "rows of it come back");
	memcpy(got, weir_tensor_data(weir_weights_find(w, "columns")),
	       ROWS * 1000);
	for (size_t i = 0; i < ROWS; i++)
		same &= !memcmp(got + i * 1000, want + i * COLS + 3, 1000);
	ok(same, "columns of it come back without gaps");
	memcpy(got, weir_tensor_data(weir_weights_find(w, "turned")), 2 * COLS);
	for (size_t i = 0; i < COLS; i++)
		same &= got[2 * i] == want[i] &&
			got[2 * i + 1] == want[COLS + i];
	memcpy(got, weir_tensor_data(weir_weights_find(w, "all")), BYTES);
	for (size_t i = 0; i < BYTES; i++)
		same &= got[i] == want[i % ROWS * COLS + i / ROWS];
	ok(same, "elements of it come back in the other order");
	weir_convert(WEIR_DTYPE_F32, got, WEIR_DTYPE_F16, want, BYTES / 4);
	ok(!memcmp(weir_tensor_data(weir_weights_find(w, "halves")), got,
		   BYTES),
	   "elements of a device are converted");
	weir_weights_free(w);
	weir_buf_free(t.buf);
	free(want);
	free(got);
}

#define SIDE 40
#define MANY_FROM 6 /* views, each a permutation of a part of a cube */

/* A view of a cube with sides of other lengths and orders for each @i. */
static struct weir_tensor view_of(const struct weir_tensor *cube, unsigned i)
{
	static const unsigned order[MANY_FROM][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 }
	};
	struct weir_tensor part = *cube, t;

	must(weir_tensor_view(cube, i % 3, 1, SIDE - 3, &part));
	must(weir_tensor_view(&part, (i + 1) % 3, 2, SIDE - 7, &part));
	t = part;
	for (unsigned k = 0; k < 3; k++) {
		t.shape[k] = part.shape[order[i][k]];
		t.stride[k] = part.stride[order[i][k]];
	}
	return t;
}

static bool same_models(const char *const name[2])
{
	struct weir_weights *w[2];
	bool same = true;

	for (unsigned k = 0; k < 2; k++)
		must(weir_load_all(root, files_path(name[k]), plain(), NULL,
				   &w[k]));
	for (size_t i = 0; i < weir_weights_count(w[0]); i++) {
		size_t bytes;

		must(weir_tensor_bytes(weir_weights_get(w[0], i), &bytes));
		same &= !memcmp(weir_tensor_data(weir_weights_get(w[0], i)),
				weir_tensor_data(weir_weights_get(w[1], i)),
				bytes);
	}
	weir_weights_free(w[0]);
	weir_weights_free(w[1]);
	return same;
}

/* A device's tensors in all orders are saved as those of the host. */
static void orders(unsigned most)
{
	const int64_t shape[] = { SIDE, SIDE, SIDE * 4 };
	struct weir_tensor cube[2],
		flat = patterned(root, SIDE * SIDE * SIDE * 8, 3);
	const char *const name[] = { "on-device.safetensors",
				     "on-host.safetensors" };
	unsigned long before = fake.handle ? fake.calls("cuMemcpyDtoHAsync")
					   : 0;
	unsigned char *data = malloc(SIDE * SIDE * SIDE * 8);
	struct weir_buf *host;

	pattern(data, SIDE * SIDE * SIDE * 8, 3);
	must(weir_buf_alloc(plain(), SIDE * SIDE * SIDE * 8, NULL, &host));
	memcpy(weir_buf_data(host), data, SIDE * SIDE * SIDE * 8);
	for (unsigned k = 0; k < 2; k++) {
		struct weir_save *s = begin(name[k]);

		must(weir_tensor_init(&cube[k], WEIR_DTYPE_F16, 3, shape));
		must(weir_tensor_place(&cube[k], k ? host : flat.buf,
				       k ? 0 : flat.offset));
		for (unsigned i = 0; i < 2 * MANY_FROM; i++) {
			struct weir_tensor t = view_of(&cube[k], i % MANY_FROM);
			char text[16];

			snprintf(text, sizeof(text), "t%u", i);
			must(weir_save_add(s, text, &t,
					   i < MANY_FROM ? 0 : WEIR_DTYPE_F32));
		}
		is_int(finish(s), 0, "%s: views in all orders are saved",
		       name[k]);
	}
	ok(same_models(name),
	   "views of a device are saved as those of the host");
	if (on_fake(1))
		ok(fake.calls("cuMemcpyDtoHAsync") - before < most,
		   "elements of a transposed tensor are copied together (%lu)",
		   fake.calls("cuMemcpyDtoHAsync") - before);
	free(data);
	weir_buf_free(host);
	weir_buf_free(flat.buf);
}

/* Copies to memory that is not page-locked take twice as long. */
static void to_locked_memory(void)
{
	struct weir_tensor t = matrix();
	struct weir_save *s = begin("locked.safetensors");
	struct fakecuda_counts before, after;

	must(weir_save_add(s, "whole", &t, 0));
	fake.counts(&before);
	must(finish(s));
	fake.counts(&after);
	is_int((long long)(after.to_host - before.to_host), BYTES,
	       "each byte of a device is copied once");
	is_int((long long)(after.pageable - before.pageable), 0,
	       "bytes of a device are copied to page-locked memory");
	weir_buf_free(t.buf);
}

/* The @nth copy fails, or the device is lost in its middle. */
static void failing(int mode, unsigned nth, const char *what)
{
	struct weir_tensor t = matrix();
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_save *s;
	struct stat st;
	unsigned before;
	int r;

	must(weir_io_info(root, &info)); /* the engine has descriptors */
	files_text("kept.safetensors", "kept");
	s = begin("kept.safetensors");
	must(weir_save_add(s, "whole", &t, 0));
	before = files_open();
	fake.arm("cuMemcpyDtoHAsync", nth, mode, 719);
	r = finish(s);
	fake.disarm();
	ok(r < 0, "%s: the save fails", what);
	has_str(weir_error(), "tensor 'whole'", "%s: the tensor is named",
		what);
	ok(stat(files_path("kept.safetensors"), &st) == 0 && st.st_size == 4,
	   "%s: the earlier file is whole", what);
	is_int(files_open(), before, "%s: no descriptor is left open", what);
	weir_buf_free(t.buf);
}

/* A copy never ends, and the root is closed. */
static void hanging(void)
{
	const char *build = getenv("builddir");
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_tensor t;
	struct weir_save *s;
	struct stat st;
	char path[512];

	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	o.module_path = path;
	o.close_timeout = 200 * MS;
	must(weir_open(&o, &root));
	t = matrix();
	files_text("stuck.safetensors", "kept");
	s = begin("stuck.safetensors");
	must(weir_save_add(s, "whole", &t, 0));
	fake.arm("cuMemcpyDtoHAsync", 1, FAKECUDA_HANG, 0);
	must(weir_save_start(s, NULL));
	while (!fake.struck())
		usleep(1000);
	weir_close(root);
	is_err(weir_save_wait(s, 0), -ESHUTDOWN, "root was closed",
	       "a save whose copy hangs ends when the root is closed");
	ok(stat(files_path("stuck.safetensors"), &st) == 0 && st.st_size == 4,
	   "the file that it would have replaced is whole");
	weir_save_free(s);
	fake.disarm();
	/* The copy goes on, and finds all that it uses. */
	fake.release();
	usleep(100000);
}

int main(void)
{
	open_driver();
	plan(0);
	files_begin();
	root = open_cuda();
	ways();
	orders(100);
	weir_close(root);
	cuda_chunk = 65536; /* chunks begin and end anywhere in a tensor */
	root = open_cuda();
	orders(300);
	if (on_fake(12)) {
		to_locked_memory();
		failing(FAKECUDA_ONCE, 1, "a copy fails");
		weir_close(root);
		hanging();
		root = open_cuda();
		failing(FAKECUDA_LOST, 2, "a device is lost");
	}
	weir_close(root);
	return done_testing();
}
