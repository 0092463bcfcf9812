/* SPDX-License-Identifier: MIT */
#include "core/error.h"
#include "dev/dev.h"

int weir_dev_set_threads(struct weir_dev *dev,
			 const struct weir_threads *threads)
{
	const struct weir_backend_compute_ops *compute = dev->backend->compute;
	struct weir_threads own;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(dev->weir);
	if (r >= 0)
		r = weir__opts_in(&own, sizeof(own), threads);
	if (r < 0)
		return r;
	if (own.reserved)
		return weir__fail(-EINVAL, "reserved is %u, not 0",
				  own.reserved);
	if (!compute || !compute->set_threads)
		return weir__fail(-EOPNOTSUPP,
				  "%s: does not compute on threads of the host",
				  dev->desc.name);
	r = weir__dev_use(dev);
	if (r < 0)
		return r;
	return weir__dev_result(dev, "compute->set_threads",
				compute->set_threads(dev, &own));
}
