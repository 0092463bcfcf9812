/* SPDX-License-Identifier: MIT */
/*
 * Modules: backends in shared objects of their own. They are searched in
 * absolute directories only, and a module that fails does not end the search.
 * A program may also add backends of its own, without a search.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/registry.h"

#define MAX_DIRS 32
#define MAX_HEADERS 64u /* program headers of an ELF file */

struct weir__module {
	struct weir__module *next;
	char *path;
	void *handle;
	dev_t dev;
	ino_t ino;
};

/* A module or a directory that the search left out. */
struct weir__refused {
	struct weir__refused *next;
	char *path, *why;
};

/*
 * A shared object that was cut short kills the process inside dlopen(3), which
 * maps its segments without comparing them with the file's size. So the sizes
 * are checked first.
 */
static int elf_check_header(const ElfW(Ehdr) * e, int64_t got)
{
	if (got != (int64_t)sizeof(*e) ||
	    memcmp(e->e_ident, ELFMAG, SELFMAG) != 0)
		return weir__fail(-ENOEXEC, "not an ELF file");
	if (e->e_type != ET_DYN || e->e_phentsize != sizeof(ElfW(Phdr)) ||
	    !e->e_phnum || e->e_phnum > MAX_HEADERS)
		return weir__fail(-ENOEXEC,
				  "not a shared object of this machine");
	return 0;
}

static int elf_check_segments(int fd, const ElfW(Ehdr) * e, uint64_t size)
{
	ElfW(Phdr) p[MAX_HEADERS];
	size_t bytes = e->e_phnum * sizeof(p[0]);

	if (weir__sys_pread(fd, p, bytes, e->e_phoff) != (int64_t)bytes)
		return weir__fail(
			-ENOEXEC,
			"cut short: %llu bytes, less than its headers need",
			(unsigned long long)size);
	for (unsigned i = 0; i < e->e_phnum; i++) {
		uint64_t end;

		if (p[i].p_type != PT_LOAD)
			continue;
		if (weir__add_over(p[i].p_offset, p[i].p_filesz, &end) ||
		    end > size)
			return weir__fail(
				-ENOEXEC,
				"cut short: %llu bytes, a segment ends at %llu",
				(unsigned long long)size,
				(unsigned long long)end);
	}
	return 0;
}

/* -ENOEXEC with a sentence: the file is not a whole shared object. */
static int elf_check(int fd, uint64_t size)
{
	ElfW(Ehdr) e;
	int64_t got = weir__sys_pread(fd, &e, sizeof(e), 0);
	int r = elf_check_header(&e, got);

	return r < 0 ? r : elf_check_segments(fd, &e, size);
}

/*
 * Says how another user may write to the file or directory; NULL: only root,
 * this user and its group may.
 */
static const char *foreign_writer(const struct stat *st)
{
	if (st->st_uid && st->st_uid != geteuid())
		return "belongs to another user";
	if (st->st_mode & S_IWOTH)
		return "can be written by everybody";
	if ((st->st_mode & S_IWGRP) && st->st_gid && st->st_gid != getegid())
		return "can be written by another group";
	return NULL;
}

/* Ask the same about the directory of the absolute @path. */
static int check_dir(const char *path, const char **ret_why)
{
	char dir[PATH_MAX];
	struct stat st;
	int r;

	snprintf(dir, sizeof(dir), "%.*s/", (int)(strrchr(path, '/') - path),
		 path);
	r = weir__sys_stat(dir, &st);
	if (r < 0)
		return weir__fail_sys(r, "%s", dir);
	*ret_why = foreign_writer(&st);
	return 0;
}

/*
 * The path of the file without symbolic links. -ESTALE with a sentence: it is
 * not the file of @st any more.
 */
static int resolve_links(const char *path, const struct stat *st,
			 char real[static PATH_MAX])
{
	struct stat now;
	int r = weir__sys_realpath(path, real);

	if (r >= 0)
		r = weir__sys_stat(real, &now);
	if (r < 0)
		return weir__fail_sys(r, "its links cannot be resolved");
	if (now.st_dev == st->st_dev && now.st_ino == st->st_ino)
		return 0;
	return weir__fail(-ESTALE, "it was replaced while it was checked");
}

/*
 * Check whether other users could have put code into the module: they could if
 * they may write to the file, to the directory in which it was found, or to the
 * directory to which a link there leads. Then the log gets a line, and a strict
 * root returns -EPERM with a sentence. The file of @st was opened as @path.
 */
