#!/bin/sh
# SPDX-License-Identifier: MIT
# A cache folder after a first load that was killed, with two loads at once, with
# an object that is not what its hub publishes, and without room on the disk.
. "${0%/*}/../cli.inc"
. "${0%/*}/../serving.inc"

# The bytes of files with tensors that were requested since the last call.
asked()
{
	ask log | python3 -c 'import re, sys
print(sum(int(m[2]) + 1 - int(m[1]) for m in re.finditer(
    r"safetensors range=bytes=(\d+)-(\d+).* match=\S", sys.stdin.read())))'
}

# The bytes that partial files of the folder $1 have on the disk.
written()
{
	find "$1" -name '*.part' -printf '%b\n' 2>/dev/null |
		awk '{ n += $1 * 512 } END { print n + 0 }'
}

# The folder $1 has one whole file, that of the server, and nothing partial.
whole()
{
	test "$(find "$1" -name '*.url' | wc -l)" -eq 1 &&
		test -z "$(find "$1" -name '*.part' -o -name '*.state')" &&
		cmp m.safetensors "$1"/*.url
}

load()
{
	weir load --json --verify digests --cache-dir "$@"
}

plan 19
python3 - <<'END'
import json, random, struct
n = 9 << 20
header = json.dumps({"w": {"dtype": "U8", "shape": [n],
                           "data_offsets": [0, n]}}).encode()
with open("m.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(header)) + header + random.randbytes(n))
END
size=$(stat -c %s m.safetensors)
weir digest m.safetensors digests 2>/dev/null || exit 1

# 5 of 9 MiB arrive; the command is killed when 3 of them are on the disk.
weir load --cache-dir killed "$at/stops/5/m.safetensors" >lines 2>&1 &
pid=$!
tries=0
until test "$(written killed)" -ge $((3 << 20)); do
	tries=$((tries + 1))
	test $tries -lt 400 && kill -0 $pid 2>/dev/null || break
	sleep 0.05
done
kill -9 $pid
wait $pid 2>/dev/null
check 'a first load that was killed leaves a partial file' \
	test "$(find killed -name '*.part' | wc -l)" -eq 1
is "$(find killed -name '*.url')" '' 'and none that is whole'
ask go >/dev/null
ask log >/dev/null
works 'the next load has the right bytes' \
	load killed "$at/stops/5/m.safetensors"
check 'some of them come from the folder' says \
	'k[0]["cached"] >= 2 << 20 and k[0]["remote"] > 0'
check 'what is missing is requested, no more' \
	test "$(asked)" -le $((size - (2 << 20)))
check 'the file is whole then' whole killed
works 'a third load has the right bytes' \
	load killed "$at/stops/5/m.safetensors"
is "$(asked)" 0 'without a request for them'

# Two at once.
load both "$at/file/m.safetensors" >one 2>&1 &
load both "$at/file/m.safetensors" >two 2>&1
status=$?
wait $!
is "$? $status" '0 0' 'two first loads at once have the right bytes'
check 'the file is whole' whole both

# Bytes that are not those that a hub publishes.
HF_ENDPOINT=$at
export HF_ENDPOINT
sha256sum /dev/null | cut -c 1-64 >m.safetensors.published
run weir load --cache-dir wrong hf://me/files/m.safetensors
is "$(find wrong -type f)" '' \
	'nothing is kept of an object with another SHA-256 than is published'
sha256sum m.safetensors | cut -c 1-64 >m.safetensors.published
works 'one with the published SHA-256 is read' \
	weir load --cache-dir wrong hf://me/files/m.safetensors
check 'and kept by this name' cmp m.safetensors \
	"wrong/$(cat m.safetensors.published).sum"

# No room.
works 'an object that is larger than files may be is read' \
	sh -c 'ulimit -f 8192; exec "$@"' sh \
	weir load --cache-dir limited "$at/file/m.safetensors"
is "$(find limited -name '*.part' -o -name '*.url')" '' 'and not kept'
# full COMMAND...: the folder full has room for 4 MiB. Then list it.
full()
{
	unshare -m --propagation private sh -c 'PATH=$PATH:/usr/sbin:/sbin
		mount -t tmpfs -o size=4m,mode=0700 none full &&
		"$@" && ls full' sh "$@"
}

mkdir full
why_not=$(full true 2>&1) || {
	skip 4 "$why_not"
	finish
	exit
}
full weir load --verify digests --cache-dir full "$at/file/m.safetensors" \
	>out 2>err
is "$?" 0 'a load through a folder on a full disk has the right bytes'
check 'no file there is whole' sh -c '! grep -q "url$" out'
full sh -c 'for i in 1 2; do weir load --json --verify digests --cache-dir \
	full "$1" || exit; done' sh "$at/file/m.safetensors" >out 2>err
is "$?" 0 'so has the next one'
check 'with what the folder has' \
	sh -c 'tr , "\n" <out | grep -q "\"cached\": [1-9]"'
finish
