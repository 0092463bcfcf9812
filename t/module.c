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

#include "dev/backend.h"
#include "testmod.h"
#include "tap.h"

static void found(void)
{
	struct weir *weir = open_with_good_module();
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_dev *dev;
	uint64_t avail, total;

	is_int(weir_dev_count(weir), 3, "a module's devices are found");
	is_int(weir_dev_find(weir, "TEST1", &dev), 0, "... by their names");
	weir_dev_info(dev, &info);
	is_str(info.backend, "TEST", "a device knows its backend");
	has_str(info.module, "weir-good.so", "... and its module");
	has_str(modules_log, "the test module good",
		"a module can tell the root's log");
	ok(weir_dev_proc(dev, "answer") != NULL,
	   "a device gives out what its backend has");
	ok(!weir_dev_proc(dev, "question"), "... and NULL for all else");
	is_err(weir_dev_memory(dev, &avail, &total), -EIO, "2097152 of 1048576",
	       "more free memory than there is, is an error");
	is_err(weir_dev_init(weir, "TEST1:a=b", &dev), -EIO, "gave 1",
	       "a result that is no errno becomes -EIO");
	ok(!dlsym(RTLD_DEFAULT, WEIR__MODULE_ENTRY),
	   "a module's symbols do not reach the program");
	weir_close(weir);
}

struct refusal {
	const char *as;
	int err;
	const char *why;
	const char *what;
};

static const struct refusal refusals[] = {
	{ "abi0", -EPROTO, "ABI 0, this library has 3", "an older ABI" },
	{ "abi99", -EPROTO, "ABI 99, this library has 3", "a newer ABI" },
	{ "size0", -EPROTO, "has 0 bytes", "a table of no size" },
	{ "size8", -EPROTO, "weir__backend has", "a larger table" },
	{ "memsize", -EPROTO, "weir__mem_ops has", "a smaller table" },
	{ "nomem", -EBADMSG, "mem is NULL", "no table of memory" },
	{ "noprobe", -EBADMSG, "probe is NULL", "a required slot left out" },
	{ "noalloc", -EBADMSG, "mem->alloc is NULL", "... of memory" },
	{ "nosubmit", -EBADMSG, "queue->submit is NULL", "... of queues" },
	{ "noset", -EBADMSG, "set, get, fill or copy",
	  "device memory that nothing moves to" },
	{ "nofrom", -EBADMSG, "mem->copy_from is NULL",
	  "devices in reach of each other that do not copy" },
	{ "nobackend", -EBADMSG, "its name", "no name" },
	{ "longbackend", -EBADMSG, "its name", "a name of 1 MiB" },
	{ "null", -EBADMSG, "gives no reason", "an entry that returns NULL" },
	{ "error", -ENODEV, "the driver is missing",
	  "an entry that fails: with its own reason" },
	{ "nodevice", -ENODEV, "no such hardware", "a probe that fails" },
	{ "silent", -EIO, "gives no reason", "... without a reason" },
	{ "count", -EBADMSG, "1000000 devices", "a million devices" },
	{ "countneg", -EBADMSG, "-1000000 devices", "less than no devices" },
	{ "align0", -EBADMSG, "alignment 0", "an alignment of 0" },
	{ "align3", -EBADMSG, "alignment 3", "... of 3" },
	{ "max0", -EBADMSG, "largest buffer has 0 bytes",
	  "buffers of 0 bytes at most" },
	{ "noname", -EBADMSG, "device 0 has no proper name",
	  "a device without a name" },
	{ "longname", -EBADMSG, "device 0 has no proper name",
	  "a name without an end" },
	{ "oddname", -EBADMSG, "device 0 has no proper name",
	  "a name with a blank" },
	{ "endless", -EBADMSG, "without an end",
	  "a description without an end" },
	{ "nobuft", -EBADMSG, "0 kinds of memory", "a device without memory" },
	{ "manybuft", -EBADMSG, "1000 kinds of memory",
	  "a thousand kinds of memory" },
	{ "kind", -EBADMSG, "kind 99", "an unknown kind of memory" },
	{ "twokinds", -EBADMSG, "kind 0 twice", "a kind of memory twice" },
	{ "twonames", -EBADMSG, "the name TEST1 twice", "a name twice" },
	{ "cpuname", -EEXIST, "the name CPU", "the name of another's device" },
	{ "type", -EBADMSG, "type 99", "an unknown type of device" },
	{ "iscpu", -EEXIST, "a backend CPU", "the built-in backend's name" },
};
#define N_REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

