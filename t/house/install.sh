#!/bin/sh
# SPDX-License-Identifier: MIT
# The installed library, as another program uses it. With WEIR_T_DEST=FOLDER the
# tree that is installed there (make installcheck).
. "${0%/*}/../tap.inc"

command -v pkg-config >/dev/null || skip_all 'no pkg-config'
sanitize=
test "$WEIR_T_SANITIZER" = no || sanitize=-fsanitize=$WEIR_T_SANITIZER
dest=${WEIR_T_DEST-$tmp/dest}
source=$srcdir/examples/load.c

installs()
{
	test "${WEIR_T_DEST+set}" = set ||
		$MAKE -C "$builddir" install DESTDIR="$dest"
}

# place NAME: the installed tree's directory of that name.
place()
{
	sed -n "s/^$1='\(.*\)'$/\1/p" "$tmp/dirs"
}

dirs()
{
	for name in bindir libdir includedir mandir; do
		printf '\n_%s:\n\t@echo "%s='"'"'$(%s)'"'"'"\n' $name $name $name
	done >"$tmp/dirs.mk"
	$MAKE -s --no-print-directory -C "$builddir" -f Makefile \
		-f "$tmp/dirs.mk" _bindir _libdir _includedir _mandir
}

# pkg-config for the tree that is installed below $dest.
pc()
{
	PKG_CONFIG_SYSROOT_DIR=$dest \
		PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
		PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
		PKG_CONFIG_LIBDIR=$dest$libdir/pkgconfig pkg-config "$@" weir
}

# compile FLAG...
compile()
{
	$CC -Wall -Wextra -Werror $sanitize -o "$tmp/load" "$source" \
		$(pc --cflags --libs) "$@"
}

# The README says which -rpath a program needs for a prefix of its own.
by_rpath()
{
	grep -q -e '-Wl,-rpath,DIR/lib' "$srcdir/README.md" &&
		compile -Wl,-rpath,"$dest$libdir" &&
		(unset LD_LIBRARY_PATH && fails)
}

# The program in the README is examples/load.c.
shown()
{
	sed -n '/^```c$/,/^```$/p' "$srcdir/README.md" | sed '/^```/d' |
		diff - "$source"
}

names()
{
	"$dest$bindir/weir" synth tiny "$tmp/m" --shards 2 &&
	"$dest$bindir/weir" inspect --json "$tmp/m" |
		jq -r '.tensors[].name' >"$tmp/want" &&
	"$tmp/load" "$tmp/m" >"$tmp/got" && test -s "$tmp/got" &&
	diff "$tmp/want" "$tmp/got"
}

fails()
{
	ASAN_OPTIONS=detect_leaks=0 "$tmp/load" /nonexistent >"$tmp/got" 2>&1
	test $? = 1 && grep -q '^weir_.*: /nonexistent: No such file' "$tmp/got" ||
		{ cat "$tmp/got"; false; }
}

# Names without a page in the installed tree.
without_page()
{
	sed -n 's/^[[:space:]]*\(weir_[a-z0-9_]*\);$/\1/p' \
		"$srcdir/lib/libweir.map" | while read -r name; do
		test -s "$dest$mandir/man3/$name.3" || echo "$name"
	done
}

needed()
{
	readelf -d "$dest$libdir/libweir.so" | sed -n 's/.*NEEDED.*\[\(lib[a-z_+-]*\).*/\1/p'
}

loaded_in_thread()
{
	cat >"$tmp/thread.c" <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <weir.h>

static void *use(void *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*open_root)(const struct weir_opts *, struct weir **);
	void (*close_root)(struct weir *);
	struct weir_io_info info = { .size = sizeof(info) };
	int (*io)(struct weir *, struct weir_io_info *);
	const char *(*why)(void);
	struct weir *weir;

	if (!lib)
		return fprintf(stderr, "%s\n", dlerror()), (void *)1;
	*(void **)&open_root = dlsym(lib, "weir_open");
	*(void **)&close_root = dlsym(lib, "weir_close");
	*(void **)&io = dlsym(lib, "weir_io_info");
	*(void **)&why = dlsym(lib, "weir_error");
	if (open_root(NULL, &weir) < 0 || io(weir, &info) < 0)
		return fprintf(stderr, "%s\n", why()), (void *)1;
	close_root(weir);
	dlclose(lib);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *failed = NULL;

	(void)argc;
	for (int i = 0; i < 20 && !failed; i++) {
		pthread_create(&thread, NULL, use, argv[1]);
		pthread_join(thread, &failed);
	}
	return failed != NULL;
}
END
	$CC -pthread $sanitize -o "$tmp/thread" "$tmp/thread.c" \
		$(pc --cflags) -ldl &&
	"$tmp/thread" "$dest$libdir/libweir.so"
}

