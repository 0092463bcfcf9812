#!/bin/sh
# SPDX-License-Identifier: MIT
# weir digest, weir verify and weir load --verify.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# value EXPRESSION: of the manifest in m.json, which is j.
value()
{
	python3 - "$1" <<-'END'
	import json, sys
	j = json.load(open("m.json"))
	print(eval(sys.argv[1]))
	END
}

range()
{
	dd if="$1" bs=64K skip="$2" count="$3" status=none \
		iflag=skip_bytes,count_bytes,fullblock
}

# outside CMD...: "<hex>  <name>" of each tensor, by the reader of the tests.
outside()
{
	reader list model | while IFS=$TAB read -r name _ _ file offset bytes; do
		hex=$(range "$file" "$offset" "$bytes" | "$@")
		echo "${hex%% *}  $name"
	done | LC_ALL=C sort -k 2
}

# The text of which the digest of the whole is.
whole_text()
{
	python3 - <<-'END'
	import json, sys
	j = json.load(open("m.json"))
	for t in sorted(j["tensors"], key=lambda t: t["name"].encode()):
	    name = t["name"].encode()
	    shape = "[" + ",".join(map(str, t["shape"])) + "]"
	    sys.stdout.buffer.write(
	        f'{t["digest"]} {t["dtype"]} {shape} {len(name)} '.encode()
	        + name + b"\n")
	END
}

# flip FILE OFFSET: change a byte.
flip()
{
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf "\\$(printf %o $((byte ^ 1)))" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# agree KIND CMD...: the manifest has the digests that CMD computes.
agree()
{
	kind=$1
	shift
	weir digest model m.json --kind "$kind" --quiet || return
	outside "$@" >want
	value '"\n".join(t["digest"] + "  " + t["name"] for t in j["tensors"])' |
		LC_ALL=C sort -k 2 | diff want - &&
		test "$(whole_text | "$@" | cut -d ' ' -f 1)" = \
			"$(value 'j["digest"]')"
}

# digest_of MODEL: that of the whole.
digest_of()
{
	weir digest "$1" 2>/dev/null | sed -n 's/^"digest": "\(.*\)",/\1/p'
}

plan 38
weir synth tiny model --shards 3 --seed 7 2>/dev/null
weir synth tiny one.safetensors --seed 7 2>/dev/null
weir synth tiny one.gguf --seed 7 2>/dev/null
if command -v xxhsum >/dev/null; then
	check 'the digests of weir digest are those of xxhsum -H2' \
		agree xxh3 xxhsum -H2
else
	skip 1 'no xxhsum'
fi
check 'the digests of weir digest --kind sha256 are those of sha256sum' \
	agree sha256 sha256sum
works 'weir digest writes to stdout' weir digest --quiet --kind sha256 model
cmp -s "$tmp/out" m.json
t_result $? 'it writes the same to stdout and to a file'
is "$(digest_of model)" "$(digest_of one.safetensors)" \
	'a model in shards has the digest of the same tensors in one file'
weir digest one.gguf 2>/dev/null | grep '^{"name"' | tr -d , | sort >gguf
weir digest one.safetensors 2>/dev/null | tr -d , | sort >st
test -s gguf
t_result $? 'weir digest reads GGUF'
is "$(grep -Fxvc -f st gguf)" 0 \
	'tensors in a GGUF file have the digests of those in safetensors files'
for way in auto buffered direct; do
	works "weir verify accepts the model: --way $way" \
		weir verify one.safetensors m.json --way $way --quiet
done
run weir verify one.safetensors m.json
grep -q '27 tensors.*all match, SHA-256 [0-9a-f]\{64\}$' "$tmp/err"
t_result $? 'weir verify reports the tensors and the digest of the whole'
for options in '' '--way map' '--way direct' '--dtype bf16' '--repeat 2'; do
	works "weir load --verify accepts the model: ${options:-no option}" \
		weir load model --verify m.json --quiet $options
done
works 'weir load --verify --json succeeds' weir load model --verify m.json --json
check 'the JSON says so' says 'j["verified"] is True'

cp -r model bad
set -- $(reader list bad | awk -F '\t' '$6 > 1000' | sed -n 12p | cut -f 1,4,5 | tr "$TAB" ' ')
flip "bad/${2##*/}" "$3"
refused 1 'bad: 1 of 27 tensors do not match m.json' \
	'weir verify finds a byte that has changed' sh -c \
	'weir verify bad m.json 2>said || { tail -n 1 said >&2; exit 1; }'
grep -q "^SHA-256 is [0-9a-f]\{64\}, but [0-9a-f]\{64\} in the manifest: tensor '$1' of " said
t_result $? 'weir verify names the tensor, the file and both digests'
refused 1 "tensor '$1' of" 'weir load --verify fails for it' \
	weir load bad --verify m.json
refused 1 "tensor '$1' of" 'weir load --verify fails for it: converted' \
	weir load bad --verify m.json --dtype f16
refused 1 "tensor '$1' of" 'weir load --verify fails for it: mapped' \
	weir load bad --verify m.json --way map

refused 1 'the manifest is of another model: 11 tensors differ' \
	'weir verify refuses the manifest of another model' \
	weir verify one.gguf m.json
refused 1 'the manifest is of another model' \
	'weir load --verify refuses the manifest of another model' \
	weir load one.gguf --verify m.json
head -c 700 m.json >cut.json
refused 1 'cut.json: ' 'a manifest that was cut is refused' \
	weir verify model cut.json
sed '7d' m.json >cut.json
refused 1 'the manifest was changed or cut' \
	'a manifest that lacks a line is refused' weir verify model cut.json
refused 1 'none.json: No such file' 'a manifest that is missing is refused' \
	weir load model --verify none.json

(cd model && sha256sum -- *) >SUMS
works 'weir verify accepts the sums of sha256sum' \
	weir verify model SUMS --quiet
sha256sum --tag model/*.safetensors >TAGGED
works 'weir verify accepts those of sha256sum --tag' \
	weir verify model TAGGED --quiet
works 'weir verify reads sums from stdin' \
	sh -c 'cat SUMS | weir verify model - --quiet'
refused 1 'bad: ' 'a file that has changed is found' sh -c \
	'weir verify bad SUMS 2>said || { sed "s/^weir:/& bad:/" said | tail -n 1 >&2
		exit 1; }'
grep -q "^bad/${2##*/}: SHA-256 is [0-9a-f]\{64\}, not [0-9a-f]\{64\}\$" said
t_result $? 'weir verify names the file, and both sums'
sed 1d SUMS >FEWER
refused 1 "FEWER: has no sum of 'model-00001-of-00003.safetensors'" \
	'sums that lack a file are refused' weir verify model FEWER
sed 's/^./x/' SUMS >TEXT
refused 1 'neither a manifest nor a file of SHA-256 sums' \
	'other text is refused' weir verify model TEXT

cp one.safetensors same.safetensors
refused 1 'is an input, and would be replaced' \
	'weir digest does not replace its model' \
	weir digest same.safetensors same.safetensors
check 'the model is unchanged' cmp one.safetensors same.safetensors
if test -e /dev/full; then
	refused 1 'No space left on device' \
		'weir digest fails if stdout is full' \
		sh -c 'weir digest one.safetensors >/dev/full'
else
	skip 1 'no /dev/full'
fi
finish
