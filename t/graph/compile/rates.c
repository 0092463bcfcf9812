/* SPDX-License-Identifier: MIT */
/* The rates of a device: what its backend says, or what is common. */
#include <errno.h>

#include "dev/dev.h"
#include "gdev.h"
#include "streams.h"

/* What the library takes if the backend says this. */
static struct weir_rates rates_of(double rate, int with)
{
	struct weir_rates rates;
	struct weir_dev *dev;
	struct weir *weir = gdev_open(&dev);

	gdev_reset();
	gdev.rate = rate;
	gdev.rates_with = with;
	must(weir__dev_use(dev));
	rates = weir__dev_rates(dev);
	gdev.rate = 1;
	gdev.rates_with = 0;
	if (weir__dev_rates(dev).flops != rates.flops)
		bail("the rates have changed");
	weir_close(weir);
	return rates;
}

static bool is_common(struct weir_rates rates)
{
	return rates.flops == 2e12 && rates.bytes == 6e10 && rates.link == 2e10;
}

int main(void)
{
	struct weir_rates rates = rates_of(5e9, 0);

	plan(5);
	ok(rates.flops == 5e9 && rates.bytes == 5e9 && rates.link == 5e9,
	   "a device has the rates that its backend says");
	is_int(gdev.rates, 1, "a backend is asked once for each device");
	ok(is_common(rates_of(0, 0)),
	   "a device whose backend says nothing has the rates of its type");
	ok(is_common(rates_of(5e9, -EIO)),
	   "a device that cannot be measured has the rates of its type");
	ok(is_common(rates_of(-1, 0)),
	   "a device with negative rates has those of its type");
	return 0;
}