static int check_writers(struct weir *weir, const char *path,
			 const struct stat *st)
{
	const char *what = "it", *why = foreign_writer(st);
	char real[PATH_MAX];
	int r = 0;

	if (!why) {
		what = "its directory";
		r = check_dir(path, &why);
	}
	if (!why && r >= 0) {
		what = "the directory that it links to";
		r = resolve_links(path, st, real);
		if (r >= 0)
			r = check_dir(real, &why);
	}
	if (r < 0 || !why)
		return r;
	if (weir->opts.flags & WEIR_OPEN_STRICT_MODULES)
		return weir__fail(-EPERM, "refused: %s %s", what, why);
	weir__log(weir, "module %s: %s %s", path, what, why);
	return 0;
}

static int check_file(struct weir *weir, const char *path,
		      const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return weir__fail(-ENOEXEC, "not a regular file");
	for (struct weir__module *m = weir__registry(weir)->modules; m;
	     m = m->next)
		if (m->dev == st->st_dev && m->ino == st->st_ino)
			return weir__fail(-EEXIST, "loaded already, as %s",
					  m->path);
	return check_writers(weir, path, st);
}

/* The handle is open: add the backend and its devices. */
static int module_enter(struct weir *weir, struct weir__module *m)
{
	weir_backend_entry_fn *entry;

	*(void **)&entry = dlsym(m->handle, WEIR_BACKEND_ENTRY);
	if (!entry)
		return weir__fail(-ENOEXEC, "it has no symbol %s",
				  WEIR_BACKEND_ENTRY);
	/* This stays the reason if the module fails without giving one. */
	weir__fail(-EBADMSG, "it gives no reason");
	return weir__registry_enter(weir, entry, m->path);
}

void weir__module_drop(struct weir__module *m)
{
	if (m->handle)
		dlclose(m->handle);
	weir__free(m->path);
	weir__free(m);
}

static void refused_drop(struct weir__refused *x)
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
		weir__module_drop(m);
		return NULL;
	}
	return m;
}

/* dlerror(3) without the name that it begins with: the caller adds the path. */
static int fail_dlopen(int r, const char *name)
{
	const char *why = dlerror();
	size_t len = strlen(name);

	if (!strncmp(why, name, len) && !strncmp(why + len, ": ", 2))
		why += len + 2;
	/* The module is there: this is a library that it needs. */
	if (strstr(why, "cannot open shared object file"))
		return weir__fail(r, "%s; install the package that has it",
				  why);
	return weir__fail(r, "%s", why);
}

/* dlopen(3) replaces $ORIGIN, $LIB and $PLATFORM in a path, also as ${LIB}. */
static bool is_expanded(const char *path)
{
	while ((path = strchr(path, '$'))) {
		path++;
		if (*path && strchr("{OLP", *path))
			return true;
	}
	return false;
}

/*
 * Load the file that was checked by its real path: debuggers, profilers and
 * dladdr(3) open an object by the name that the dynamic linker has for it. The
 * path names the checked file before and after the load, so the linker has
 * opened no other, unless somebody exchanges the files twice in between: that
 * takes the right to write to the directory, which a strict root allows nobody
 * else. If the file was exchanged once, the code that an object runs when it is
 * loaded may have run, but its backend is not entered. An object that the
 * process loaded by this path earlier is used again, even if the file was
 * replaced since.
 */
static int open_handle(const char *path, const struct stat *st,
		       void **ret_handle)
{
	char real[PATH_MAX], after[PATH_MAX];
	void *handle;
	int r = resolve_links(path, st, real);

	if (r < 0)
		return r;
	if (is_expanded(real))
		return weir__fail(
			-EINVAL,
			"its path has $ORIGIN, $LIB, $PLATFORM or ${, for which the dynamic linker would open another file: rename the directory");
	r = weir__sys_dlopen(real, &handle);
	if (r < 0)
		return fail_dlopen(r, real);
	r = resolve_links(real, st, after);
	if (r < 0) {
		dlclose(handle);
		return r;
	}
	*ret_handle = handle;
	return 0;
}

/* Check and load the file at @fd, and do not enter it. */
static int load_file(struct weir *weir, const char *path, int fd,
		     struct weir__module **ret_module)
{
	struct weir__module *m;
	struct stat st;
	int r = weir__sys_fstat(fd, &st);