# A module needs the installed headers only, and no library.
module_compiles()
{
	$CC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -fPIC -shared \
		-o "$tmp/weir-test.so" "$srcdir/t/modules/test.c" $(pc --cflags)
}

# The example, as C and as C++: the installed command shows its device.
example_module()
{
	module=$srcdir/examples/module.c
	mkdir -p "$tmp/modules" &&
	$CC -std=c99 -D_POSIX_C_SOURCE=200809L -pedantic -Wall -Wextra -Werror \
		-fPIC -shared -o "$tmp/modules/weir-example.so" "$module" \
		$(pc --cflags) &&
	WEIR_MODULE_PATH=$tmp/modules "$dest$bindir/weir" devices |
		grep '^EXAMPLE0: ' || return
	! command -v g++ >/dev/null ||
		g++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fPIC \
			-shared -o "$tmp/module.so" "$module" $(pc --cflags)
}

# The objects of a static library are those of libweir-core.a. The libraries come
# from the .pc file, as pkg-config --static lists them.
static()
{
	archive=$dest$libdir/libweir.a
	test -e "$archive" || archive=$builddir/lib/.libs/libweir-core.a
	pc --static --libs | grep -q -e '-luring' &&
	$CC -pthread $sanitize -o "$tmp/load" "$source" $(pc --cflags) \
		"$archive" $(pc --static --libs-only-l | sed 's/-lweir //') &&
	! readelf -d "$tmp/load" | grep libweir &&
	(unset LD_LIBRARY_PATH && fails) &&
	"$tmp/load" "$tmp/m" | diff "$tmp/want" -
}

# Another --prefix makes again whatever contains the old one.
makes_again()
{
	$MAKE -C "$builddir" -n -W libdirs.stamp lib/libweir.la \
		>"$tmp/again" &&
	grep -q 'libweir_core_la-module.lo' "$tmp/again" &&
	grep -q -e '--mode=link.* -o lib/libweir.la' "$tmp/again" &&
	for name in hooks/libweir-torch lib/cuda/weir-cuda; do
		test ! -e "$builddir/$name.la" ||
			$MAKE -C "$builddir" -n -W libdirs.stamp $name.la |
			grep -q -e "--mode=link.* -o $name.la" || return
	done
}

uninstalls()
{
	$MAKE -C "$builddir" uninstall DESTDIR="$dest" >/dev/null &&
	left=$(find "$dest" ! -type d) && echo "$left" && test -z "$left"
}

dirs >"$tmp/dirs"
bindir=$(place bindir) libdir=$(place libdir)
includedir=$(place includedir) mandir=$(place mandir)
LD_LIBRARY_PATH=$dest$libdir
export LD_LIBRARY_PATH

plan 18
check 'make install works with DESTDIR' installs
check 'pkg-config has the version' pc --exact-version=0.1.0
is "$("$dest$bindir/weir" --version)" 'weir 0.1.0' \
	'the installed command prints its version'
is "$(cd "$srcdir/include" && find . -name '*.h' | sort)" \
	"$(cd "$dest$includedir" && find ./weir.h ./weir -name '*.h' | sort)" \
	'every public header is installed'
check 'the README shows examples/load.c as it is' shown
check 'examples/load.c has at most 24 lines' \
	test "$(wc -l <"$source")" -le 24
check 'examples/load.c compiles with the flags of pkg-config' compile
check 'the compiled example loads a model of two shards' names
check 'the compiled example prints why it cannot load' fails
check 'the example finds the library with the -rpath of the README' \
	by_rpath
check 'a module compiles with the installed headers' module_compiles
check 'examples/module.c is C and C++, and its device is shown' example_module
is "$(without_page)" '' 'each call has an installed page'
is "$(needed | grep -vE '^lib(c|uring|xxhash|crypto|numa|asan|ubsan|tsan|m|ld-linux-x86-)$' |
	grep -v '^libgcc')" '' \
	'the library needs no library that its .pc file does not name'
check 'the library can be opened and closed in threads that end' \
	loaded_in_thread
check 'a program linked with the objects of weir needs no library of weir' \
	static
check 'libraries are made again for another --prefix' makes_again
if test "${WEIR_T_DEST+set}" = set; then
	skip 1 'this test did not install the tree'
else
	check 'make uninstall leaves no file' uninstalls
fi
finish