static void refused(void)
{
	for (size_t i = 0; i < N_REFUSALS; i++) {
		const struct refusal *f = &refusals[i];
		/* Without a search: only what is loaded here. */
		struct weir *weir = open_with_modules("/nonexistent", 0);
		const char *path = module_copy("test", modules_dir(), f->as);

		is_err(weir_module_load(weir, path), f->err, f->why,
		       "refused: %s", f->what);
		unlink(path);
		weir_close(weir);
	}
}

static void not_modules(void)
{
	struct weir *weir = open_with_modules("/nonexistent", 0);
	const char *dir = modules_dir(), *path;

	is_err(weir_module_load(weir, module_text(dir, "text", "hello\n")),
	       -ENOEXEC, "weir-text.so", "refused: a text file");
	path = module_copy("test", dir, "cut");
	if (truncate(path, 1000) < 0)
		bail("truncate");
	is_err(weir_module_load(weir, path), -ENOEXEC, "weir-cut.so",
	       "refused: a module that is cut short");
	is_err(weir_module_load(weir, module_copy("none", dir, "none")),
	       -ENOEXEC, "no symbol weir_module_entry",
	       "refused: a shared object without the entry symbol");
	is_err(weir_module_load(weir, module_copy("unresolved", dir, "unres")),
	       -ENOEXEC, "weir_test_nowhere",
	       "refused: one that needs a symbol which nobody has");
	is_err(weir_module_load(weir, "weir-good.so"), -EINVAL, "absolute",
	       "refused: a relative path");
	is_err(weir_module_load(weir, "/nonexistent/weir-x.so"), -ENOENT,
	       "/nonexistent/weir-x.so", "refused: a file that is not there");
	is_err(weir_module_load(weir, dir), -ENOEXEC, "regular",
	       "refused: a directory");
	has_str(weir_error(), "weir_module_load: /tmp/",
		"a sentence names the call and the file");
	is_int(weir_dev_count(weir), 1, "nothing of them stays");
	weir_close(weir);
}

static void one_fails(void)
{
	struct weir *weir = open_with_good_module();
	const char *path = "", *why = "";
	unsigned n = 0;
	char before[256];

	snprintf(before, sizeof(before), "%s", weir_error());
	/* abi99, cut, none, text and unres lie there too. */
	module_copy("test", modules_dir(), "abi99");
	is_int(weir_dev_count(weir), 3,
	       "modules that fail do not stop the good one");
	has_str(modules_log, "weir-abi99.so: it is made for ABI 99",
		"... and the log says which and why");
	is_str(weir_error(), before,
	       "... but the thread's error stays what it was");
	is_int(weir_module_refused(weir, 0, &path, &why), 0,
	       "what was left out can be asked for");
	has_str(path, "/weir-abi99.so", "... by its path");
	is_str(why, "it is made for ABI 99, this library has 3",
	       "... and why, with both versions");
	while (weir_module_refused(weir, n, &path, &why) == 0)
		n++;
	is_int(n, 5, "... for each of them");
	is_err(weir_module_refused(weir, n, &path, &why), -ENOENT, "module 5",
	       "... and no more");
	is_err(weir_dev_find(weir, "NPU0", (struct weir_dev *[1]){ NULL }),
	       -ENODEV, "; weir-abi99.so was left out: it is made for ABI 99",
	       "who looks for a device that is not there is told, too");
	weir_close(weir);
}

static void twice(void)
{
	struct weir *weir = open_with_good_module();
	char link_path[512];
	const char *path;

	is_int(weir_dev_count(weir), 3, "a module is there");
	snprintf(link_path, sizeof(link_path), "%s/weir-link.so",
		 modules_dir());
	if (symlink("weir-good.so", link_path) < 0)
		bail("symlink");
	is_err(weir_module_load(weir, link_path), -EEXIST, "weir-good.so",
	       "the same module by another name is refused");
	unlink(link_path);
	path = module_copy("test", modules_dir(), "same");
	is_err(weir_module_load(weir, path), -EEXIST, "a backend TEST",
	       "a second backend of the same name is refused");
	unlink(path);
	weir_close(weir);
}

