#!/bin/sh
# SPDX-License-Identifier: MIT
# File systems without O_DIRECT or NOWAIT, other users' files, paths that are
# not regular files, and systems without /proc or a writable file system.
. "${0%/*}/../env.inc"

images=$tmp/images
mkdir mnt "$images"

# loads MODEL SENTENCE: the digests are the same by every way.
loads()
{
	is "$(digests weir load "$1" --digest)" "$want" "$2"
	for opt in '--way direct' '--io uring' '--io sync --way direct'; do
		is "$(digests timeout 300 weir load "$1" $opt --digest)" \
			"$want" "$2 with $opt"
	done
}

on_tmpfs()
{
	mount -t tmpfs none mnt && cp -r m mnt/m || return
	loads mnt/m 'a model on tmpfs is loaded'
	works 'a load from tmpfs prints a report' \
		weir load mnt/m --way direct --json
	check 'the report of a load from tmpfs has the reason for no direct reads' \
		says \
		'j["ways"]["buffered"] == j["bytes"] and j["fallbacks"] == 3
		and "keeps its files in memory" in j["note"]'
	umount mnt
}

on_overlay()
{
	mount -t tmpfs none mnt && mkdir mnt/upper mnt/work mnt/all &&
		mount -t overlay none -o \
		"lowerdir=m,upperdir=mnt/upper,workdir=mnt/work" mnt/all \
		2>/dev/null || {
		skip 6 'no overlayfs'
		return
	}
	loads mnt/all 'a model on overlayfs is loaded'
	works 'a load from overlayfs prints a report' \
		weir load mnt/all --way direct --json
	check 'the report of a load from overlayfs has the reason for buffered reads' \
		says \
		'"RWF_NOWAIT" in j["note"] or "direct" in j["note"]'
	umount mnt/all && umount mnt
}

