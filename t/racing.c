/* SPDX-License-Identifier: MIT */
#include "racing.h"

#include <pthread.h>

char said[8000];
static unsigned n_said;
const char *devices;
struct weir *weir;
struct weir_stream *a, *b;
struct weir_event *ev;
struct weir_tensor t, u;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(void *arg, const char *text)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	if (!strncmp(text, "race", 4) &&
	    strlen(said) + strlen(text) + 2 < sizeof(said)) {
		n_said++;
		strcat(strcat(said, text), "\n");
	}
	pthread_mutex_unlock(&lock);
}

void set_up(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_dev *cpu;

	said[0] = '\0';
	n_said = 0;
	o.log = keep;
	must(weir_open(&o, &weir));
	if (devices)
		must(weir_dev_configure(weir, devices, &cpu));
	a = new_stream(weir, "a");
	b = new_stream(weir, "b");
	ev = new_event(weir, 0);
	t = bytes(weir, 256);
	u = bytes(weir, 256);
	t.name = "t";
	u.name = "u";
}

void tear_down(void)
{
	must(weir_stream_sync(a, -1));
	must(weir_stream_sync(b, -1));
	weir_stream_free(a);
	weir_stream_free(b);
	weir_event_free(ev);
	weir_buf_free(t.buf);
	weir_buf_free(u.buf);
	weir_close(weir);
}

unsigned reports(unsigned n)
{
	unsigned has = 0;

	for (int ms = 0; ms < 1000; ms++) {
		pthread_mutex_lock(&lock);
		has = n_said;
		pthread_mutex_unlock(&lock);
		if (has >= n)
			break;
		usleep(1000);
	}
	return has;
}

void expect_no_race(const char *title)
{
	must(weir_stream_sync(a, -1));
	must(weir_stream_sync(b, -1));
	reports(0);
	is_str(said, "", "%s", title);
	tear_down();
}

void expect_race(const char *text, const char *title)
{
	char want[1100];

	snprintf(want, sizeof(want), "race: %s\n", text);
	is_int(reports(1), 1, "%s: there is one report", title);
	is_str(said, want, "%s: the report names both, the bytes and the wait",
	       title);
	tear_down();
}

void fill(struct weir_stream *s, size_t off, size_t n)
{
	must(weir_stream_fill(s, &t, off, n, 1));
}
