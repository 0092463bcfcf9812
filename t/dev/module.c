/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/backend.h>
#include "testmod.h"
#include "tap.h"

static void devices_found(void)
{
	struct weir *weir = open_with_good_module();
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_dev *dev;

	is_int(weir_dev_count(weir), 3, "a module's devices are counted");
	is_int(weir_dev_find(weir, "TEST0", &dev), 0,
	       "a module's device is found by its name");
	weir_dev_info(dev, &info);
	is_str(info.backend, "TEST", "a device names its backend");
	has_str(info.module, "weir-good.so", "a device names its module");
	ok(info.caps & WEIR_CAP_COMPUTE,
	   "a device may have WEIR_CAP_COMPUTE if its backend has compute");
	has_str(modules_log, "the test module good",
		"a module writes to the root's log");
	ok(!dlsym(RTLD_DEFAULT, WEIR_BACKEND_ENTRY),
	   "a module's symbols do not reach the program");
	weir_close(weir);
}

static void device_functions(void)
{
	struct weir *weir = open_with_good_module();
	struct weir_dev *dev;

	if (weir_dev_find(weir, "TEST1", &dev) < 0)
		bail("%s", weir_error());
	ok(weir_dev_proc(dev, "answer") != NULL,
	   "weir_dev_proc returns a function that the backend has");
	ok(!weir_dev_proc(dev, "question"),
	   "weir_dev_proc returns NULL for a name that the backend lacks");
	weir_close(weir);
}

static void wrong_results(void)
{
	struct weir *weir = open_with_good_module();
	struct weir_dev *dev;
	uint64_t avail, total;

	if (weir_dev_find(weir, "TEST1", &dev) < 0)
		bail("%s", weir_error());
	is_err(weir_dev_memory(dev, &avail, &total), -EIO, "2097152 of 1048576",
	       "more free memory than there is becomes -EIO");
	is_err(weir_dev_configure(weir, "TEST1:a=b", &dev), -EIO, "returned 1",
	       "a backend's result that is no errno becomes -EIO");
	weir_close(weir);
}

struct refusal {
	const char *as;
	int err;
	const char *why;
	const char *what;
};

