#!/bin/sh
# SPDX-License-Identifier: MIT
# The command with URLs, by weir-http.so and t/http/server.py.
. "${0%/*}/../cli.inc"
. "${0%/*}/../serving.inc"

# What was requested since the last call, a line each: path and range.
requests()
{
	ask log | awk 'NF { print $2, $3 }'
}

count()
{
	requests >asked
	wc -l <asked | tr -d ' '
}

# A model with text, its config.json and tokenizer, in hf/.
make_model()
{
	for python in ${PYTHON:+"$PYTHON"} "$builddir/python/bin/python" \
		python3; do
		"$python" -B - "$srcdir/t/llama" 2>why <<-'END' && return
		import sys
		sys.path.insert(0, sys.argv[1])
		from models import shape, write_hf
		from vocabularies import ByteLevel
		words = ByteLevel()
		write_hf("hf", shape(vocabulary=len(words.tokens)), parts=3)
		words.write_json("hf")
		END
	done
	return 1
}

# The file that a command makes of the model at a URL is that of the folder.
converts()
{
	weir convert "$at/file/hf/" "url$1" &&
		weir convert hf "here$1" && diff -r "url$1" "here$1"
}

plan 110
weir synth tiny m.safetensors 2>/dev/null || exit 1
weir synth tiny shards --shards 4 2>/dev/null || exit 1
weir synth tiny m.gguf 2>/dev/null || exit 1
listed m.safetensors >want
works 'weir inspect takes a URL' weir inspect "$at/file/m.safetensors"
is "$(count)" 1 'weir inspect of a file with a small header is one request'
works 'weir inspect takes the URL of a folder' \
	weir inspect "$at/file/shards/"