# on_image TYPE SIZE: a file system of its minimum size in a sparse file.
on_image()
{
	rm -f "$images/fs"
	truncate -s "$2" "$images/fs"
	command -v "mkfs.$1" >/dev/null &&
		"mkfs.$1" -q "$images/fs" >/dev/null 2>&1 &&
		mount -o loop "$images/fs" mnt 2>/dev/null || {
		skip 4 "no $1 here"
		return
	}
	cp -r m mnt/m && evict mnt/m/*
	loads mnt/m "a model on $1 is loaded"
	umount mnt
}

# Remount every mount: the checkout and /tmp may not be on the root's.
read_only_view()
{
	mount --rbind / mnt && for dir in $(awk -v top="$PWD/mnt" \
		'$5 == top || index($5, top "/") == 1 { print $5 }' \
		/proc/self/mountinfo); do
		mount -o remount,bind,ro "$dir" 2>/dev/null
	done
	! test -w mnt && ! test -w "mnt$PWD"
}

read_only_root()
{
	read_only_view || {
		skip 1 'no read-only view of the root'
		return
	}
	is "$(digests chroot mnt env LD_LIBRARY_PATH="$LD_LIBRARY_PATH" \
		"$(command -v weir)" load "$WEIR_T_DIR/m" --digest)" "$want" \
		'a model is loaded where every file system is read-only'
	umount -l mnt
}

without_proc()
{
	test "$WEIR_T_SANITIZER" = no || {
		skip 5 'a sanitizer reads even its options from /proc'
		return
	}
	umount -l /sys 2>/dev/null
	umount -l /proc && ! test -e /proc/self || {
		skip 5 '/proc cannot be taken away'
		return
	}
	works 'without /proc and /sys devices are listed' weir devices --json
	check 'without /proc and /sys the CPU has its memory' says \
		'0 < j["devices"][0]["memory"]["free"]'
	check 'without /proc and /sys huge memory reports that /sys is missing' \
		says \
		'"cannot be read" in kind["huge"]["tried"]["why"]'
	works 'without /proc and /sys a model is loaded' \
		weir load m --way direct --json
	is "$(digests weir load m --digest)" "$want" \
		'without /proc and /sys a model is loaded with the right bytes'
}

# The second call of this script, in a mount namespace of its own, so that all
# mounts end with the test.
if test "$WEIR_T_ALONE" = yes; then
	t_done=$WEIR_T_DONE
	cd "$WEIR_T_DIR" || exit 1
	images=$WEIR_T_DIR/images
	on_tmpfs
	on_overlay
	on_image xfs 300M
	on_image btrfs 120M
	read_only_root
	without_proc
	test "$t_failed" = 0
	exit $?
fi

# The kernel does not report what the page cache has of another user's file.
of_another()
{
	can_be_nobody || {
		skip 6 "$(why_not_nobody)"
		return
	}
	chmod 644 one.safetensors
	cat one.safetensors >/dev/null
	works "another user's readable file is loaded" \
		nobody weir load one.safetensors --json
	buffered='j["ways"]["buffered"] == j["bytes"]'
	# The kernel may evict pages at any time.
	for _ in $(seq 50); do
		says "$buffered" 2>/dev/null && break
		cat one.safetensors >/dev/null
		run nobody weir load one.safetensors --json
	done
	check "another user's file in the page cache is read buffered" says \
		"$buffered"
	is "$(digests nobody weir load one.safetensors --digest)" \
		"$(digests weir load one.safetensors --digest)" \
		"another user's file is loaded with the right bytes"
	evict one.safetensors
	weir load one.safetensors --way direct --json >out 2>err
	if says 'j["ways"]["in_place"] > 0' 2>/dev/null; then
		direct='j["ways"]["in_place"] > 0 and j["ways"]["buffered"] == 0'
		# The kernel keeps pages that a busy CPU still holds.
		for _ in $(seq 50); do
			evict one.safetensors
			run nobody weir load one.safetensors --json
			says "$direct" 2>/dev/null && break
			sleep 0.1
		done
		works "another user's file that is not in the page cache is loaded" \
			nobody weir load one.safetensors --json
		check "another user's file that is not in the page cache is read directly" \
			says "$direct"
		# Loads that fill the cache do so in each of these attempts; on a
		# busy machine one attempt may see pages that the kernel kept.
		for _ in $(seq 10); do
			for _ in 1 2 3; do
				run nobody weir load one.safetensors --json
			done
			says "$direct" 2>/dev/null && break
			evict one.safetensors
			sleep 0.1
		done
		check "another user's file is read directly by repeated loads" \
			says "$direct"
	else
		skip 3 'no direct reads here'
	fi
}

# The layout of the Hugging Face hub's cache.
hub_cache()
{
	mkdir -p hub/blobs hub/snapshots/0123abc
	for file in m/*; do
		blob=$(sha256sum <"$file" | cut -c 1-64)
		cp "$file" "hub/blobs/$blob"
		ln -s "../../blobs/$blob" "hub/snapshots/0123abc/${file#m/}"
	done
	is "$(digests weir load hub/snapshots/0123abc --digest)" "$want" \
		'a folder of links to blobs is a model'
	rm "hub/blobs/$blob"
	run timeout 300 weir load hub/snapshots/0123abc
	is_refusal 1 "${file#m/}"
	t_result $? 'a link to a missing blob is named' ||
		show_run
}

# Each as a model and as a shard.
no_files()
{
	mkfifo fifo.safetensors
	mkdir folder.safetensors
	ln -s nowhere dangling.safetensors
	ln -s /dev/zero zero.safetensors
	python3 -c 'import socket
socket.socket(socket.AF_UNIX).bind("socket.safetensors")'
	for name in fifo folder dangling zero socket; do
		refused 1 "$name.safetensors" "a $name is refused as a model" \
			timeout 300 weir load $name.safetensors
		mkdir "s-$name"
		ln -s "../$name.safetensors" "s-$name/"
		printf '{"weight_map":{"a":"%s.safetensors"}}' $name \
			>"s-$name/model.safetensors.index.json"
		refused 1 "$name.safetensors" "a $name is refused as a shard" \
			timeout 300 weir load "s-$name"
	done
}

plan 45
weir synth many m --count 500 --shards 3 2>/dev/null || exit 1
weir synth many one.safetensors --count 512 2>/dev/null || exit 1
want=$(digests weir load m --digest --io sync)
of_another
hub_cache
no_files
if user unshare -Ur true 2>/dev/null; then
	is "$(digests user unshare -Ur weir load m --digest)" "$want" \
		'root of a user namespace loads a model'
else
	skip 1 'no user namespaces'
fi
if can_mount; then
	WEIR_T_ALONE=yes WEIR_T_DONE=$t_done WEIR_T_DIR=$tmp want=$want \
		alone sh "$srcdir/t/io/env-files.sh" || t_failed=1
	t_done=$((t_done + 26))
else
	skip 26 "no mounts of our own: $why_not"
fi
finish
