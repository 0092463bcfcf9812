/* SPDX-License-Identifier: MIT */
#include "paused.h"

#include <sys/syscall.h>

char path[64];
const char *device;
struct weir *root;
_Atomic int64_t paused_from = INT64_MAX;

static char dir[] = "/var/tmp/weir-paused-XXXXXX";

const struct sample_tensor few[FEW] = {
	{ "a", "U8", 1u << 20, 1 }, { "none", "F32", 0, 4 },
	{ "b", "U8", 1u << 20, 1 }, { "c", "U8", 1u << 20, 1 },
	{ "d", "U8", 1u << 20, 1 }, { "nil", "F32", 0, 4 },
};

/* The library calls this one too. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	while (n >= 65536 && off >= atomic_load(&paused_from))
		usleep(1000);
	return syscall(SYS_pread64, fd, buf, n, off);
}

void paused_begin(unsigned checks)
{
	device = getenv("WEIR_T_DEVICE");
	plan(checks);
	if (!mkdtemp(dir))
		skip_all("%s cannot be made", dir);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
}

int paused_end(void)
{
	unlink(path);
	rmdir(dir);
	return done_testing();
}

void must(int r)
{
	if (r < 0)
		bail("%s", weir_error());
}

void open_root(uint32_t io, int64_t close_timeout)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.io = io;
	o.reactors = 2;
	o.chunk = 1u << 20;
	o.close_timeout = close_timeout;
	must(weir_open(&o, &root));
}

struct weir_buft *memory(void)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	must(weir_dev_find(root, device ? device : "CPU", &dev));
	must(weir_dev_buft(dev, device ? WEIR_MEM_DEVICE : WEIR_MEM_HUGE,
			   &buft));
	return buft;
}

struct weir_plan *plan_for(const char *glob, enum weir_way way)
{
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_model *m;
	struct weir_plan *p;

	how.way = way;
	must(weir_model_open(root, path, NULL, &m));
	must(weir_plan_new(m, &p));
	must(weir_plan_add(p, glob, memory(), &how));
	weir_model_close(m);
	return p;
}

struct weir_load *start(struct weir_plan *p, struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l;

	o.into = into;
	must(weir_load_start(p, &o, &l));
	weir_plan_free(p);
	return l;
}

struct weir_load *start_all(void)
{
	return start(plan_for(NULL, WEIR_WAY_DIRECT), NULL);
}

struct weir_load *start_paused(const char *glob)
{
	struct weir_plan *p = plan_for(glob, WEIR_WAY_DIRECT);

	atomic_store(&paused_from, 0);
	return start(p, NULL);
}

int64_t offset_of(const char *name)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model *m;
	size_t i;

	must(weir_model_open(root, path, NULL, &m));
	must(weir_model_find(m, name, &i));
	must(weir_model_tensor(m, i, &e));
	weir_model_close(m);
	return (int64_t)e.offset;
}

const char *arrivals(struct weir_load *l, size_t n)
{
	static char text[256];
	struct weir_weights *w;
	char *at = text;
	size_t i = 0;

	*at = '\0';
	must(weir_load_weights(l, &w));
	while (n--) {
		int r = weir_load_next(l, 20 * SEC, &i);

		if (r <= 0)
			break;
		at += sprintf(at, "%s%s ", weir_weights_get(w, i)->name,
			      r == WEIR_NEXT_FAILED ? "!" : "");
	}
	weir_weights_free(w);
	return text;
}

unsigned count(const char *s, char c)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == c;
	return n;
}
