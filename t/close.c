/* SPDX-License-Identifier: MIT */
/* Roots that are closed immediately after a load. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "tap.h"

#define ROUNDS 400
#define BYTES (1u << 20)

static char path[] = "/var/tmp/weir-close-XXXXXX";

static int make_file(void)
{
	static const char header[] =
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[1048576],"
		"\"data_offsets\":[0,1048576]}}";
	static unsigned char data[BYTES];
	uint64_t len = sizeof(header) - 1;
	int fd = mkstemp(path);

	if (fd < 0)
		return -1;
	memset(data, 0x5a, sizeof(data));
	if (write(fd, &len, 8) != 8 || write(fd, header, len) != (ssize_t)len ||
	    write(fd, data, BYTES) != BYTES) {
		close(fd);
		return -1;
	}
	return close(fd);
}

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
		r = weir_load_all(root, path, buft, &w);
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
	if (make_file() < 0)
		bail("cannot write %s", path);
	for (int i = 0; i < ROUNDS && err >= 0; i++)
		err = load_and_close(false);
	is_int(err, 0, "a root may be closed just after a load has ended");
	for (int i = 0; i < ROUNDS && err >= 0; i++)
		err = load_and_close(true);
	is_int(err, 0, "weights may be freed after their root is closed");
	unlink(path);
	return done_testing();
}