static const struct refusal refusals[] = {
	{ "abi0", -EPROTO, "ABI 0, this library has 4", "an older ABI" },
	{ "abi99", -EPROTO, "ABI 99, this library has 4", "a newer ABI" },
	{ "size0", -EPROTO, "weir_backend has 0 bytes, this library needs 88",
	  "a backend of no size" },
	{ "short", -EPROTO, "weir_backend has 80 bytes, this library needs 88",
	  "a backend that ends before a required member" },
	{ "odd", -EPROTO, "weir_backend has 92 bytes, not a multiple of 8",
	  "a backend that ends inside a member" },
	{ "memsize", -EPROTO,
	  "weir_backend_mem_ops has 16 bytes, this library needs 24",
	  "a table of memory that is too short" },
	{ "queuesize", -EPROTO,
	  "weir_backend_queue_ops has 8 bytes, this library needs 32",
	  "a table of queues that is too short" },
	{ "computesize", -EPROTO,
	  "weir_backend_compute_ops has 16 bytes, this library needs 32",
	  "a table of compute that is too short" },
	{ "descsize", -EPROTO, "weir_backend_dev has 64 bytes",
	  "a description of a device that is too short" },
	{ "buftsize", -EPROTO, "weir_backend_buft has 56 bytes",
	  "a description of memory that is too short" },
	{ "nomem", -EBADMSG, "mem is NULL", "no table of memory" },
	{ "noprobe", -EBADMSG, "probe is NULL", "a backend without probe" },
	{ "noalloc", -EBADMSG, "mem->alloc is NULL",
	  "a table of memory without alloc" },
	{ "nosubmit", -EBADMSG, "queue->submit is NULL",
	  "a table of queues without submit" },
	{ "nosupports", -EBADMSG, "compute->supports is NULL",
	  "a table of compute without supports" },
	{ "nocompute", -EBADMSG,
	  "TEST0 has WEIR_CAP_COMPUTE, but its backend's compute is NULL",
	  "a device that computes, of a backend without compute" },
	{ "noset", -EBADMSG, "set, get, fill or copy",
	  "device memory without blocking moves" },
	{ "nofrom", -EBADMSG, "mem->copy_from is NULL",
	  "reach without copy_from" },
	{ "nobackend", -EBADMSG, "its name", "a backend without a name" },
	{ "longbackend", -EBADMSG, "its name",
	  "a backend with a name of 1 MiB" },
	{ "null", -EBADMSG, "gives no reason", "an entry that returns NULL" },
	{ "error", -ENODEV, "the driver is missing",
	  "an entry that fails with a reason" },
	{ "nodevice", -ENODEV, "no such hardware",
	  "a probe that fails with a reason" },
	{ "silent", -EIO, "gives no reason",
	  "a probe that fails without a reason" },
	{ "count", -EBADMSG, "more than 64 devices", "a million devices" },
	{ "positive", -EBADMSG, "probe returned 1000000",
	  "a probe that returns a positive number" },
	{ "notanerrno", -EBADMSG, "probe returned -1000000",
	  "a probe that returns what is no errno" },
	{ "align0", -EBADMSG, "alignment 0", "memory with an alignment of 0" },
	{ "align3", -EBADMSG, "alignment 3", "memory with an alignment of 3" },
	{ "max0", -EBADMSG, "largest buffer has 0 bytes",
	  "memory whose largest buffer has 0 bytes" },
	{ "noname", -EBADMSG, "device 0 has no proper name",
	  "a device without a name" },
	{ "longname", -EBADMSG, "device 0 has no proper name",
	  "a device with a name without an end" },
	{ "oddname", -EBADMSG, "device 0 has no proper name",
	  "a device with a blank in its name" },
	{ "endless", -EBADMSG, "without an end",
	  "a device with a description without an end" },
	{ "nobuft", -EBADMSG, "0 kinds of memory", "a device without memory" },
	{ "nullbuft", -EBADMSG, "kind 1 of memory is NULL",
	  "a device with memory that is not described" },
	{ "manybuft", -EBADMSG, "1000 kinds of memory",
	  "a device with a thousand kinds of memory" },
	{ "kind", -EBADMSG, "kind 99", "an unknown kind of memory" },
	{ "twokinds", -EBADMSG, "kind 0 twice",
	  "a device with a kind of memory twice" },
	{ "twonames", -EBADMSG, "the name TEST1 is used twice",
	  "two devices of one name" },
	{ "cpuname", -EEXIST, "the name CPU",
	  "the name of another backend's device" },
	{ "type", -EBADMSG, "type 99", "a device of an unknown type" },
	{ "iscpu", -EEXIST, "a backend CPU",
	  "a backend with the built-in one's name" },
};
#define N_REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

static void refuses_modules(void)
{
	for (size_t i = 0; i < N_REFUSALS; i++) {
		const struct refusal *f = &refusals[i];
		/*
		 * The only modules are those that are loaded here, without a
		 * search.
		 */
		struct weir *weir = open_with_modules("/nonexistent", 0);
		const char *path = module_copy("test", modules_dir(), f->as);

		is_err(weir_module_load(weir, path), f->err, f->why,
		       "a module is refused: %s", f->what);
		unlink(path);
		weir_close(weir);
	}
}

static void refuses_other_files(void)
{
	struct weir *weir = open_with_modules("/nonexistent", 0);
	const char *dir = modules_dir(), *path;

	is_err(weir_module_load(weir, module_text(dir, "text", "hello\n")),
	       -ENOEXEC, "weir-text.so", "a text file is refused");
	path = module_copy("test", dir, "cut");
	if (truncate(path, 1000) < 0)
		bail("truncate");
	is_err(weir_module_load(weir, path), -ENOEXEC, "weir-cut.so",
	       "a module that is cut short is refused");
	is_err(weir_module_load(weir, module_copy("none", dir, "none")),
	       -ENOEXEC, "no symbol weir_module_entry",
	       "a shared object without the entry symbol is refused");
	is_err(weir_module_load(weir, module_copy("unresolved", dir, "unres")),
	       -ENOEXEC, "weir_test_nowhere",
	       "a shared object with an undefined symbol is refused");
	is_err(weir_module_load(weir, "weir-good.so"), -EINVAL, "absolute",
	       "a relative path is refused");
	is_err(weir_module_load(weir, "/nonexistent/weir-x.so"), -ENOENT,
	       "/nonexistent/weir-x.so", "a file that is not there is refused");
	is_err(weir_module_load(weir, dir), -ENOEXEC, "regular",
	       "a directory is refused");
	has_str(weir_error(), "weir_module_load: /tmp/",
		"the error of weir_module_load names the call and the file");
	is_int(weir_dev_count(weir), 1,
	       "files that are refused add no devices");
	weir_close(weir);
}

