/* SPDX-License-Identifier: MIT */
/*
 * Modules: backends in shared objects of their own. They are looked for in
 * absolute directories only, and one that fails never stops the others.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "dev/host.h"
#include "dev/module.h"
#include "dev/registry.h"

#define MAX_DIRS 32

struct weir__module {
	struct weir__module *next;
	char *path;
	void *handle;
	dev_t dev;
	ino_t ino;
};

/* One that the search found and left out. */
struct weir__refused {
	struct weir__refused *next;
	char *path, *why;
};

static int check_new(struct weir *weir, const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return weir__fail(-ENOEXEC, "not a regular file");
	for (struct weir__module *m = weir__registry(weir)->modules; m;
	     m = m->next)
		if (m->dev == st->st_dev && m->ino == st->st_ino)
			return weir__fail(-EEXIST, "loaded already, as %s",
					  m->path);
	return weir__module_trust(weir, path, st);
}

/* The handle is open; find the tables and add what they describe. */
static int enter(struct weir *weir, struct weir__module *m)
{
	weir__module_entry_fn *entry;

	*(void **)&entry = dlsym(m->handle, WEIR__MODULE_ENTRY);
	if (!entry)
		return weir__fail(-ENOEXEC, "it has no symbol %s",
				  WEIR__MODULE_ENTRY);
	/* Of a module that fails without a sentence. */
	weir__fail(-EBADMSG, "it gives no reason");
	return weir__registry_enter(weir, entry, m->path);
}

static void drop(struct weir__module *m)
{
	if (m->handle)
		dlclose(m->handle);
	weir__free(m->path);
	weir__free(m);
}

static void drop_refused(struct weir__refused *x)
{
	weir__free(x->path);
	weir__free(x->why);
	weir__free(x);
}

static struct weir__module *new_module(const char *path, const struct stat *st)
{
	struct weir__module *m = weir__calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->path = weir__strdup(path);
	m->dev = st->st_dev;
	m->ino = st->st_ino;
	if (!m->path) {
		drop(m);
		return NULL;
	}
	return m;
}

/*
 * A name by which dlopen(3) opens the file behind @fd, and no other. It knows
 * what is loaded by the names that it was given, and the number of a descriptor
 * is used again: so the name is one that no other file has, "/." for a set bit
 * of its device and inode, "/" for one that is not.
 */
static void name_fd(int fd, const struct stat *st, char name[static 512])
{
	uint64_t part[2] = { st->st_dev, st->st_ino };

	strcpy(name, "/proc/self/fd");
	for (unsigned i = 0; i < 128; i++)
		strcat(name, part[i / 64] >> i % 64 & 1 ? "/." : "/");
	sprintf(name + strlen(name), "/%d", fd);
}

/* dlerror(3) begins with the name, which our sentences have already. */
static int fail_dlopen(int r, const char *name)
{
	const char *why = dlerror();
	size_t len = strlen(name);

	if (!strncmp(why, name, len) && !strncmp(why + len, ": ", 2))
		why += len + 2;
	return weir__fail(r, "%s", why);
}

/*
 * The file that was looked at, whatever @path names by now. Without /proc only
 * the path is left, which is not good enough where modules are strict.
 */
static int open_handle(struct weir *weir, const char *path, int fd,
		       const struct stat *st, void **ret_handle)
{
	char name[512];
	struct stat now;
	int r;

	name_fd(fd, st, name);
	r = weir__sys_stat(name, &now);
	if (r < 0 && weir->opts.flags & WEIR_OPEN_STRICT_MODULES)
		return weir__fail(
			-EPERM,
			"refused: without /proc it may not be the file that was looked at");
	if (r < 0)
		weir__log(
			weir,
			"module %s: without /proc it may not be the file that was looked at",
			path);
	if (r >= 0)
		path = name;
	r = weir__sys_dlopen(path, ret_handle);
	return r < 0 ? fail_dlopen(r, path) : 0;
}

