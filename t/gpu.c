/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

/* Without this ThreadSanitizer sleeps for a second at the end of each child. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "atexit_sleep_ms=0";
}

struct fake_calls fake;
char cuda_log[8192];
uint64_t cuda_chunk;

void *fake_symbol(const char *name)
{
	void *symbol = dlsym(fake.handle, name);

	if (!symbol)
		bail("the stand-in has no %s", name);
	return symbol;
}

void enter_context(void)
{
	int (*retain)(void **ret_ctx, int dev);
	int (*push)(void *ctx);
	void *ctx;

	*(void **)&retain = fake_symbol("cuDevicePrimaryCtxRetain");
	*(void **)&push = fake_symbol("cuCtxPushCurrent_v2");
	if (retain(&ctx, 0) || push(ctx))
		bail("no context");
}

void leave_context(void)
{
	int (*pop)(void **ret_ctx);
	int (*release)(int dev);
	void *ctx;

	*(void **)&pop = fake_symbol("cuCtxPopCurrent_v2");
	*(void **)&release = fake_symbol("cuDevicePrimaryCtxRelease_v2");
	pop(&ctx);
	release(0);
}

static void *open_library(const char *name)
{
	const char *dir = getenv("WEIR_T_FAKECUDA");
	char path[512];
	void *handle;

	snprintf(path, sizeof(path), "%s/%s", dir ? dir : ".", name);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		skip_all("no stand-in: %s", dlerror());
	return handle;
}

void open_fake_driver(void)
{
	const char *dir = getenv("WEIR_T_FAKECUDA");

	if (dir && !*dir)
		skip_all("needs the stand-in for the driver");
	fake.handle = open_library("libcuda.so.1");
	*(void **)&fake.arm = fake_symbol("fakecuda_arm");
	*(void **)&fake.disarm = fake_symbol("fakecuda_disarm");
	*(void **)&fake.struck = fake_symbol("fakecuda_struck");
	*(void **)&fake.release = fake_symbol("fakecuda_release");
	*(void **)&fake.set = fake_symbol("fakecuda_set");
	*(void **)&fake.calls = fake_symbol("fakecuda_calls");
	*(void **)&fake.counts = fake_symbol("fakecuda_counts");
	*(void **)&fake.misuse = fake_symbol("fakecuda_misuse");
	*(void **)&fake.finding = fake_symbol("fakecuda_finding");
}

void open_fake(void)
{
	open_fake_driver();
	/* Found by its name; the machine may have NVIDIA's own. */
	fake.cublaslt = open_library("libcublasLt.so.13");
}

/* The calls of the stand-in on a real device: no effect, and counts of 0. */
static int no_arm(const char *fn, unsigned nth, int mode, int code)
{
	(void)fn, (void)nth, (void)mode, (void)code;
	return 0;
}

static int no_set(const char *option, const char *value)
{
	(void)option, (void)value;
	return 0;
}

static unsigned long no_calls(const char *fn)
{
	(void)fn;
	return 0;
}

static void nothing(void)
{
}

/* Use the machine's own driver; skip the test if it has no device. */
static void find_device(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*init)(unsigned), (*count)(int *), n = 0;

	if (!driver)
		skip_all("no CUDA driver: %s", dlerror());
	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&count = dlsym(driver, "cuDeviceGetCount");
	if (!init || init(0) || !count || count(&n) || !n)
		skip_all("the CUDA driver has no device");
	fake.arm = no_arm;
	fake.set = no_set;
	fake.calls = no_calls;
	fake.disarm = nothing;
	fake.release = nothing;
}

void open_driver(void)
{
	const char *dir = getenv("WEIR_T_FAKECUDA");

	if (dir && !*dir)
		find_device();
	else
		open_fake();
}

bool on_fake(unsigned n)
{
	if (!fake.handle)
		skip(n, "needs the stand-in");
	return fake.handle;
}

void keep_log(void *arg, const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	size_t at;

	(void)arg;
	pthread_mutex_lock(&lock);
	at = strlen(cuda_log);
	snprintf(cuda_log + at, sizeof(cuda_log) - at, "%s\n", text);
	/* t/races/races-others.sh looks for reports there. */
	if (!strncmp(text, "race: ", 6))
		fprintf(stderr, "%s\n", text);
	pthread_mutex_unlock(&lock);
}

