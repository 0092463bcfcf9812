/* SPDX-License-Identifier: MIT */
/*
 * Which cuBLASLt is used: libcublasLt.so.13 if it is complete, else .so.12, or
 * none; and after fork(2). The libraries are copies of the stand-in, some
 * with another name of their own or without a function. Each case is in a
 * process of its own, since a library stays open.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/product_runs.h"

#define COPY_13 "./cuda-cublaslt-library.13"
#define COPY_12 "./cuda-cublaslt-library.12"
#define NAME_13 "libcublasLt.so.13"
#define NAME_12 "libcublasLt.so.12"
#define FUNCTION "cublasLtMatmul"
#define FOLDER "cuda-cublaslt-library.d"
#define STARTED "T_CUBLASLT_LIBRARY"
#define NO_FUNCTION "cublasLtMatmux"

/* Objects of a library; NULL: it is not open. */
static unsigned long (*live_13)(void), (*live_12)(void);

/* Replace the text @was, up to its NUL, by @is, which is as long. */
static void replace(unsigned char *bytes, size_t n, const char *was,
		    const char *is)
{
	const size_t length = strlen(was) + 1;
	unsigned found = 0;

	for (size_t i = 0; i + length <= n; i++)
		if (!memcmp(bytes + i, was, length)) {
			memcpy(bytes + i, is, length);
			found++;
		}
	if (!found)
		bail("the stand-in has no '%s'", was);
}

/* A copy of the stand-in at @path that is called @name, without @lacks. */
static void copy_make(const char *path, const char *name, const char *lacks)
{
	static unsigned char bytes[16 << 20];
	const char *dir = getenv("WEIR_T_FAKECUDA");
	char from[512];
	size_t n;
	FILE *f;

	snprintf(from, sizeof(from), "%s/" NAME_13, dir ? dir : ".");
	f = fopen(from, "r");
	if (!f)
		bail("%s cannot be read", from);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	if (strcmp(name, NAME_13) != 0)
		replace(bytes, n, NAME_13, name);
	if (lacks)
		replace(bytes, n, lacks, NO_FUNCTION);
	f = fopen(path, "w");
	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		bail("%s cannot be written", path);
}

/* Open it: the module then finds it by the name that it has. */
static void copy_open(const char *path, const char *name, const char *lacks,
		      unsigned long (**ret_live)(void))
{
	void *handle;

	copy_make(path, name, lacks);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	unlink(path);
	if (!handle)
		bail("%s", dlerror());
	*(void **)ret_live = dlsym(handle, "fakecublaslt_live");
}

/* They find the driver when they are opened. */
static void open_13(void)
{
	copy_open(COPY_13, NAME_13, NULL, &live_13);
	fake.set("CUBLASLT", "130002");
}

static void open_12(void)
{
	copy_open(COPY_12, NAME_12, NULL, &live_12);
	fake.set("CUBLASLT", "120801");
}

static void open_13_that_lacks(void)
{
	copy_open(COPY_13, NAME_13, FUNCTION, &live_13);
}

static void driver(const char *version)
{
	setenv("FAKECUDA_VERSION", version, 1);
	open_fake_driver();
}

/*
 * True if the product is right, and is computed by the library with @uses
 * objects, or by none, NULL, for the reason @says.
 */
static bool computes(unsigned long (*uses)(void), const char *says)
{
	unsigned long (*other)(void) = uses == live_13 ? live_12 : live_13;
	bool right;

	begin("CUDA0");
	right = run_once() == 0 && is_right() && strstr(lane().library, says) &&
		lane().by_library == (uses ? 1 : 0) && (!uses || uses()) &&
		(!other || !other());
	if (!right)
		fprintf(stderr, "# '%s', not '%s'; %s\n", lane().library, says,
			weir_error());
	end();
	return right && !*fake.misuse();
}

static bool there_is_none(const char *arg)
{
	(void)arg;
	driver("13000");
	return computes(NULL, NAME_13 ": ");
}

static bool there_is_12(const char *arg)
{
	(void)arg;
	driver("13000");
	open_12();
	return computes(live_12, "cuBLASLt 12.8.1");
}

static bool there_are_both(const char *arg)
{
	(void)arg;
	driver("13000");
	open_12();
	open_13();
	return computes(live_13, "cuBLASLt 13.0.2");
}

static bool a_function_is_missing(const char *arg)
{
	(void)arg;
	driver("13000");
	open_13_that_lacks();
	return computes(NULL, NAME_13 " has no " FUNCTION);
}

