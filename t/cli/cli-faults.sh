#!/bin/sh
# SPDX-License-Identifier: MIT
# An error of a file, a path or a stream becomes one line on stderr and status
# 1, with nothing on stdout; never a crash or a hang.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

entry()
{
	printf '"%s":{"dtype":"%s","shape":%s,"data_offsets":%s}' "$@"
}

# bad NAME DATA HEADER: write a malformed file.
bad()
{
	printf '%s' "$3" | reader put "bad-$1.safetensors" --data "$2"
}

# all_refused PART FILE...: each command refuses each file within seconds. The
# line on stderr contains PART, or the file's name if PART is NAME.
all_refused()
{
	part=$1
	shift
	for file; do
		test "$part" = NAME && name=${file##*/} || name=$part
		for command in 'inspect --json' 'load --digest' \
			'load --json --way map'; do
			run timeout 300 weir $command "$file"
			is_refusal 1 "$name" && continue
			diag "wanted status 1 and one line with '$name'"
			show_run weir $command "$file"
			return 1
		done
	done
}

refuses()
{
	t_sentence=$1
	shift
	all_refused "$@"
	t_result $? "$t_sentence"
}

make_bad_files()
{
	f32=$(entry a F32 '[2]' '[0,8]')
	bad comma 8 "{$f32,}"
	bad array 8 '[1,2]'
	bad string 8 '"text"'
	bad nothing 0 ''
	bad open 8 "{$f32"
	bad after 8 "{$f32}x"
	bad control 8 "{$(entry "$(printf 'a\001')" F32 '[2]' '[0,8]')}"
	bad utf8 8 "{$(entry "$(printf 'a\377')" F32 '[2]' '[0,8]')}"
	bad surrogate 8 "{$(entry 'a\ud800' F32 '[2]' '[0,8]')}"
	bad dtype 8 "{$(entry a F31 '[2]' '[0,8]')}"
	bad lower 8 "{$(entry a f32 '[2]' '[0,8]')}"
	bad float 8 "{$(entry a F32 '[2.0]' '[0,8]')}"
	bad exponent 8 "{$(entry a F32 '[2e0]' '[0,8]')}"
	bad negative 8 "{$(entry a F32 '[-2]' '[0,8]')}"
	bad zeroes 8 "{$(entry a F32 '[02]' '[0,8]')}"
	bad huge 8 "{$(entry a F32 '[99999999999999999999]' '[0,8]')}"
	bad wrap 8 "{$(entry a I8 '[4294967296,4294967296]' '[0,8]')}"
	bad wrapzero 0 "{$(entry a F32 '[4611686018427387904,4]' '[0,0]')}"
	bad short 8 "{$(entry a F32 '[3]' '[0,8]')}"
	bad backwards 8 "{$(entry a F32 '[2]' '[8,0]')}"
	bad outside 8 "{$(entry a F32 '[4]' '[0,16]')}"
	bad hole 16 "{$f32,$(entry b F32 '[1]' '[12,16]')}"
	bad overlap 12 "{$f32,$(entry b F32 '[2]' '[4,12]')}"
	bad left 12 "{$f32}"
	bad one 8 "{$(entry a F32 '[2]' '[0]')}"
	bad three 8 "{$(entry a F32 '[2]' '[0,8,8]')}"
	bad missing 8 '{"a":{"dtype":"F32","shape":[2]}}'
	bad twice 8 "{$f32,$f32}"
	bad nibble 1 "{$(entry a F4 '[3]' '[0,1]')}"
	bad dims 1 "{$(entry a U8 '[1,1,1,1,1,1,1,1,1]' '[0,1]')}"
	bad meta 8 "{\"__metadata__\":{\"a\":1},$f32}"
	bad deep 8 "$(printf '%0200000d' 0 | tr 0 '[')"
	: >bad-empty.safetensors
	printf '\10\0\0' >bad-seven.safetensors
	printf '\377\377\377\377\377\377\377\377{}' >bad-length.safetensors
	printf '\0\0\0\0\0\0\0\0' >bad-zero.safetensors
	printf '\100\0\0\0\0\0\0\0{}' >bad-cut.safetensors
	printf 'PK\3\4 this is a zip archive, not a model' >bad-zip.safetensors
	head -c 4000000 tiny.safetensors >bad-truncated.safetensors
}

index()
{
	mkdir "$1" && cp tiny.safetensors "$1/a.safetensors" &&
		printf '{"metadata":{},"weight_map":{%s}}' "$2" \
			>"$1/model.safetensors.index.json"
}

make_bad_models()
{
	index bad-parent '"model.bytes":"../tiny.safetensors"'
	index bad-absolute "\"model.bytes\":\"$tmp/tiny.safetensors\""
	index bad-blank '"model.bytes":""'
	index bad-nul '"model.bytes":"a.safetensors\u0000x"'
	index bad-number '"model.bytes":7'
	index bad-gone '"model.bytes":"b.safetensors"'
	index bad-lacks '"model.bits":"a.safetensors"'
	index bad-double '"model.bytes":"a.safetensors","model.bytes":"a"'
	index bad-fifo '"model.bytes":"pipe"' && mkfifo bad-fifo/pipe
	index bad-folder '"model.bytes":"folder"' && mkdir bad-folder/folder
	index bad-cut '' && printf '{"weight_map":{' \
		>bad-cut/model.safetensors.index.json
	mkdir bad-none bad-two && cp tiny.safetensors bad-two/a.safetensors &&
		cp tiny.safetensors bad-two/b.safetensors
	mkfifo bad-pipe.safetensors
	ln -s bad-loop.safetensors bad-loop.safetensors
	ln -s /dev/zero bad-zeroes.model.safetensors.index.json
}

plan 26
weir synth tiny tiny.safetensors 2>/dev/null
weir synth many many.safetensors --count 2000 2>/dev/null
make_bad_files
is "$(ls bad-*.safetensors | wc -l)" 39 'there are 39 malformed files'
refuses 'each malformed file is refused by its name' NAME \
	bad-*.safetensors
make_bad_models
index=model.safetensors.index.json
for model in parent:../tiny absolute:$tmp/tiny blank: 'nul:\x00' number:7 \
	gone:b.safetensors lacks:model.bits double:model.bytes \
	fifo:pipe folder:folder cut:byte; do
	refuses "an index is refused: ${model%%:*}" "${model#*:}" \
		"bad-${model%%:*}" "bad-${model%%:*}/$index"
done
refuses 'a folder without a model is refused' bad-none bad-none
refuses 'a folder with two models is refused' bad-two bad-two
refuses 'a pipe is refused without waiting for data' NAME bad-pipe.safetensors
refuses 'a symbolic link to itself is refused' NAME bad-loop.safetensors
refuses 'an endless device file is refused' NAME bad-zeroes.$index
refuses 'a file that does not exist is named' \
	NAME nothing.safetensors nothing/at/all
refused 1 'weir: ' 'an empty name of a model is refused' weir inspect ''
refused 1 'weir: ' 'a name longer than the system allows is refused' \
	weir load "$(head -c 100000 /dev/zero | tr '\0' x)"
for output in full closed; do
	for command in 'inspect --json' 'load --digest --quiet'; do
		refused 1 'standard output' "$command: stdout is $output" \
			output $output $command many.safetensors
	done
done
check 'a pipe without a reader ends weir inspect' \
	gone inspect many.safetensors
finish