static void search_goes_on(void)
{
	struct weir *weir = open_with_good_module();
	const char *path = "", *why = "";
	unsigned n = 0;
	char before[256];

	snprintf(before, sizeof(before), "%s", weir_error());
	/* abi99, cut, none, text and unres are there too. */
	module_copy("test", modules_dir(), "abi99");
	is_int(weir_dev_count(weir), 3,
	       "modules that fail do not stop the search");
	has_str(modules_log, "weir-abi99.so: it is made for ABI 99",
		"the log names a module that failed, and why");
	is_str(weir_error(), before,
	       "the search does not change the thread's error");
	is_int(weir_module_refused(weir, 0, &path, &why), 0,
	       "weir_module_refused finds a module that failed");
	has_str(path, "/weir-abi99.so", "weir_module_refused returns its path");
	is_str(why, "it is made for ABI 99, this library has 4",
	       "weir_module_refused returns the reason with both numbers");
	while (weir_module_refused(weir, n, &path, &why) == 0)
		n++;
	is_int(n, 5, "weir_module_refused finds each module that failed");
	is_err(weir_module_refused(weir, n, &path, &why), -ENOENT, "module 5",
	       "weir_module_refused ends after the last");
	is_err(weir_dev_find(weir, "NPU0", (struct weir_dev *[1]){ NULL }),
	       -ENODEV, "; weir-abi99.so was left out: it is made for ABI 99",
	       "the error for an unknown device names modules that failed");
	weir_close(weir);
}

static void loaded_twice(void)
{
	struct weir *weir = open_with_good_module();
	char link_path[512];
	const char *path;

	is_int(weir_dev_count(weir), 3, "the module is loaded once");
	snprintf(link_path, sizeof(link_path), "%s/weir-link.so",
		 modules_dir());
	if (symlink("weir-good.so", link_path) < 0)
		bail("symlink");
	is_err(weir_module_load(weir, link_path), -EEXIST, "weir-good.so",
	       "a module that is loaded by another name is refused");
	unlink(link_path);
	path = module_copy("test", modules_dir(), "same");
	is_err(weir_module_load(weir, path), -EEXIST, "a backend TEST",
	       "a second backend of the same name is refused");
	unlink(path);
	weir_close(weir);
}

static void relative_paths(void)
{
	static const char *const paths[] = { ".", "::", "", "sub:./x" };
	const char *path, *why;
	struct weir_dev *dev;
	struct weir *weir;

	if (chdir(modules_dir()) < 0)
		bail("chdir");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		weir = open_with_modules(paths[i], 0);
		is_int(weir_dev_count(weir), 1,
		       "a module in the current directory is not found by '%s'",
		       paths[i]);
		weir_close(weir);
	}
	weir = open_with_modules(":rel", 0);
	weir_dev_count(weir);
	has_str(modules_log, "'rel' is left out: modules are searched in",
		"the log names a relative directory, which is left out");
	is_int(weir_module_refused(weir, 0, &path, &why), 0,
	       "the directory is listed with the modules that were left out");
	is_str(path, "rel", "by its path");
	has_str(why, "absolute directories", "with the reason");
	is_err(weir_dev_find(weir, "NONE0", &dev), -ENODEV,
	       "rel was left out: modules are searched in absolute",
	       "a device that is not found has the reason");
	weir_close(weir);
}

/* An absolute path of @len bytes that ends with @end. */
static const char *long_dir(size_t len, const char *end)
{
	static char dir[8192];

	memset(dir, 'd', len);
	for (size_t i = 0; i < len; i += 200)
		dir[i] = '/';
	snprintf(dir + len - strlen(end), sizeof(dir) - len, "%s", end);
	return dir;
}

