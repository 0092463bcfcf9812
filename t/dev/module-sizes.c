/* SPDX-License-Identifier: MIT */
/*
 * Modules that were built with other sizes of the tables than the library's: an
 * older one has fewer members, a newer one more. t/dev/module.c has those whose
 * sizes are refused.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "testmod.h"
#include "tap.h"

/* A root with one module: the test module, under the name @as. */
static struct weir *open_as(const char *as)
{
	struct weir *weir = open_with_modules("/nonexistent", 0);
	const char *path = module_copy("test", modules_dir(), as);

	if (weir_module_load(weir, path) < 0)
		bail("%s", weir_error());
	unlink(path);
	return weir;
}

static uint64_t room_for_4_bytes(struct weir *weir)
{
	struct weir_tensor t;
	struct weir_dev *dev;
	struct weir_buft *buft;

	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, (int64_t[]){ 4 }) < 0 ||
	    weir_dev_find(weir, "TEST0", &dev) < 0 ||
	    weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft) < 0)
		bail("%s", weir_error());
	return weir_buft_alloc_size(buft, &t);
}

static bool moves_bytes(struct weir *weir)
{
	struct weir_dev *dev;
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir_tensor t;
	char back[3] = "";

	if (weir_dev_find(weir, "TEST1", &dev) < 0 ||
	    weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft) < 0 ||
	    weir_buf_alloc(buft, 512, NULL, &buf) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_U8, 1, (int64_t[]){ 3 }) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0)
		bail("%s", weir_error());
	if (weir_tensor_set(&t, 0, "abc", 3) < 0 ||
	    weir_tensor_get(&t, 0, back, 3) < 0)
		bail("%s", weir_error());
	weir_buf_free(buf);
	return !memcmp(back, "abc", 3);
}

static void older_module(void)
{
	struct weir *weir = open_as("older");
	struct weir_dev_info info = { .size = sizeof(info) };

	is_int(weir_dev_count(weir), 3,
	       "a module with shorter tables is loaded");
	ok(moves_bytes(weir), "a module with shorter tables moves bytes");
	is_int((int64_t)room_for_4_bytes(weir), 4,
	       "a member past the end of a shorter table is not called");
	weir_dev_info(weir_dev_get(weir, 1), &info);
	ok(!(info.caps & WEIR_CAP_COMPUTE),
	   "a module that does not know of compute is loaded without it");
	weir_close(weir);
}

static void newer_module(void)
{
	struct weir *weir = open_as("newer");

	is_int(weir_dev_count(weir), 3,
	       "a module with longer tables and descriptions is loaded");
	ok(moves_bytes(weir), "a module with longer tables moves bytes");
	is_int((int64_t)room_for_4_bytes(weir), 512,
	       "the known members of a longer table are called");
	weir_close(weir);
}

int main(void)
{
	plan(4 + 3);
	older_module();
	newer_module();
	return done_testing();
}