is "$(count)" 5 'weir inspect of a folder is a request for the index and each shard'
# 30000 tensors: a header of 3 MB, which begins in the first request.
python3 - <<'END'
import json, struct
header = json.dumps({f"model.layers.{i}.weight": {
    "dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
    for i in range(30000)}).encode()
with open("many.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(header)) + header + bytes(30000))
END
works 'weir inspect takes the URL of a file with a large header' \
	weir inspect "$at/file/many.safetensors" --json
is "$(count)" 2 'weir inspect of a file with a large header is two requests'
works 'weir load takes a URL' weir load "$at/file/m.safetensors" --json
check 'the report of a load counts the bytes as remote' says \
	'k[0]["remote"] == k[0]["bytes"] > 0'
weir digest m.safetensors >digests 2>/dev/null
works 'weir digest takes a URL' weir digest "$at/file/m.safetensors"
check 'digests of a model at a URL are those of the file' \
	cmp out digests
weir digest shards >digests 2>/dev/null
works 'weir verify takes the URL of a folder' \
	weir verify "$at/file/shards" digests
sha256sum m.safetensors >sums
works 'weir verify compares SHA-256 sums of a file at a URL' \
	weir verify "$at/file/m.safetensors" sums

# Published sums: those of a hub, and of the cache of its clients.
HF_ENDPOINT=$at
HF_HOME=$tmp/home
export HF_ENDPOINT HF_HOME
unset HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE
sum_of()
{
	sha256sum "$1" | cut -c 1-64
}
# other FILE: one byte of it is another one.
other()
{
	printf '!' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 9)) \
		conv=notrunc 2>/dev/null
}
for f in m.safetensors shards/*.safetensors; do
	sum_of "$f" >"$f.published"
done
works 'weir verify without SUMS takes a file of a hub' \
	weir verify hf://me/files/m.safetensors
check 'and says that it matches what is published' \
	grep -q '; all match the published SHA-256$' err
works 'and the folder of one' weir verify hf://me/files/shards/ --quiet
check 'with --quiet it prints nothing' test ! -s err
good=$(sum_of m.safetensors)
cp m.safetensors kept.safetensors
other m.safetensors
run weir verify hf://me/files/m.safetensors
is "$status" 1 'a file of a hub with another byte is refused'
check 'the sentence has the file and both sums' grep -qx \
	"hf://me/files/m.safetensors: SHA-256 is $(sum_of m.safetensors), not $good" \
	err
check 'and says of how many files' grep -qx \
	'weir: 1 of 1 file do not match the published SHA-256 sums' err
mv kept.safetensors m.safetensors
none=shards/model-00002-of-00004.safetensors
rm $none.published
refused 1 "$none: no SHA-256 is published" \
	'a file of a hub without a sum is refused' \
	weir verify hf://me/files/shards/
refused 1 "$at/file/m.safetensors: no SHA-256 is published" \
	'and so is one of a server' weir verify "$at/file/m.safetensors"
hub=$tmp/home/hub/models--me--cached
snapshot=$hub/snapshots/$(printf 'e%.0s' $(seq 40))
mkdir -p "$hub/blobs" "$snapshot"
cp m.safetensors "$hub/blobs/$good"
ln -s "../../blobs/$good" "$snapshot/model.safetensors"
works "weir verify takes a folder of the cache of the hub's clients" \
	weir verify "$snapshot"
other "$hub/blobs/$good"
run weir verify "$snapshot"
is "$status" 1 'a file there with another byte is refused'
check 'its sentence has the name of its blob' grep -q \
	"/model.safetensors: SHA-256 is [0-9a-f]\{64\}, not $good\$" err
cp m.safetensors "$snapshot/plain.safetensors"
refused 1 'plain.safetensors: no SHA-256 is published' \
	'a file that is no blob is refused' \
	weir verify "$snapshot/plain.safetensors"
unset HF_ENDPOINT HF_HOME

mkdir parts
cp "$srcdir/t/corpus/gguf/split-two" parts/m-00001-of-00002.gguf
cp "$srcdir/t/corpus/gguf/split-second" parts/m-00002-of-00002.gguf
weir digest --quiet parts/m-00001-of-00002.gguf >many
count >/dev/null
works 'weir digest takes the URL of the first part of a split GGUF' \
	weir digest --quiet "$at/file/parts/m-00001-of-00002.gguf"
check 'its digests are those of the files' cmp out many
count >/dev/null
is "$(sort asked | uniq -d)" '' 'nothing is requested twice'

# An index names files of its own folder.
mkdir index
for name in ../m.safetensors "$at/file/m.safetensors" //127.0.0.1/m.safetensors \
	/etc/m.safetensors; do
	printf '{"weight_map": {"a": "%s"}}' "$name" \
		>index/model.safetensors.index.json
	count >/dev/null
	refused 1 'model.safetensors.index.json' \
		"an index that names $name is refused" \
		weir inspect "$at/file/index/"
	count >/dev/null
	check 'and nothing outside of its folder is asked for' \
		sh -c '! grep -v "^/file/index/" asked'
done

# Folders of stores: with an index, and with a file that a list finds.
mkdir other
cp m.safetensors other/weights.safetensors
GS_ACCESS_KEY_ID=GOOG1 GS_SECRET_ACCESS_KEY=hidden1 STORAGE_EMULATOR_HOST=$at
AWS_ACCESS_KEY_ID=AKIA1 AWS_SECRET_ACCESS_KEY=hidden2 AWS_SESSION_TOKEN=hidden3
AWS_ENDPOINT_URL=$at
AZURE_STORAGE_BLOB_ENDPOINT=$at/account
AZURE_STORAGE_SAS_TOKEN='sv=1&sig=hidden4'
export GS_ACCESS_KEY_ID GS_SECRET_ACCESS_KEY STORAGE_EMULATOR_HOST \
	AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN \
	AWS_ENDPOINT_URL AZURE_STORAGE_BLOB_ENDPOINT AZURE_STORAGE_SAS_TOKEN
weir digest --quiet shards >many 2>/dev/null
weir digest --quiet m.safetensors >one 2>/dev/null
for scheme in s3 gs az; do
	count >/dev/null
	works "weir digest takes a folder of $scheme with an index" \
		weir digest --quiet "$scheme://store/shards/"
	check 'its digests are those of the files' cmp out many
	count >/dev/null
	check 'it is not listed' sh -c '! grep -q list asked'
	works 'and one with a file, without a slash at its end' \
		weir digest --quiet "$scheme://store/other"
	check 'its digests are those of the file' cmp out one
	count >/dev/null
	check 'it is listed' grep -q list asked
	refused 1 'none/' 'a folder that is not there is refused' \
		weir inspect "$scheme://store/none/"
done
refused 1 'other names cannot be listed' \
	'a folder of http without a known name is refused' \
	weir inspect "$at/file/other/"

# Secrets: with all that can be printed and written, in none of it.
WEIR_DEBUG=log
WEIR_CACHE=$tmp/secrets/cache
HF_ENDPOINT=$at
HF_TOKEN=hidden5
export WEIR_DEBUG WEIR_CACHE HF_ENDPOINT HF_TOKEN
mkdir secrets
n=0
for url in s3://store/m.safetensors gs://store/m.safetensors \
	az://store/m.safetensors hf://me/files/m.safetensors \
	"$at/keyed/m.safetensors?sig=secret/key" \
	"http://me:hidden6@${at#http://}/file/m.safetensors"; do
	name=secrets/$((n += 1))
	weir load --json --trace $name.trace "${url%/*}/none/${url##*/}" \
		>$name.none 2>$name.err
	is "$?" 1 "${url%%:*}: an object that is not there"
	weir load --json --trace $name.trace "$url" >$name.out 2>$name.log
	is "$?" 0 "${url%%:*}: an object that is"
	weir fetch --json "$url" $name.folder >$name.fetched 2>>$name.err
