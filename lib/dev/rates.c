/* SPDX-License-Identifier: MIT */
/* The rates of devices: measured by the backend, or common for the type. */
#include <math.h>

#include "core/error.h"
#include "core/root.h"
#include "dev/dev.h"

/* Common rates, for devices that are not measured. */
static const struct weir_rates defaults[] = {
	[WEIR_DEV_CPU] = { sizeof(defaults[0]), 1e11, 3e10, 1e10 },
	[WEIR_DEV_GPU] = { sizeof(defaults[0]), 2e13, 1e12, 2e10 },
	[WEIR_DEV_IGPU] = { sizeof(defaults[0]), 2e12, 6e10, 2e10 },
	[WEIR_DEV_ACCEL] = { sizeof(defaults[0]), 1e12, 3e10, 1e10 },
};

static bool is_rate(double rate)
{
	return isfinite(rate) && rate > 0;
}

bool weir__rates_are_sound(const struct weir_rates *rates)
{
	return is_rate(rates->flops) && is_rate(rates->bytes) &&
	       is_rate(rates->link);
}

/* If the measurement fails, the defaults. */
static struct weir_rates rates_measure(struct weir_dev *dev)
{
	const struct weir_backend_compute_ops *compute = dev->backend->compute;
	struct weir_rates rates = defaults[dev->desc.type];
	struct weir__error_saved saved;
	int r = 0;

	weir__error_save(&saved);
	if (compute && compute->rates)
		r = weir__dev_result(dev, "compute->rates",
				     compute->rates(dev, &rates));
	if (r == 0 && !weir__rates_are_sound(&rates))
		r = weir__fail(-EIO, "a rate is not positive");
	if (r < 0) {
		weir__log(dev->weir, "%s has common rates, not its own: %s",
			  dev->desc.name, weir__error_text());
		rates = defaults[dev->desc.type];
	}
	weir__error_restore(&saved);
	return rates;
}

/* Measured without the lock: the log sink may call weir. */
struct weir_rates weir__dev_rates(struct weir_dev *dev)
{
	struct weir_rates rates;
	bool rated;

	pthread_mutex_lock(&dev->lock);
	rated = dev->rated;
	rates = dev->rates;
	pthread_mutex_unlock(&dev->lock);
	if (rated)
		return rates;
	rates = rates_measure(dev);
	pthread_mutex_lock(&dev->lock);
	if (!dev->rated)
		dev->rates = rates;
	dev->rated = true;
	rates = dev->rates;
	pthread_mutex_unlock(&dev->lock);
	return rates;
}
