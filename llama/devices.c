/* SPDX-License-Identifier: MIT */
/* Lists of devices, as users write them: "CPU:devices=2,apart=1,CPU1". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

/*
 * Return the comma after the device that begins at @s, or the end. A comma
 * before KEY=VALUE belongs to the parameters of the device.
 */
static const char *device_end(const char *s)
{
	const char *comma = s + strcspn(s, ",");

	while (*comma && comma[1 + strcspn(comma + 1, "=,:")] == '=')
		comma += 1 + strcspn(comma + 1, ",");
	return comma;
}

static bool has_device(struct weir_dev *const *devs, unsigned n,
		       const struct weir_dev *dev)
{
	for (unsigned i = 0; i < n; i++)
		if (devs[i] == dev)
			return true;
	return false;
}

static int add_device(struct weir *weir, const char *s, size_t len,
		      struct weir_dev **devs, unsigned *n)
{
	char *name = strndup(s, len);
	struct weir_dev *dev = NULL;
	int ret;

	if (!name)
		return llama_fail(-ENOMEM, "no memory for a name");
	ret = weir_dev_configure(weir, name, &dev);
	if (ret == 0 && has_device(devs, *n, dev))
		ret = llama_fail(-EINVAL, "device '%s' is in the list twice",
				 name);
	if (ret == 0)
		devs[(*n)++] = dev;
	free(name);
	return ret;
}

int llama_devices(struct weir *weir, const char *list,
		  struct weir_dev ***ret_devs, unsigned *ret_n)
{
	/* A device takes at least a character and a comma. */
	struct weir_dev **devs = calloc(strlen(list) / 2 + 1, sizeof(*devs));
	const char *end;
	unsigned n = 0;
	int ret;

	if (!devs)
		return llama_fail(-ENOMEM, "no memory for devices");
	do {
		end = device_end(list);
		ret = add_device(weir, list, (size_t)(end - list), devs, &n);
		list = end + 1;
	} while (ret == 0 && *end);
	if (ret < 0) {
		free(devs);
		return ret;
	}
	*ret_devs = devs;
	*ret_n = n;
	return 0;
}