done
is "$(grep -rlE 'hidden|secret/key|secret%2Fkey' secrets)" '' \
	'no sentence, report, trace, log, cache or folder of copies has a secret'
unset WEIR_DEBUG WEIR_CACHE HF_ENDPOINT HF_TOKEN GS_ACCESS_KEY_ID \
	GS_SECRET_ACCESS_KEY STORAGE_EMULATOR_HOST AWS_ACCESS_KEY_ID \
	AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_ENDPOINT_URL \
	AZURE_STORAGE_BLOB_ENDPOINT AZURE_STORAGE_SAS_TOKEN

WEIR_CACHE=$tmp/kept
export WEIR_CACHE
works 'weir digest reads through a cache' weir digest "$at/file/m.safetensors"
weir digest m.safetensors >digests 2>/dev/null
check 'digests read through a cache are those of the file' cmp out digests
count >/dev/null
works 'weir digest reads a model that is in the cache' \
	weir digest "$at/file/m.safetensors"
check 'digests of a model in the cache are those of the file' cmp out digests
is "$(count)" 1 'for a model in the cache the server is asked once'
# A GGUF file has padding that no load reads.
works 'weir load reads GGUF through a cache' weir load "$at/file/m.gguf"
count >/dev/null
works 'weir load reads GGUF that is in the cache' weir load "$at/file/m.gguf"
is "$(count)" 1 'for GGUF in the cache the server is asked once'
unset WEIR_CACHE
for command in inspect digest load; do
	rm -rf own
	weir $command --cache-dir own "$at/file/m.gguf" >out 2>err
	check "weir $command --cache-dir makes the folder" test -d own
done
weir verify --cache-dir own "$at/file/m.gguf" digests 2>/dev/null
count >/dev/null
works 'weir load --cache-dir reads what the folder has' \
	weir load --cache-dir own "$at/file/m.gguf" --json
check 'the report of a load counts the bytes as those of the cache' says \
	'k[0]["cached"] == k[0]["bytes"] > 0 and k[0]["remote"] == 0'
is "$(count)" 1 'the server is asked once'
rm -rf own
works 'weir load --cache-size reads a model that is larger' \
	weir load --cache-dir own --cache-size 1K "$at/file/m.gguf"