static bool a_function_is_missing_in_one(const char *arg)
{
	(void)arg;
	driver("13000");
	open_12();
	open_13_that_lacks();
	return computes(live_12, "cuBLASLt 12.8.1");
}

static bool driver_12_with_13(const char *arg)
{
	(void)arg;
	driver("12080");
	open_13();
	return computes(NULL, NAME_12 ": ");
}

static bool driver_12_with_both(const char *arg)
{
	(void)arg;
	driver("12080");
	open_13();
	open_12();
	return computes(live_12, "cuBLASLt 12.8.1");
}

static bool driver_11(const char *arg)
{
	(void)arg;
	driver("11080");
	open_13();
	open_12();
	return computes(NULL, "the driver (CUDA 11.8) is older than 12.0");
}

/* The calls of the library that a child of fork(2) may not make. */
static unsigned long calls_made(void)
{
	static const char *const name[] = { "cublasLtCreate", "cublasLtDestroy",
					    "cublasLtMatmul",
					    "cublasLtMatmulAlgoGetHeuristic" };
	unsigned long n = 0;

	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		n += fake.calls(name[i]);
	return n;
}

/* In the child: all that it has of its parent, and a root of its own. */
static bool child_is_refused(void)
{
	unsigned long before = calls_made();
	struct weir_dev *dev;
	bool refused = weir_run_start(p.run) == -EPERM;

	end();
	p.weir = open_cuda();
	refused = refused && weir_dev_find(p.weir, "CUDA0", &dev) == -ENODEV;
	weir_close(p.weir);
	return refused && calls_made() == before;
}

static bool forks(const char *arg)
{
	int status = -1;
	bool right;
	pid_t pid;

	(void)arg;
	driver("13000");
	open_13();
	begin("CUDA0");
	right = run_once() == 0 && is_right();
	pid = fork();
	if (!pid)
		_exit(child_is_refused() ? 0 : 1);
	right = pid > 0 && waitpid(pid, &status, 0) == pid && !status && right;
	right = right && run_once() == 0 && is_right() && live_13();
	end();
	return right && !live_13() && !*fake.misuse();
}

/*
 * The machine may have NVIDIA's own library. A file that is found first, and is
 * not a library, keeps the loader from it: this process starts again with such
 * files. Returns when it has.
 */
static void start_without_libraries(char **argv)
{
	const char *path = getenv("LD_LIBRARY_PATH");
	char here[400], all[4096];

	if (getenv(STARTED))
		return;
	if (mkdir(FOLDER, 0777) < 0 && errno != EEXIST)
		bail("%s cannot be made", FOLDER);
	fclose(fopen(FOLDER "/" NAME_13, "w"));
	fclose(fopen(FOLDER "/" NAME_12, "w"));
	if (!getcwd(here, sizeof(here)))
		bail("getcwd");
	snprintf(all, sizeof(all), "%s/" FOLDER ":%s", here, path ? path : "");
	setenv("LD_LIBRARY_PATH", all, 1);
	setenv(STARTED, "1", 1);
	execv("/proc/self/exe", argv);
	bail("this test cannot be started again");
}

static void folder_remove(void)
{
	unlink(FOLDER "/" NAME_13);
	unlink(FOLDER "/" NAME_12);
	rmdir(FOLDER);
}

int main(int argc, char **argv)
{
	static const struct {
		bool (*holds)(const char *arg);
		const char *title;
	} cases[] = {
		{ there_is_none, "if no library can be opened, tiles compute" },
		{ there_is_12, "libcublasLt.so.12 alone is used" },
		{ there_are_both, "of both, libcublasLt.so.13 is used" },
		{ a_function_is_missing,
		  "without a function it is not used: the function is named" },
		{ a_function_is_missing_in_one,
		  "then libcublasLt.so.12 is used if it is there" },
		{ driver_12_with_13,
		  "a driver of CUDA 12.8 cannot use libcublasLt.so.13" },
		{ driver_12_with_both,
		  "a driver of CUDA 12.8 uses libcublasLt.so.12" },
		{ driver_11, "a driver of CUDA 11.8 uses neither" },
		{ forks,
		  "a child of fork(2) makes no call of the library, and the parent's runs go on" },
	};

	(void)argc;
	need_compute_apart();
	start_without_libraries(argv);
	plan(sizeof(cases) / sizeof(*cases));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ok(in_child(cases[i].holds, NULL), "%s", cases[i].title);
	folder_remove();
	return done_testing();
}