static void long_dirs(void)
{
	const char *dir, *path = "", *why = "";
	struct weir_dev *dev;
	struct weir *weir;
	char rel[400] = "rel/";

	dir = long_dir(5000, "/end");
	weir = open_with_modules(dir, 0);
	is_int(weir_dev_count(weir), 1, "a path of 5000 bytes has no modules");
	has_str(modules_log, "...' is left out: it has 5000 bytes",
		"the log has its beginning, and why it is left out");
	is_int(weir_module_refused(weir, 0, &path, &why), 0,
	       "it is listed with the modules that were left out");
	is_str(path, dir, "by its whole path");
	is_str(why, "it has 5000 bytes, a directory's path at most 4095",
	       "with both numbers");
	is_err(weir_dev_find(weir, "NONE0", &dev), -ENODEV,
	       "; end was left out: it has 5000 bytes",
	       "a device that is not found has the reason");
	weir_close(weir);
	weir = open_with_modules(long_dir(4096, "/"), 0);
	is_err(weir_dev_find(weir, "NONE0", &dev), -ENODEV,
	       "ddd... was left out: it has 4096 bytes",
	       "a path that ends with a slash is named by its beginning");
	weir_close(weir);
	weir = open_with_modules(long_dir(4095, "/end"), 0);
	weir_dev_count(weir);
	is_err(weir_module_refused(weir, 0, &path, &why), -ENOENT, "module 0",
	       "a path of 4095 bytes is searched");
	weir_close(weir);
	memset(rel + 4, 'r', sizeof(rel) - 5);
	weir = open_with_modules(rel, 0);
	weir_dev_count(weir);
	weir_module_refused(weir, 0, &path, &why);
	is_str(path, rel, "a long relative path is listed whole");
	weir_close(weir);
}

static void trusted_files(void)
{
	const char *path = module_copy("test", modules_dir(), "open");
	struct weir *weir;

	chmod(path, 0777);
	weir = open_with_modules("/nonexistent", 0);
	is_int(weir_module_load(weir, path), 0,
	       "a module that everybody can write is loaded");
	has_str(modules_log, "can be written by everybody",
		"the log warns of a module that everybody can write");
	weir_close(weir);
	weir = open_with_modules("/nonexistent", WEIR_OPEN_STRICT_MODULES);
	is_err(weir_module_load(weir, path), -EPERM, "written by everybody",
	       "a strict root refuses a module that everybody can write");
	chmod(path, 0755);
	chmod(modules_dir(), 0777);
	is_err(weir_module_load(weir, path), -EPERM, "its directory",
	       "a strict root refuses a directory that everybody can write");
	chmod(modules_dir(), 0700);
	is_int(weir_module_load(weir, path), 0,
	       "a strict root loads a module that is ours");
	weir_close(weir);
	unlink(path);
}

/* A link into a directory that everybody can write. */
static void links_followed(void)
{
	char dir[] = "/tmp/weir-links-XXXXXX", link_path[512];
	const char *path;
	struct weir *weir;

	if (!mkdtemp(dir))
		bail("%s", dir);
	path = module_copy("test", dir, "linked");
	snprintf(link_path, sizeof(link_path), "%s/weir-far.so", modules_dir());
	if (symlink(path, link_path) < 0)
		bail("symlink");
	weir = open_with_modules("/nonexistent", WEIR_OPEN_STRICT_MODULES);
	is_int(weir_module_load(weir, link_path), 0,
	       "a link to a module in a directory of our own is followed");
	weir_close(weir);
	chmod(dir, 0777);
	weir = open_with_modules("/nonexistent", WEIR_OPEN_STRICT_MODULES);
	is_err(weir_module_load(weir, link_path), -EPERM,
	       "the directory that it links to can be written by everybody",
	       "a strict root refuses a link into a directory that everybody can write");
	weir_close(weir);
	unlink(link_path);
	unlink(path);
	rmdir(dir);
}