is "$(ls own)" '' 'nothing of it is kept'
WEIR_CACHE=own WEIR_CACHE_SIZE=1K weir load "$at/file/m.gguf" 2>/dev/null
is "$(ls own)" '' 'nor by WEIR_CACHE_SIZE'
WEIR_CACHE=own weir load --cache-size 1K "$at/file/m.gguf" 2>/dev/null
is "$(ls own)" '' 'nor in WEIR_CACHE by --cache-size'
WEIR_CACHE=own WEIR_CACHE_SIZE=1G weir load "$at/file/m.gguf" 2>/dev/null
is "$(ls own | grep -c url)" 2 'within WEIR_CACHE_SIZE it is kept'
WEIR_CACHE=own WEIR_CACHE_SIZE=lots
export WEIR_CACHE WEIR_CACHE_SIZE
refused 1 "WEIR_CACHE_SIZE is 'lots', not a size as 64G" \
	'a WEIR_CACHE_SIZE that is no size is refused' \
	weir inspect "$at/file/m.gguf"
unset WEIR_CACHE WEIR_CACHE_SIZE
refused 2 "--cache-size is 'lots'" 'a --cache-size that is no size is refused' \
	weir load --cache-size lots "$at/file/m.gguf"
refused 2 '--cache-dir is empty' 'a --cache-dir without a name is refused' \
	weir load --cache-dir= "$at/file/m.gguf"
works 'the query of a URL is used for the shards, too' \
	weir inspect "$at/keyed/shards/?sig=secret/key"
refused 1 '403' 'a URL whose signature is wrong is refused with the reason' \
	weir load "$at/keyed/m.safetensors?sig=wrong"
check 'the query of a URL is in no sentence' sh -c '! grep -q wrong err'
refused 1 "weir: $at/file/none.safetensors: 404" \
	'an object that does not exist is refused with its URL, once' \
	weir inspect "$at/file/none.safetensors"
has "$(weir devices)" "
URLs of http https s3 gs az hf by http, $WEIR_MODULE_PATH/weir-http.so
" 'weir devices names the module for URLs'
mkdir empty
WEIR_MODULE_PATH=$tmp/empty
has "$(weir devices)" "
no URLs: no directory of modules has a weir-http.so that works
" 'weir devices says that the module is missing'
WEIR_MODULE_PATH=$tmp
refused 1 'no directory of modules has weir-http.so' \
	'the sentence names the module that is missing' \
	weir inspect "$at/file/m.safetensors"
# As on a system without libcurl.
LC_ALL=C sed 's/libcurl\.so\.4/libnone.so.4/g' \
	"$builddir/lib/http/.libs/weir-http.so" >"$tmp/weir-http.so"
refused 1 'libnone.so.4: cannot open shared object file: No such file or directory; install the package' \
	'the sentence names the library that the module lacks' \
	weir inspect "$at/file/m.safetensors"
has "$(weir devices)" "
$tmp/weir-http.so: left out" 'weir devices says that it is left out'
has "$(weir devices)" 'libnone.so.4: cannot open shared object file' 'and why'
has "$(weir devices)" "
no URLs: " 'and that there are no URLs'
rm "$tmp/weir-http.so"
WEIR_MODULE_PATH=$builddir/lib/http/.libs
if make_model; then
	works 'weir graph takes a URL' weir graph "$at/file/hf/"
	weir run hf --prompt ' the and' -n 8 --temp 0 >text 2>/dev/null
	works 'weir run takes the URL of a folder, with its tokenizer' \
		weir run "$at/file/hf" --prompt ' the and' -n 8 --temp 0
	check 'the text is that of the folder' cmp text out
	works 'weir run passes the query on to the files beside the model' \
		weir run "$at/keyed/hf/?sig=secret/key" --prompt ' the' -n 1
	check 'GGUF is made of a model at a URL as of the folder' \
		converts .gguf
	check 'a folder is made of a model at a URL as of the folder' \
		converts /
else
	skip 6 "no Python with gguf and numpy: $(tail -n 1 why)"
fi
finish