	if (r < 0)
		return weir__fail_sys(r, "fstat");
	r = check_file(weir, path, &st);
	if (r < 0 || (r = elf_check(fd, (uint64_t)st.st_size)) < 0)
		return r;
	m = new_module(path, &st);
	if (!m)
		return weir__fail(-ENOMEM, "no memory for a module");
	r = open_handle(path, &st, &m->handle);
	if (r < 0)
		weir__module_drop(m);
	else
		*ret_module = m;
	return r;
}

static int module_open(struct weir *weir, const char *path,
		       struct weir__module **ret_module)
{
	int fd = weir__sys_open(path, O_RDONLY | O_NONBLOCK, 0), r;

	if (fd < 0)
		return weir__fail_sys(fd, "open");
	r = load_file(weir, path, fd, ret_module);
	weir__sys_close(fd);
	return r;
}

/* module_lock is held. */
static int module_load(struct weir *weir, const char *path)
{
	struct weir__registry *registry = weir__registry(weir);
	struct weir__module *m;
	int r = module_open(weir, path, &m);

	if (r < 0)
		return r;
	r = module_enter(weir, m);
	if (r < 0) {
		weir__module_drop(m);
		return r;
	}
	m->next = registry->modules;
	registry->modules = m;
	return 0;
}

/* Remember what is left out, and why. @path has @len bytes, and may go on. */
static void refused_add(struct weir *weir, const char *path, size_t len,
			const char *why)
{
	struct weir__refused *x = weir__calloc(1, sizeof(*x)), **end;

	if (!x)
		return;
	x->path = weir__malloc(len + 1);
	x->why = weir__strdup(why);
	if (!x->path || !x->why) {
		refused_drop(x);
		return;
	}
	memcpy(x->path, path, len);
	x->path[len] = '\0';
	for (end = &weir__registry(weir)->refused; *end; end = &(*end)->next)
		;
	*end = x;
}

/* The reason is this thread's error. */
static void module_refuse(struct weir *weir, const char *path)
{
	weir__log(weir, "module %s: %s", path, weir_error());
	refused_add(weir, path, strlen(path), weir_error());
}

/* Load a module that was found in a directory. */
static void load_found(struct weir *weir, const char *dir, const char *name)
{
	char path[4096 + 256]; /* if it is too long, opening it fails */

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	/* The reason is kept, so no call is named before it. */
	weir__enter(NULL);
	if (module_load(weir, path) < 0)
		module_refuse(weir, path);
}

/* The module of a source (io/source_module.h), not of a backend. */
static bool is_source(const char *name)
{
	return !strcmp(name, "weir-http.so") ||
	       !strncmp(name, "weir-source-", 12);
}

static int is_module(const struct dirent *entry)
{
	const char *name = entry->d_name;
	size_t len = strlen(name);

	return len > 8 && !strncmp(name, "weir-", 5) &&
	       !strcmp(name + len - 3, ".so") && !is_source(name);
}

/* Directories that have been searched: some have several names. */
struct search {
	struct weir *weir;
	/* weir__module_find: the module to find; NULL: all of backends. */
	const char *name;
	void (*left_out)(void *arg, const char *path);
	void *arg;
	struct weir__module *found;
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

/* Load the module @s->name, if the directory has it. */
static void search_name(struct search *s, const char *dir)
{
	char path[4096 + 256];
	struct stat st;
	int r;

	if (s->found)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, s->name);
	r = weir__sys_stat(path, &st);
	if (r == -ENOENT || r == -ENOTDIR)
		return;
	weir__enter(NULL);
	if (module_open(s->weir, path, &s->found) < 0)
		s->left_out(s->arg, path);
}

static void search_dir(struct search *s, const char *dir)
{
	struct dirent **list;
	struct stat st;
	int n;

	if (weir__sys_stat(dir, &st) < 0 || seen_before(s, &st))
		return;
	if (s->name) {
		search_name(s, dir);
		return;
	}
	n = weir__sys_scandir(dir, is_module, &list);
	if (n < 0)
		return;
	for (int i = 0; i < n; i++) {
		load_found(s->weir, dir, list[i]->d_name);
		weir__free(list[i]);
	}
	weir__free(list);
}

/* The search for backends has said it already when a name is searched. */
static void refuse_dir(struct search *s, const char *path, size_t len,
		       const char *why)
{
	struct weir *weir = s->weir;

	if (s->name)
		return;
	weir__log(weir, "module path: '%s' is left out: %s",
		  weir__quote(path, len), why);
	if (len)
		refused_add(weir, path, len, why);
}