/* The dynamic linker opens "lib" or "lib64" in the place of "$LIB". */
static void expanded(void)
{
	static const char *const names[] = { "$LIB", "a${ORIGIN}",
					     "$PLATFORM" };
	struct weir *weir = open_with_modules("/nonexistent", 0);
	char dir[512];
	const char *path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(dir, sizeof(dir), "%s/%s", modules_dir(), names[i]);
		if (mkdir(dir, 0700) < 0)
			bail("%s", dir);
		path = module_copy("test", dir, "other");
		is_err(weir_module_load(weir, path), -EINVAL,
		       "the dynamic linker would open another file",
		       "a module in a directory '%s' is refused", names[i]);
		unlink(path);
		rmdir(dir);
	}
	snprintf(dir, sizeof(dir), "%s/a$b", modules_dir());
	if (mkdir(dir, 0700) < 0)
		bail("%s", dir);
	path = module_copy("test", dir, "dollar");
	is_int(weir_module_load(weir, path), 0,
	       "a module in a directory 'a$b' is loaded");
	weir_close(weir);
	unlink(path);
	rmdir(dir);
}

/* This file is renamed to @to at the next read of a module's headers. */
static const char *swap_from, *swap_to;

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	if (swap_from && rename(swap_from, swap_to) < 0)
		bail("rename");
	swap_from = NULL;
	return syscall(SYS_pread64, fd, buf, n, off);
}

static void file_replaced(void)
{
	struct weir *weir = open_with_modules("/nonexistent", 0);
	char path[512], evil[512];

	snprintf(path, sizeof(path), "%s",
		 module_copy("test", modules_dir(), "looked-at"));
	snprintf(evil, sizeof(evil), "%s",
		 module_copy("none", modules_dir(), "evil"));
	swap_from = evil;
	swap_to = path;
	is_err(weir_module_load(weir, path), -ESTALE, "it was replaced",
	       "a module that is replaced while it is checked is refused");
	ok(!swap_from, "the file was replaced while it was checked");
	is_int(weir_dev_count(weir), 1,
	       "a file that took the place of the checked one is not entered");
	is_int(weir_module_load(weir, path), -ENOEXEC,
	       "the next load checks the file that took its place");
	weir_close(weir);
	unlink(path);
}

/* By this name debuggers and profilers open the module's file. */
static void real_names(void)
{
	struct weir *weir = open_with_modules("/nonexistent", 0);
	char link_path[512], real[4096];
	void (*answer)(void);
	struct weir_dev *dev;
	const char *path;
	Dl_info info;

	path = module_copy("test", modules_dir(), "good");
	snprintf(link_path, sizeof(link_path), "%s/weir-link.so",
		 modules_dir());
	if (symlink("weir-good.so", link_path) < 0 || !realpath(path, real) ||
	    weir_module_load(weir, link_path) < 0 ||
	    weir_dev_find(weir, "TEST0", &dev) < 0)
		bail("%s", weir_error());
	answer = weir_dev_proc(dev, "answer");
	if (!answer || !dladdr(*(void **)&answer, &info))
		bail("dladdr");
	is_str(info.dli_fname, real,
	       "dladdr returns the real path of a module that a link names");
	weir_close(weir);
	unlink(link_path);
}

/* If the dynamic linker knows a name, it returns what it has loaded. */
static void other_names(void)
{
	struct weir *a = open_with_modules("/nonexistent", 0);
	struct weir *b = open_with_modules("/nonexistent", 0);
	char good[512];
	const char *bad;

	snprintf(good, sizeof(good), "%s",
		 module_copy("test", modules_dir(), "good"));
	if (weir_module_load(a, good) < 0 || weir_module_load(b, good) < 0)
		bail("%s", weir_error());
	bad = module_copy("test", modules_dir(), "nomem");
	is_err(weir_module_load(a, bad), -EBADMSG, "mem is NULL",
	       "a module is not mistaken for one that is loaded");
	weir_close(b);
	b = open_with_modules("/nonexistent", 0);
	is_err(weir_module_load(b, bad), -EBADMSG, "mem is NULL",
	       "a module is not mistaken for one of another root");
	weir_close(b);
	weir_close(a);
	unlink(bad);
}

