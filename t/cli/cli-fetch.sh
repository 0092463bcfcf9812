#!/bin/sh
# SPDX-License-Identifier: MIT
# weir fetch, by weir-http.so and t/http/server.py: what is requested after the
# command was killed, and by two commands at once.
. "${0%/*}/../cli.inc"
. "${0%/*}/../serving.inc"

# The bytes that were requested of files with tensors since the last call,
# and the first of them. Requests that open an object have no If-Match.
asked()
{
	ask log | python3 -c 'import re, sys
total, first = 0, 1 << 60
for line in sys.stdin:
    m = re.search(r"safetensors range=bytes=(\d+)-(\d+).* match=\S", line)
    if m:
        total += int(m[2]) + 1 - int(m[1])
        first = min(first, int(m[1]))
print(total, first)'
}

# The JSON of `weir fetch` has received=$1 and kept=$2.
reported()
{
	says "j['received'] $1 and j['kept'] $2"
}

same()
{
	diff -r -x .weir "$1" "$2"
}

plan 32
mkdir model
weir synth tiny model --shards 2 2>/dev/null || exit 1
echo '{"model_type": "tiny"}' >model/config.json
echo '{}' >model/tokenizer.json
works 'weir fetch takes the URL of a folder' \
	weir fetch --json "$at/file/model/" got
check 'weir fetch writes the files of the folder' same model got
check 'the report says what was received' reported '== j["bytes"] > 0' '== 0'
check 'weir(1) has the members of the report' documented weir.1
ask log >/dev/null
works 'weir fetch may be repeated' weir fetch --json "$at/file/model/" got
check 'files that are there are not received again' reported '== 0' '== 5'
is "$(asked)" "0 $((1 << 60))" 'and not requested'

weir fetch "$at/file/model/" got 2>out
check 'weir fetch says how many files were there' \
	grep -q '(0 B/s), 5 files complete before$' out
rm got/config.json
weir fetch "$at/file/model/" got 2>out
check 'of which one was not' grep -q ', 4 files complete before$' out
ask log >/dev/null

# 9 MiB, of which 5 arrive; then the command is killed.
python3 - <<'END'
import json, random, struct
n = 9 << 20
header = json.dumps({"w": {"dtype": "U8", "shape": [n],
                           "data_offsets": [0, n]}}).encode()
with open("m.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(header)) + header + random.randbytes(n))
END
mkdir part
: >lines
weir fetch --progress-fd 3 "$at/stops/5/m.safetensors" part 3>lines 2>/dev/null &
pid=$!
tries=0
until tail -n 1 lines | grep -q "\"bytes\": $((5 << 20)),"; do
	tries=$((tries + 1))
	test $tries -lt 400 && kill -0 $pid 2>/dev/null || break
	sleep 0.05
done
kill -9 $pid
wait $pid 2>/dev/null
check 'a command that was killed leaves a partial file' \
	test -e part/m.safetensors.part
check 'and no file with the name of the whole' \
	test ! -e part/m.safetensors
ask go >/dev/null
ask log >/dev/null
works 'the next command goes on' \
	weir fetch --json "$at/stops/5/m.safetensors" part
check 'the file is that of the server' cmp m.safetensors part/m.safetensors
set -- $(asked)
is "$2" $((5 << 20)) 'the first byte requested is the first one missing'
check 'only missing bytes are requested' \
	test "$1" -eq $(($(stat -c %s m.safetensors) - (5 << 20)))
check 'nothing is partial any more' \
	test ! -e part/m.safetensors.part

# Two at once.
ask log >/dev/null
weir fetch --json "$at/file/m.safetensors" both >one 2>&1 &
weir fetch --json "$at/file/m.safetensors" both >two 2>&1
status=$?
wait $!
is "$? $status" '0 0' 'two commands fetch into one folder'
check 'the file is right' cmp m.safetensors both/m.safetensors
set -- $(asked)
check 'its bytes are requested once' \
	test "$1" -le "$(stat -c %s m.safetensors)"

# Another ETag.
cp m.safetensors new.safetensors
printf 'new' | dd of=new.safetensors bs=1 seek=5000000 conv=notrunc 2>/dev/null
mv new.safetensors m.safetensors
works 'an object that has changed is fetched again' \
	weir fetch --json "$at/file/m.safetensors" both
check 'the file is the new one' cmp m.safetensors both/m.safetensors
echo mine >both/m.safetensors
refused 1 'both/m.safetensors: there is another file' \
	'a file that was changed here is not replaced' \
	weir fetch "$at/file/m.safetensors" both
works 'weir fetch --replace replaces it' \
	weir fetch --replace --quiet "$at/file/m.safetensors" both
check 'and prints nothing with --quiet' test ! -s err

# Bytes that are not those that a hub publishes.
HF_ENDPOINT=$at
export HF_ENDPOINT
sha256sum /dev/null | cut -c 1-64 >m.safetensors.published
refused 1 'what was fetched of it was removed' \
	'a file of a hub with another SHA-256 is refused' \
	weir fetch hf://me/files/m.safetensors wrong
is "$(find wrong -type f)" '' 'and nothing of it is left'
sha256sum m.safetensors | cut -c 1-64 >m.safetensors.published
works 'one with the published SHA-256 is fetched into that folder' \
	weir fetch hf://me/files/m.safetensors wrong
check 'the file is that of the hub' cmp m.safetensors wrong/m.safetensors
works 'weir verify knows the SHA-256 of a file that weir fetch has put there' \
	weir verify wrong/m.safetensors
printf '!' | dd of=wrong/m.safetensors bs=1 seek=5000000 conv=notrunc \
	2>/dev/null
run weir verify wrong/m.safetensors
is "$status" 1 'and refuses the file when a byte of it has changed'
refused 1 'no URL' 'a path is refused' weir fetch m.safetensors both
refused 1 '404' 'an object that is not there is refused' \
	weir fetch "$at/file/none.safetensors" both
finish