/* The file is open. */
static int load_file(struct weir *weir, const char *path, int fd)
{
	struct weir__registry *registry = weir__registry(weir);
	struct weir__module *m;
	struct stat st;
	int r = weir__sys_fstat(fd, &st);

	if (r < 0)
		return weir__fail_sys(r, "fstat");
	r = check_new(weir, path, &st);
	if (r < 0 || (r = weir__elf_check(fd, (uint64_t)st.st_size)) < 0)
		return r;
	m = new_module(path, &st);
	if (!m)
		return weir__fail(-ENOMEM, "no memory for a module");
	r = open_handle(weir, path, fd, &st, &m->handle);
	if (!r)
		r = enter(weir, m);
	if (r < 0) {
		drop(m);
		return r;
	}
	m->next = registry->modules;
	registry->modules = m;
	return 0;
}

/* Opened once, so that what is loaded is what was looked at. The lock is held. */
static int load(struct weir *weir, const char *path)
{
	int fd = weir__sys_open(path, O_RDONLY | O_NONBLOCK, 0), r;

	if (fd < 0)
		return weir__fail_sys(fd, "open");
	r = load_file(weir, path, fd);
	weir__sys_close(fd);
	return r;
}

/* Remember it, in the order found, and why: this thread's sentence. */
static void refuse(struct weir *weir, const char *path)
{
	struct weir__refused *x = weir__calloc(1, sizeof(*x)), **end;
	const char *why = weir_error();

	weir__log(weir, "module %s: %s", path, why);
	if (!x)
		return;
	x->path = weir__strdup(path);
	x->why = weir__strdup(why);
	if (!x->path || !x->why) {
		drop_refused(x);
		return;
	}
	for (end = &weir__registry(weir)->refused; *end; end = &(*end)->next)
		;
	*end = x;
}

/* One found in a directory: if it fails the rest goes on. */
static void load_found(struct weir *weir, const char *dir, const char *name)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >=
	    (int)sizeof(path))
		return;
	/* The sentence is kept, without a call's name before it. */
	weir__enter(NULL);
	if (load(weir, path) < 0)
		refuse(weir, path);
}

static int is_module(const struct dirent *entry)
{
	const char *name = entry->d_name;
	size_t len = strlen(name);

	return len > 8 && !strncmp(name, "weir-", 5) &&
	       !strcmp(name + len - 3, ".so");
}

/* Directories that have been searched: some have several names. */
struct search {
	struct weir *weir;
	unsigned n;
	struct {
		dev_t dev;
		ino_t ino;
	} seen[MAX_DIRS];
};

static bool seen_before(struct search *s, const struct stat *st)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->seen[i].dev == st->st_dev &&
		    s->seen[i].ino == st->st_ino)
			return true;
	if (s->n < MAX_DIRS) {
		s->seen[s->n].dev = st->st_dev;
		s->seen[s->n++].ino = st->st_ino;
	}
	return false;
}

static void search_dir(struct search *s, const char *dir)
{
	struct dirent **list;
	struct stat st;
	int n;

	if (weir__sys_stat(dir, &st) < 0 || seen_before(s, &st))
		return;
	n = weir__sys_scandir(dir, is_module, &list);
	if (n < 0)
		return;
	for (int i = 0; i < n; i++) {
		load_found(s->weir, dir, list[i]->d_name);
		weir__free(list[i]);
	}
	weir__free(list);
}

/* A directory that depends on where the program was started is none. */
static void search_path(struct search *s, const char *path)
{
	char dir[4096];

	for (const char *p = path;; p++) {
		size_t len = strcspn(p, ":");

		if (*p != '/' || len >= sizeof(dir)) {
			weir__log(
				s->weir,
				"module path: '%s' is not an absolute directory, and left out",
				weir__quote(p, len));
		} else {
			snprintf(dir, sizeof(dir), "%.*s", (int)len, p);
			search_dir(s, dir);
		}
		p += len;
		if (!*p)
			return;
	}
}