static void relative(void)
{
	static const char *const paths[] = { ".", "::", "", "sub:./x" };
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
	has_str(modules_log, "'rel' is not an absolute directory",
		"a relative directory is left out, and the log told");
	weir_close(weir);
}

static void trust(void)
{
	const char *path = module_copy("test", modules_dir(), "open");
	struct weir *weir;

	chmod(path, 0777);
	weir = open_with_modules("/nonexistent", 0);
	is_int(weir_module_load(weir, path), 0,
	       "a module that everybody can write is loaded");
	has_str(modules_log, "can be written by everybody",
		"... with a warning");
	weir_close(weir);
	weir = open_with_modules("/nonexistent", WEIR_OPEN_STRICT_MODULES);
	is_err(weir_module_load(weir, path), -EPERM, "written by everybody",
	       "... and refused where modules are strict");
	chmod(path, 0755);
	chmod(modules_dir(), 0777);
	is_err(weir_module_load(weir, path), -EPERM, "its directory",
	       "... and so is one in a directory that everybody can write");
	chmod(modules_dir(), 0700);
	is_int(weir_module_load(weir, path), 0, "one that is ours is not");
	weir_close(weir);
	unlink(path);
}

/* A link into a directory that everybody can write. */
static void links(void)
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
	       "... not to one in a directory that everybody can write");
	weir_close(weir);
	unlink(link_path);
	unlink(path);
	rmdir(dir);
}

/* Renamed to @to at the next read of a module's headers. */
static const char *swap_from, *swap_to;

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	if (swap_from && rename(swap_from, swap_to) < 0)
		bail("rename");
	swap_from = NULL;
	return syscall(SYS_pread64, fd, buf, n, off);
}

static void swapped(void)
{
	struct weir *weir = open_with_modules("/nonexistent", 0);
	char path[512], evil[512];

	snprintf(path, sizeof(path), "%s",
		 module_copy("test", modules_dir(), "looked-at"));
	snprintf(evil, sizeof(evil), "%s",
		 module_copy("none", modules_dir(), "evil"));
	swap_from = evil;
	swap_to = path;
	is_int(weir_module_load(weir, path), 0,
	       "a file that replaces a module while it is looked at is not loaded");
	ok(!swap_from, "... though it has its name");
	is_int(weir_dev_count(weir), 3, "... but what was looked at is");
	weir_close(weir);
	unlink(path);
}

/* The dynamic linker knows what is loaded by names, ours have a descriptor. */
static void not_mistaken(void)
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
	       "a module is not taken for one that is loaded");
	weir_close(b);
	b = open_with_modules("/nonexistent", 0);
	is_err(weir_module_load(b, bad), -EBADMSG, "mem is NULL",
	       "... nor for one that another root has loaded");
	weir_close(b);
	weir_close(a);
	unlink(bad);
}

/* Its path alone is longer than a sentence. */
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
	       "of a path that is longer than a sentence the reason is left");
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

/* What a program finds with WEIR_MODULE_PATH set: run as our own child. */
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
	if (n == 127) /* of the dynamic linker, which ignores LD_LIBRARY_PATH */
		skip(1,
		     "a set-user-ID program does not find its libraries here");
	else
		is_int(n, 1,
		       "... but not by a program with more rights than its user");
}

/* As a library that was installed with its modules; here it is the program. */
static void beside(const char *self)
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
	       "what lies beside the library is found, whatever module_path is");
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
	plan(10 + N_REFUSALS + 9 + 9 + 3 + 5 + 5 + 2 + 3 + 2 + 1 + 2 + 1);
	found();
	refused();
	not_modules();
	one_fails();
	twice();
	relative();
	trust();
	links();
	swapped();
	not_mistaken();
	long_path();
	environment(self);
	beside(self);
	return done_testing();
}
