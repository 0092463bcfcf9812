#!/bin/sh
# SPDX-License-Identifier: MIT
# weir inspect: its table and its JSON.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# The value of a Python expression over the object j that was printed.
json()
{
	python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
print(eval(sys.argv[2]))' "$tmp/out" "$1"
}

# The tensors of $1, and their files in folder $2, are those that the other
# reader finds.
same_tensors()
{
	listed "$1" >have || return
	reader list "$1" | sed "s#$TAB$2#$TAB#" | diff - have
}

# Each line of the table has the numbers of the other reader.
table_agrees()
{
	weir inspect "$1" >table || return
	reader list "$1" | while IFS=$TAB read -r name dtype shape _ off n; do
		grep -F "$name " table | grep -F " $dtype " |
			grep -F " $shape " | grep -E " $off +$n\$" \
			>/dev/null || echo "$name"
	done | grep . && return 1
	return 0
}

plan 37
weir synth tiny tiny.safetensors 2>/dev/null
weir synth tiny shards --shards 4 2>/dev/null
check 'the JSON of a file has the tensors that another reader finds' \
	same_tensors tiny.safetensors ''
check 'the JSON of shards has the tensors that another reader finds' \
	same_tensors shards shards/
check 'the JSON of an index is that of its folder' \
	sh -c 'weir inspect --json shards/model.safetensors.index.json |
		cmp - json'
check 'the table of a file has the tensors that another reader finds' \
	table_agrees tiny.safetensors
check 'the table of shards has the tensors that another reader finds' \
	table_agrees shards
is "$(tail -n 1 table | sed 's/.*: //')" \
	'safetensors, 27 tensors, 4934889 bytes (4.93 MB) in 4 files' \
	'the last line of the table has the totals'
is "$(grep -A 1 ^metadata: table | tail -n 1)" '  format = pt' \
	'the table shows the metadata'
works 'weir inspect --json succeeds' weir inspect --json shards
is "$(wc -c <"$tmp/err")" 0 'weir inspect --json prints nothing on stderr'
is "$(json 'j["count"], j["bytes"], j["shards"], j["format"]')" \
	"(27, 4934889, 4, 'safetensors')" 'the JSON has the totals'
is "$(json 'j["metadata"]')" "{'format': 'pt'}" 'the JSON has the metadata'
is "$(json 'j["warnings"], j["unlisted"]')" '([], 0)' \
	'the JSON of a correct model has no warnings'
is "$(json '[f["path"][-11:] for f in j["files"]]' | tr -d ' ')" \
	"['safetensors','safetensors','safetensors','safetensors']" \
	'the JSON has the files'

sed -i 's/"total_size": [0-9]*/"total_size": 77/' \
	shards/model.safetensors.index.json
sed -i '/"model.bytes"/d' shards/model.safetensors.index.json
works 'an index with a wrong total size is not an error' \
	weir inspect --json shards
is "$(json 'j["count"], j["total_size"], j["unlisted"]')" '(26, 77, 1)' \
	'the JSON has the wrong total size and counts a tensor missing in the index'
is "$(json 'len(j["warnings"])')" 2 \
	'a wrong total size and a missing tensor are two warnings'
weir inspect shards >"$tmp/out"
has "$(grep ^warning: "$tmp/out")" 'total_size of 77' \
	'the table shows the warnings'

printf '{}' | reader put none.safetensors
works 'the JSON of a model without tensors is printed' \
	weir inspect --json none.safetensors
is "$(json 'j["tensors"], j["metadata"]')" '([], {})' \
	'the JSON of a model without tensors has empty lists'
works 'the table of a model without tensors is printed' \
	weir inspect none.safetensors
is "$(cat "$tmp/out")" \
	'none.safetensors: safetensors, 0 tensors, 0 bytes (0 B) in 1 file' \
	'the table of a model without tensors is one line'

python3 - >header <<'END'
import json
entry = {"dtype": "U8", "shape": [1], "data_offsets": None}
names = ["a\x1b[31mred", "line\nfeed", "nul\0inside", "back\\slash", "ümläut",
         "right\u202eleft", "c1\u009bcontrol", ""]
header = {"__metadata__": {"k\x1b[2J": "v\x07", "long": "x" * (1 << 20)}}
for i, name in enumerate(names):
    header[name] = dict(entry, data_offsets=[i, i + 1])
print(json.dumps(header), end="")
END
reader put odd.safetensors --data 8 <header
works 'a model with odd names is shown' weir inspect odd.safetensors
is "$(LC_ALL=C tr -d '\n\040-\176\303\274\244' <"$tmp/out" | wc -c)" 0 \
	'control characters of names are not printed'
for text in 'a\x1b[31mred' 'line\nfeed' 'nul\x00inside' 'back\\slash' \
	'ümläut' 'right\u202eleft' 'c1\x9bcontrol' 'k\x1b[2J = v\a'; do
	has "$(cut -c 1-500 "$tmp/out")" "$text" "an odd name is shown as $text"
done
has "$(grep long "$tmp/out")" '... (1048576 bytes)' \
	'a long value of metadata is cut in the table'
works 'the JSON of a model with odd names is printed' \
	weir inspect --json odd.safetensors
check 'the JSON has odd names and long values exactly' python3 -c 'import json
j = json.load(open("out"))
h = json.load(open("header"))
assert j["metadata"] == h.pop("__metadata__")
assert [t["name"] for t in j["tensors"]] == list(h)'

weir inspect tiny.safetensors >plain
env LC_ALL=tr_TR.UTF-8 TZ=Mars/Olympus weir inspect tiny.safetensors \
	>turkish 2>/dev/null
env -i "PATH=$PATH" weir inspect tiny.safetensors >bare
check 'the output does not depend on locale or time zone' \
	sh -c 'cmp plain turkish && cmp plain bare'
printf '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},%s}' \
	'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}' |
	reader put twice.safetensors --data 1
refused 1 "'a'" 'a tensor that occurs twice is an error' \
	weir inspect twice.safetensors
works 'a tensor that occurs twice is accepted with --lenient' \
	weir inspect --lenient twice.safetensors
finish