struct weir *open_cuda_by(uint32_t io)
{
	const char *build = getenv("builddir");
	struct weir_opts o = WEIR_OPTS_INIT;
	char path[512];
	struct weir *weir;

	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	o.module_path = path;
	o.io = io;
	o.log = keep_log;
	o.close_timeout = 5 * SEC;
	o.chunk = cuda_chunk;
	o.staging = 4 * cuda_chunk;
	cuda_log[0] = '\0';
	must(weir_open(&o, &weir));
	return weir;
}

struct weir *open_cuda(void)
{
	return open_cuda_by(0);
}

struct weir_dev *gpu(struct weir *weir)
{
	struct weir_dev *dev;

	if (weir_dev_find(weir, "CUDA0", &dev) < 0)
		bail("%s\n%s", weir_error(), cuda_log);
	return dev;
}

void need_compute(struct weir_dev *dev)
{
	struct weir_dev_info info = { .size = sizeof(info) };

	must(weir_dev_info(dev, &info));
	if (!(info.caps & WEIR_CAP_COMPUTE))
		skip_all(
			"CUDA0 does not compute: there was no nvcc, or the GPU is too old");
}

static bool computes(const char *arg)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir *weir;

	(void)arg;
	open_fake_driver();
	weir = open_cuda();
	must(weir_dev_info(gpu(weir), &info));
	weir_close(weir);
	return info.caps & WEIR_CAP_COMPUTE;
}

void need_compute_apart(void)
{
	const char *dir = getenv("WEIR_T_FAKECUDA");

	if (dir && !*dir)
		skip_all("needs the stand-in for the driver");
	if (!in_child(computes, NULL))
		skip_all("CUDA0 does not compute: there was no nvcc");
}

bool in_child(bool (*fn)(const char *arg), const char *arg)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(freopen("/dev/null", "w", stdout) && fn(arg) ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

struct weir_stream *gpu_stream(struct weir *weir, const char *name,
			       uint32_t flags)
{
	struct weir_stream_opts o = WEIR_STREAM_OPTS_INIT;
	struct weir_stream *s;

	o.name = name;
	o.flags = flags;
	must(weir_stream_new(gpu(weir), &o, &s));
	return s;
}

struct weir_buft *gpu_memory(struct weir *weir, enum weir_mem kind)
{
	struct weir_buft *buft;

	must(weir_dev_buft(gpu(weir), kind, &buft));
	return buft;
}

struct weir_tensor on_gpu(struct weir *weir, size_t n)
{
	int64_t shape = (int64_t)n;
	struct weir_tensor t;
	struct weir_buf *buf;

	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), n, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	return t;
}

unsigned long objects_left(void)
{
	struct fakecuda_counts c;
	unsigned long live = 0;

	for (int tries = 0; tries < 6000; tries++) {
		live = 0;
		fake.counts(&c);
		for (int i = 0; i < FAKECUDA_THINGS; i++)
			live += c.live[i];
		if (!live)
			break;
		usleep(10000);
	}
	for (int i = 0; i < FAKECUDA_THINGS; i++)
		if (c.live[i])
			diag("%lu of thing %d are left", c.live[i], i);
	return live;
}

void all_given_back(const char *when)
{
	struct fakecuda_counts c;

	if (!on_fake(2))
		return;
	is_int(objects_left(), 0, "%s nothing that the driver made is left",
	       when);
	fake.counts(&c);
	if (!is_int(c.misuse + c.findings, 0,
		    "%s no call has misused the driver, and no kernel was wrong",
		    when))
		diag("%s; %s", fake.misuse(), fake.finding());
}

struct weir_tensor patterned(struct weir *weir, size_t n, unsigned seed)
{
	struct weir_tensor t = on_gpu(weir, n);
	unsigned char *p = malloc(n);

	pattern(p, n, seed);
	must(weir_tensor_set(&t, 0, p, n));
	free(p);
	return t;
}

bool holds_pattern(const struct weir_tensor *t, size_t n, unsigned seed)
{
	unsigned char *p = malloc(n);
	bool same;

	must(weir_tensor_get(t, 0, p, n));
	same = is_pattern(p, n, seed);
	free(p);
	return same;
}

bool file_has(struct weir *weir, struct weir_file *file, size_t n,
	      unsigned seed)
{
	struct weir_tensor t = bytes(weir, n);
	struct weir_stream *s;
	bool same;

	must(weir_stream_new(cpu_of(weir), NULL, &s));
	must(weir_stream_read(s, file, 0, &t, 0, n));
	must(weir_stream_sync(s, -1));
	same = is_pattern(weir_tensor_data(&t), n, seed);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	return same;
}
