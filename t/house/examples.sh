#!/bin/sh
# SPDX-License-Identifier: MIT
# The example programs do what their comments say.
. "${0%/*}/../tap.inc"

cd "$builddir" || exit 1
test -x tools/weir || skip_all 'the command is not built'
command -v jq >/dev/null || skip_all 'no jq'
PATH=$builddir/tools:$PATH
model=$tmp/m
weir synth tiny "$model" --shards 2 2>"$tmp/err" || skip_all "$(cat "$tmp/err")"
count=$(weir inspect --json "$model" | jq '.tensors | length')
shard=$(ls "$model"/*.safetensors | head -n 1)

# fails SENTENCE COMMAND...: it exits with 1 and has the sentence on stderr.
fails()
{
	sentence=$1
	shift
	"$@" 2>&1 >/dev/null | tee "$tmp/err"
	"$@" >/dev/null 2>&1
	test $? = 1 && grep -qF "$sentence" "$tmp/err"
}

plan 40
is "$(examples/load "$model" | wc -l)" "$count" \
	'examples/load lists every tensor'
is "$(examples/arrive "$model" | grep -c ' ms  ')" "$count" \
	'examples/arrive waits for every tensor'
has "$(examples/arrive "$model")" 'bytes: ' 'examples/arrive prints a report'
name=$(examples/load "$model" | head -n 1)
is "$(examples/arrive "$model" "$name" | grep -c ' ms  ')" 1 \
	'examples/arrive loads the tensors that it is given'
check 'examples/arrive refuses a pattern that matches no tensor' \
	fails 'weir_plan_add: ' examples/arrive "$model" no.such.tensor
is "$(examples/queue "$shard")" 'done: two reads' \
	'examples/queue calls its function after its reads'
check 'examples/queue names a file that it cannot open' \
	fails '/no/such/file' examples/queue /no/such/file
is "$(examples/engine "$model" 0 1 | wc -l)" "$count" \
	'examples/engine loads every tensor'
is "$(examples/engine "$model" 1 7 | grep -c 'o_proj.weight .*, sliced$')" 1 \
	'examples/engine loads its rows of matrices'
is "$(examples/engine "$model" 1 7 | grep -c 'norm.weight .*, as F32$')" 2 \
	'examples/engine converts vectors'

has "$(examples/save "$model" "$tmp/saved.safetensors")" 'saved ' \
	'examples/save saves a model'
is "$(examples/load "$tmp/saved.safetensors" | wc -l)" "$count" \
	'examples/save saves every tensor'
is "$(weir inspect --json "$tmp/saved.safetensors" |
	jq -r '.metadata.maker, ([.tensors[] |
		select((.shape | length == 2) and .dtype == "F32")] | length)' |
	xargs)" 'examples/save 0' 'examples/save converts matrices, and adds metadata'
check 'examples/save saves shards' \
	examples/save "$model" "$tmp/parts.safetensors" 100000
check 'examples/save names a folder that does not exist' \
	fails '/no/such' examples/save "$model" /no/such/m.safetensors

is "$(examples/park "$model" "$model" | grep -c 'back, 0 of them from copies$')" 2 \
	'examples/park brings each model back from its files'
check 'examples/park names a model that is missing' \
	fails '/no/such/model' examples/park /no/such/model

# The server publishes the model until its input ends.
mkfifo "$tmp/input"
examples/share serve "$tmp/socket" "$model" <"$tmp/input" >"$tmp/served" &
server=$!
exec 7>"$tmp/input"
tries=0
until examples/share read "$tmp/socket" >"$tmp/first" 2>/dev/null ||
	test $((tries += 1)) -gt 100; do
	sleep 0.1
done
examples/share read "$tmp/socket" >"$tmp/second" &
reader=$!
examples/share read "$tmp/socket" >"$tmp/third"
wait $reader
check 'examples/share opens the tensors that another process has loaded' \
	cmp "$tmp/served" "$tmp/first"
check 'examples/share opens them in several processes at once' \
	cmp "$tmp/second" "$tmp/third"
is "$(wc -l <"$tmp/first")" "$count" 'examples/share reads every tensor'
is "$(awk '{ print $1 }' "$tmp/first" | sort -u | wc -l)" "$count" \
	'examples/share reads the bytes of each tensor'
exec 7>&-
wait $server
is $? 0 'examples/share ends with its input'
(cd "${shard%/*}" && tar cf "$tmp/models.tar" --format=ustar ./*.json "${shard##*/}")
is "$(examples/source "tar://$tmp/models.tar/${shard##*/}")" \
	"$(weir inspect --json "$shard" | jq -r '.tensors[] | "\(.name) \(.bytes)"')" \
	'examples/source loads a model out of an archive'
check 'examples/source names a file that the archive does not have' \
	fails 'the archive has no file x.safetensors' examples/source \
		"tar://$tmp/models.tar/x.safetensors"
# by_url FOLDER: the tensors and bytes that examples/remote prints.
by_url()
{
	examples/remote "$at/file/m/" "$1" >"$tmp/remote" || return
	is "$(grep -c '^model\.\|^lm_head' "$tmp/remote")" "$count" \
		'examples/remote lists every tensor'
	bytes=$(sed -n 's/ bytes, .* by URL$//p' "$tmp/remote")
	here=$(weir inspect --json "$model" | jq '[.tensors[].bytes] | add')
	is "$bytes" "$here" 'examples/remote loads all bytes'
}
if test -e lib/http/.libs/weir-http.so && command -v python3 >/dev/null; then
	rm "$tmp/input"
	printf '{}' >"$model/config.json"
	. "$srcdir/t/serving.inc"
	cd "$builddir" || exit 1
	by_url "$tmp/kept"
	has "$(cat "$tmp/remote")" 'config.json: 2 bytes' \
		'examples/remote opens a file beside the weights'
	has "$(cat "$tmp/remote")" ", $bytes of them by URL" \
		'all of them come from the server'
	by_url "$tmp/kept"
	has "$(cat "$tmp/remote")" ', 0 of them by URL' \
		'the second time the folder has them'
	check 'examples/remote names an object that is not there' \
		fails "$at/file/none.safetensors: 404" \
		examples/remote "$at/file/none.safetensors"
else
	skip 8 'no weir-http.so, or no python3 for the server'
fi
for example in load arrive queue engine share source remote llama/llama; do
	examples/$example >/dev/null 2>"$tmp/err"
	is "$?$(grep -c '^usage: ' "$tmp/err")" 21 \
		"examples/$example prints its usage"
done
finish
