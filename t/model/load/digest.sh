#!/bin/sh
# SPDX-License-Identifier: MIT
# A load puts the bytes of the files into memory: its digests are compared with
# those that other programs compute of the ranges that another reader finds.
. "${0%/*}/../../cli.inc"

command -v xxhsum >/dev/null || skip_all 'no xxhsum'
cd "$tmp" || exit 1

range()
{
	dd if="$1" bs=64K skip="$2" count="$3" status=none \
		iflag=skip_bytes,count_bytes,fullblock
}

# outside CMD...: "<hex>  <name>" of each tensor, sorted by the bytes of names.
outside()
{
	reader list model | while IFS=$TAB read -r name _ _ file offset bytes; do
		hex=$(range "$file" "$offset" "$bytes" | "$@")
		echo "${hex%% *}  $name"
	done | LC_ALL=C sort -k 2
}

agrees()
{
	want=$1
	shift
	weir load model "$@" >got 2>err || { cat err; return 1; }
	diff "$want" got
}

# With chunks of two sizes: one chunk for several tensors, several for one.
both_agree()
{
	agrees xxh3 --digest "$@" &&
		agrees sha256 --digest=sha256 --chunk 64K "$@"
}

# RLIMIT_MEMLOCK counts all processes of a user: others may use what a ring needs
# at the moment.
check_both()
{
	both_agree "$@" >said 2>&1
	status=$?
	if test $status != 0 && grep -q \
		'io_uring was asked for .* RLIMIT_MEMLOCK is' said; then
		skip 1 "$*: $(tail -n 1 said)"
	else
		check "$*: XXH3 and SHA-256 agree" sh -c 'cat said; exit $0' \
			$status
	fi
}

plan 49
check 'weir synth writes a model of three shards' \
	weir synth tiny model --shards 3 --seed 7
outside xxhsum -H2 - >xxh3
outside sha256sum >sha256
is "$(cut -c 1-32 xxh3 | sort -u | wc -l)" 27 'xxhsum has a digest of each range'
is "$(cut -c 1-64 sha256 | sort -u | wc -l)" 27 'sha256sum has a digest of each range'

ring=1
weir load model --io uring --quiet 2>/dev/null || ring=
for way in auto map buffered direct; do
	for io in auto uring sync; do
		if test "$io$ring" = uring; then
			skip 3 'no io_uring here'
			continue
		fi
		for memory in plain huge locked; do
			check_both --way $way --io $io --memory $memory
		done
	done
done

check 'a repeated load into the same memory has the digests' \
	agrees xxh3 --digest --repeat 3
check 'a repeated load into new memory has the digests' agrees xxh3 --digest --repeat 3 --fresh
check 'a load with one reactor and one chunk in flight has the digests' \
	agrees xxh3 --digest --reactors 1 --depth 1 --chunk 64K
check 'a load without a ring has the digests' \
	agrees xxh3 --digest=xxh3 --io sync --chunk 64K
grep -F layers xxh3 >layers
check '--only loads the tensors that match' \
	agrees layers --digest --only 'model.layers.*'
weir synth tiny one.safetensors --seed 7 2>/dev/null
check 'a model of one file has the digests of its shards' \
	sh -c 'weir load one.safetensors --digest 2>/dev/null | diff xxh3 -'
shard=model/model-00002-of-00003.safetensors
size=$(wc -c <$shard)
printf '\377' | dd of=$shard bs=1 seek=$((size - 1)) conv=notrunc status=none
outside xxhsum -H2 - >changed
is "$(diff xxh3 changed | grep -c '^>')" 1 'one changed byte changes one digest of xxhsum'
check 'one changed byte changes one digest of weir' agrees changed --digest
check 'a line is a digest, two blanks and a name' \
	sh -c '! grep -vE "^[0-9a-f]{32}  [a-z_0-9.]+$" got'
check 'the lines are sorted by the bytes of the names' \
	sh -c 'cut -c 35- got | LC_ALL=C sort -c'
finish
