#!/bin/sh
# SPDX-License-Identifier: MIT
# weir inspect and weir load with GGUF models, compared with another reader.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

gguf()
{
	python3 "$srcdir/t/gguf.py" "$@"
}

# The tensors of $1 are those that the other reader finds in the other files.
same_tensors()
{
	listed "$1" >have || return
	shift
	gguf list "$@" | diff - have
}

# The digests of a load of $1 with the options are those of the other reader.
same_bytes()
{
	weir load --quiet --digest=sha256 "$@" >got 2>err || { cat err; return 1; }
	diff sums got
}

mkdir split
gguf write one.gguf
gguf write split/m 3
gguf sums one.gguf >sums

plan 40
check 'the JSON of a GGUF file has the tensors that another reader finds' \
	same_tensors one.gguf one.gguf
check 'the JSON of a split model has the tensors that another reader finds' \
	same_tensors split/m-00001-of-00003.gguf split/m-*
check 'a split model is found by the name of its last file' \
	same_tensors split/m-00003-of-00003.gguf split/m-*
check 'a split model is found by its directory' same_tensors split split/m-*
works 'weir inspect shows a GGUF file' weir inspect one.gguf
is "$(tail -n 1 "$tmp/out")" \
	'one.gguf: GGUF, 12 tensors, 52701 bytes (52.7 kB) in 1 file' \
	'the last line of the table has the format and the totals'
has "$(cat "$tmp/out")" 'token_embd.weight      Q4_0         [50, 64]  ' \
	'the table has the outermost dimension first'
works 'weir inspect --metadata succeeds' weir inspect --metadata one.gguf
is "$(grep -c = "$tmp/out")" 19 'all pairs of metadata are shown'
is "$(grep -c Q4_0 "$tmp/out")" 0 'weir inspect --metadata shows no tensors'
for text in 'test.u64 = 18446744073709551615' 'test.f32 = 0.1' \
	'test.bool = true' 'test.text = a\nb\\' \
	'tokenizer.ggml.tokens = [<s>, , é, <s>, , é, <s>, , ...] (300 str)' \
	'tokenizer.ggml.scores = [-1.5, 0, 3.25] (3 f32)' \
	'test.nested = [[1, -2], [], [3]] (3 array)'; do
	has "$(cat "$tmp/out")" "  $text" "the metadata have ${text%% =*}"
done
works 'weir inspect --metadata --json succeeds' \
	weir inspect --metadata --json one.gguf
gguf values >values
check 'the JSON has all values, and arrays as a whole' python3 -c 'import json
j = json.load(open("out"))
assert set(j) == {"metadata", "metadata_types"}
assert j["metadata"] == json.load(open("values")), j["metadata"]'
check 'the JSON has the types of all values' says \
	'j["metadata_types"]["test.u8"] == "u8"
	and j["metadata_types"]["general.architecture"] == "str"
	and j["metadata_types"]["tokenizer.ggml.tokens"] == "[str]"
	and j["metadata_types"].keys() == j["metadata"].keys()'
run weir inspect --json split
check 'the metadata of a split model are those of its first file' says \
	'j["metadata"]["split.no"] == 0 and j["shards"] == 3 and j["warnings"] == []'

check 'the tensors of a GGUF file are loaded' same_bytes one.gguf
check 'the tensors of a split model are loaded' same_bytes split
check 'the tensors of a GGUF file are loaded without a ring' \
	same_bytes one.gguf --io sync
check 'the tensors of a GGUF file are mapped' same_bytes one.gguf --way map
check 'the tensors of a GGUF file are loaded into small chunks' \
	same_bytes split --chunk 64K --depth 1
grep blk sums >all && mv all sums
check 'patterns choose tensors of a split model' \
	same_bytes split --only 'blk.*'

works 'weir synth writes a GGUF file' weir synth tiny tiny.gguf --seed 7
check 'a GGUF file of weir synth has the tensors that another reader finds' \
	same_tensors tiny.gguf tiny.gguf
works 'weir synth writes a split model' \
	weir synth tiny parts --format gguf --shards 3 --seed 7
check 'a split model of weir synth has the tensors that another reader finds' \
	same_tensors parts parts/model-0000[1-3]-of-00003.gguf
run weir inspect --json parts
check 'weir inspect has no warning for a split model of weir synth' says \
	'j["warnings"] == [] and j["shards"] == 3 and j["count"] == 16'
weir synth tiny tiny.safetensors --seed 7 2>/dev/null
weir load tiny.safetensors --digest 2>/dev/null >all
weir load tiny.gguf --digest 2>/dev/null >some
check 'tensors of weir synth have the same bytes in both formats' \
	sh -c 'test "$(grep -cxFf some all)" = 16'
refused 2 "--format is 'zip', not safetensors or gguf" \
	'weir synth refuses an unknown format' weir synth tiny x --format zip
refused 2 "'x.safetensors' is not a name of a GGUF file" \
	'weir synth refuses a name of another format' \
	weir synth tiny x.safetensors --format gguf

printf 12345678901234567890123456789012345 >>one.gguf
run weir inspect --json one.gguf
check 'bytes after the last tensor are a warning' says \
	'j["warnings"] == ["35 bytes follow the last tensor of one.gguf"]'
rm split/m-00002-of-00003.gguf
refused 1 "its shard 'm-00002-of-00003.gguf' does not exist" \
	'a missing file of a split model is named' weir inspect split
printf '\0' | dd of=one.gguf bs=1 seek=4 conv=notrunc status=none
refused 1 'one.gguf: GGUF version 0 does not exist' \
	'a file of no version is refused' weir load one.gguf
head -c 500 split/m-00001-of-00003.gguf >cut.gguf
refused 1 'was it cut short?' 'a file that is cut short is refused' \
	weir load cut.gguf
sed 's/$/\r/' split/m-00001-of-00003.gguf >text.gguf
refused 1 'line feeds have been converted from LF to CR LF' \
	'a file with converted line feeds is refused' weir load text.gguf
finish
