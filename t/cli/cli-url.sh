#!/bin/sh
# SPDX-License-Identifier: MIT
# The command with URLs, by weir-http.so and t/http/server.py.
. "${0%/*}/../cli.inc"

WEIR_MODULE_PATH=$builddir/lib/http/.libs
export WEIR_MODULE_PATH
test -e "$WEIR_MODULE_PATH/weir-http.so" ||
	skip_all 'weir-http.so was not built: there is no libcurl'
unset http_proxy all_proxy HTTP_PROXY ALL_PROXY
cd "$tmp" || exit 1

# The server ends with this test, which has the other end of its input.
mkfifo input
python3 "$srcdir/t/http/server.py" <input >ports &
exec 9>input
server=$!
until test -s ports; do
	kill -0 $server 2>/dev/null || skip_all 'the server does not start here'
	sleep 0.05
done
read -r port _ <ports
at=http://127.0.0.1:$port

# What was requested since the last call, a line each: path and range.
requests()
{
	python3 - "$at/log" <<-'END'
	import sys, urllib.request
	opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
	for line in opener.open(sys.argv[1]).read().decode().split("\n"):
	    words = line.split()
	    if words:
	        print(words[1], words[2])
	END
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

plan 32
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
works 'the query of a URL is used for the shards, too' \
	weir inspect "$at/keyed/shards/?sig=secret/key"
refused 1 '403' 'a URL whose signature is wrong is refused with the reason' \
	weir load "$at/keyed/m.safetensors?sig=wrong"
check 'the query of a URL is in no sentence' sh -c '! grep -q wrong err'
refused 1 "weir: $at/file/none.safetensors: 404" \
	'an object that does not exist is refused with its URL, once' \
	weir inspect "$at/file/none.safetensors"
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