/* DIR/weir and DIR of libweir.so itself, so that a moved tree works. */
static void search_beside(struct search *s)
{
	int (*self)(const struct weir_opts *, struct weir **) = weir_open;
	char dir[4096];
	const char *slash;
	Dl_info info;

	if (!dladdr(*(void **)&self, &info) || info.dli_fname[0] != '/')
		return;
	slash = strrchr(info.dli_fname, '/');
	if (slash == info.dli_fname ||
	    slash - info.dli_fname > (ptrdiff_t)sizeof(dir) - 8)
		return;
	snprintf(dir, sizeof(dir), "%.*s/weir", (int)(slash - info.dli_fname),
		 info.dli_fname);
	search_dir(s, dir);
	*strrchr(dir, '/') = '\0';
	search_dir(s, dir);
}

static void search(struct weir *weir)
{
	struct search s = { .weir = weir };
	const char *path = weir->module_path;

	if (!path)
		path = secure_getenv("WEIR_MODULE_PATH");
	if (path && *path)
		search_path(&s, path);
	search_beside(&s);
	search_dir(&s, WEIR_MODULE_DIR);
}

/* registry->module_lock is held. */
static void scan(struct weir *weir)
{
	struct weir__registry *registry = weir__registry(weir);
	struct weir__error_saved saved;

	if (registry->scanned || atomic_load(&weir->closed))
		return;
	registry->scanned = true;
	weir__error_save(&saved);
	search(weir);
	weir__error_restore(&saved);
}

void weir__modules_scan(struct weir *weir)
{
	struct weir__registry *registry = weir__registry(weir);

	pthread_mutex_lock(&registry->module_lock);
	scan(weir);
	pthread_mutex_unlock(&registry->module_lock);
}

int weir_module_load(struct weir *weir, const char *path)
{
	struct weir__error_saved saved;
	char call[4096 + 32];
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	if (path[0] != '/')
		return weir__fail(-EINVAL, "'%s' is not an absolute path",
				  weir__quote(path, strlen(path)));
	snprintf(call, sizeof(call), "%s: %s", __func__, path);
	weir__error_save(&saved);
	pthread_mutex_lock(&weir__registry(weir)->module_lock);
	scan(weir);
	weir__enter(call);
	r = load(weir, path);
	pthread_mutex_unlock(&weir__registry(weir)->module_lock);
	/* A success leaves the sentence of the last failure as it was. */
	if (!r)
		weir__error_restore(&saved);
	weir__enter(NULL);
	return r;
}

/* Those of the search do not change once it is over. */
static const struct weir__refused *refused(struct weir *weir, unsigned i)
{
	const struct weir__refused *x;

	weir__modules_scan(weir);
	x = weir__registry(weir)->refused;
	while (x && i--)
		x = x->next;
	return x;
}

int weir_module_refused(struct weir *weir, unsigned i, const char **ret_path,
			const char **ret_why)
{
	const struct weir__refused *x;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	x = refused(weir, i);
	if (!x)
		return weir__fail(-ENOENT, "no module %u was left out", i);
	*ret_path = x->path;
	*ret_why = x->why;
	return 0;
}

void weir__modules_why(struct weir *weir, char *text, size_t room)
{
	const struct weir__refused *x = refused(weir, 0);

	*text = '\0';
	for (; x; x = x->next)
		weir__append(text, room, "; %s was left out: %s",
			     strrchr(x->path, '/') + 1, x->why);
}

void weir__modules_free(struct weir__registry *registry)
{
	struct weir__refused *x;
	struct weir__module *m;

	while ((x = registry->refused)) {
		registry->refused = x->next;
		drop_refused(x);
	}
	while ((m = registry->modules)) {
		registry->modules = m->next;
		drop(m);
	}
}