/* Relative directories are left out: they depend on the working directory. */
static void search_path(struct search *s, const char *path)
{
	static const char relative[] =
		"modules are searched in absolute directories only";
	char dir[4096], why[96];

	for (const char *p = path;; p++) {
		size_t len = strcspn(p, ":");

		if (*p != '/') {
			refuse_dir(s, p, len, relative);
		} else if (len >= sizeof(dir)) {
			snprintf(why, sizeof(why),
				 "it has %zu bytes, a directory's path at "
				 "most %zu",
				 len, sizeof(dir) - 1);
			refuse_dir(s, p, len, why);
		} else {
			snprintf(dir, sizeof(dir), "%.*s", (int)len, p);
			search_dir(s, dir);
		}
		p += len;
		if (!*p)
			return;
	}
}

/* DIR/weir and DIR of libweir.so itself, so that a tree can be moved. */
static void search_beside(struct search *s)
{
	int (*self)(struct weir *, const char *) = weir_module_load;
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

static void modules_search(struct search *s)
{
	const char *path = s->weir->module_path;

	if (!path)
		path = secure_getenv("WEIR_MODULE_PATH");
	if (path && *path)
		search_path(s, path);
	search_beside(s);
	search_dir(s, WEIR_MODULE_DIR);
}

/* registry->module_lock is held. */
static void modules_scan_once(struct weir *weir)
{
	struct weir__registry *registry = weir__registry(weir);
	struct search s = { .weir = weir };
	struct weir__error_saved saved;

	if (registry->scanned || atomic_load(&weir->closed))
		return;
	registry->scanned = true;
	weir__error_save(&saved);
	modules_search(&s);
	weir__error_restore(&saved);
}

int weir__module_find(struct weir *weir, const char *name,
		      void (*left_out)(void *arg, const char *path), void *arg,
		      struct weir__module **ret_module)
{
	struct weir__registry *registry = weir__registry(weir);
	struct search s = {
		.weir = weir, .name = name, .left_out = left_out, .arg = arg
	};

	pthread_mutex_lock(&registry->module_lock);
	modules_search(&s);
	pthread_mutex_unlock(&registry->module_lock);
	*ret_module = s.found;
	return s.found ? 0 : -ENOENT;
}

const char *weir__module_path(const struct weir__module *module)
{
	return module->path;
}

void *weir__module_symbol(const struct weir__module *module, const char *name)
{
	return dlsym(module->handle, name);
}

void weir__modules_scan(struct weir *weir)
{
	struct weir__registry *registry = weir__registry(weir);

	pthread_mutex_lock(&registry->module_lock);
	modules_scan_once(weir);
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
	modules_scan_once(weir);
	weir__enter(call);
	r = module_load(weir, path);
	pthread_mutex_unlock(&weir__registry(weir)->module_lock);
	/* A success does not change the text of the last failure. */
	if (!r)
		weir__error_restore(&saved);
	weir__enter(NULL);
	return r;
}

int weir_backend_add(struct weir *weir, weir_backend_entry_fn *entry)
{
	struct weir__error_saved saved;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	weir__error_save(&saved);
	weir__fail(-EBADMSG, "the backend gives no reason");
	pthread_mutex_lock(&weir__registry(weir)->module_lock);
	r = weir__registry_enter(weir, entry, NULL);
	pthread_mutex_unlock(&weir__registry(weir)->module_lock);
	if (!r)
		weir__error_restore(&saved);
	return r;
}

/* The list does not change after the search. */
static const struct weir__refused *refused_get(struct weir *weir, unsigned i)
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
	x = refused_get(weir, i);
	if (!x)
		return weir__fail(-ENOENT,
				  "there is no module %u that was left out", i);
	*ret_path = x->path;
	*ret_why = x->why;
	return 0;
}

void weir__modules_why(struct weir *weir, char *text, size_t room)
{
	const struct weir__refused *x = refused_get(weir, 0);
	const char *name;

	*text = '\0';
	for (; x; x = x->next) {
		name = *x->path == '/' ? strrchr(x->path, '/') + 1 : "";
		if (!*name)
			name = x->path;
		weir__append(text, room, "; %s was left out: %s",
			     weir__quote(name, strlen(name)), x->why);
	}
}

void weir__modules_free(struct weir__registry *registry)
{
	struct weir__refused *x;
	struct weir__module *m;

	while ((x = registry->refused)) {
		registry->refused = x->next;
		refused_drop(x);
	}
	while ((m = registry->modules)) {
		registry->modules = m->next;
		weir__module_drop(m);
	}
}