/* The path of the module alone is longer than a sentence. */
static void long_path(void)
{
	char dir[3000], name[200];
	struct weir *weir = open_with_modules("/nonexistent", 0);
	const char *good = module_copy("test", modules_dir(), "good");
	int fd = open(modules_dir(), O_PATH | O_DIRECTORY), r;
	int top = open(".", O_PATH | O_DIRECTORY);

	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(dir, sizeof(dir), "%s", modules_dir());
	if (fd < 0 || top < 0 || fchdir(fd) < 0)
		bail("chdir");
	for (int i = 0; i < 10; i++) {
		if (mkdir(name, 0700) < 0 || chdir(name) < 0)
			bail("mkdir");
		snprintf(dir + strlen(dir), 201, "/%s", name);
	}
	strcat(dir, "/weir-long.so");
	if (symlink(good, dir) < 0 || weir_module_load(weir, dir) < 0)
		bail("%s", weir_error());
	r = weir_module_load(weir, dir);
	is_err(r, -EEXIST, "loaded already, as",
	       "an error keeps its reason after a path that is too long for it");
	unlink(dir);
	for (int i = 0; i < 10; i++) {
		*strrchr(dir, '/') = '\0';
		rmdir(dir);
	}
	if (fchdir(top) < 0)
		bail("chdir");
	close(top);
	close(fd);
	weir_close(weir);
}

/* A child of this test shows what a program finds with WEIR_MODULE_PATH. */
static int child(const char *module_path)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;
	int n;

	o.module_path = module_path;
	if (weir_open(&o, &weir) < 0)
		return 100;
	n = (int)weir_dev_count(weir);
	weir_close(weir);
	return n;
}

static int run_child(const char *self, bool privileged)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		setenv("WEIR_MODULE_PATH", modules_dir(), 1);
		if (privileged && setreuid(65534, 0) < 0)
			_exit(101);
		execl(self, self, "--child", (char *)NULL);
		_exit(102);
	}
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void environment(const char *self)
{
	int n;

	is_int(run_child(self, false), 3, "WEIR_MODULE_PATH is searched");
	if (geteuid()) {
		skip(1, "only root can run a program as set-user-ID");
		return;
	}
	chmod(modules_dir(), 0755);
	n = run_child(self, true);
	if (n == 127) /* the dynamic linker failed: it ignores
			 LD_LIBRARY_PATH */
		skip(1,
		     "a set-user-ID program does not find its libraries here");
	else
		is_int(n, 1, "a set-user-ID program ignores WEIR_MODULE_PATH");
}

/* The program contains the library, with modules beside it as if installed. */
static void found_beside(const char *self)
{
	char dir[] = "/tmp/weir-beside-XXXXXX", prog[64], sub[64];
	const char *path;
	int status = -1;
	pid_t pid;

	if (!mkdtemp(dir))
		bail("%s", dir);
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	snprintf(sub, sizeof(sub), "%s/weir", dir);
	if (symlink(self, prog) < 0 || mkdir(sub, 0700) < 0)
		bail("%s", dir);
	path = module_copy("test", sub, "good");
	pid = fork();
	if (!pid) {
		execl(prog, prog, "--child", "/nonexistent", (char *)NULL);
		_exit(102);
	}
	waitpid(pid, &status, 0);
	is_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 3,
	       "modules beside the library are found whatever module_path is");
	unlink(path);
	unlink(prog);
	rmdir(sub);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	char self[4096];

	if (argc > 1 && !strcmp(argv[1], "--child"))
		return child(argv[2]);
	if (!realpath("/proc/self/exe", self))
		skip_all("no /proc");
	(void)argv;
	plan(4 + 7 + 2 + 2 + N_REFUSALS + 9 + 9 + 3 + 9 + 9 + 5 + 2 + 4 + 2 +
	     1 + 1 + 2 + 1);
	devices_found();
	device_functions();
	wrong_results();
	refuses_modules();
	refuses_other_files();
	search_goes_on();
	loaded_twice();
	relative_paths();
	long_dirs();
	trusted_files();
	links_followed();
	expanded();
	file_replaced();
	other_names();
	real_names();
	long_path();
	environment(self);
	found_beside(self);
	return done_testing();
}
