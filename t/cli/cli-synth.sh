#!/bin/sh
# SPDX-License-Identifier: MIT
# weir synth: the models that it writes; no partial files are left.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# The tensors of preset $1 are those of its architecture, and only those.
has_tensors()
{
	weir synth "$1" "$1.safetensors" --scale 0.0004 2>/dev/null || return
	reader check "$1.safetensors" || return
	reader shapes "$1" 0.0004 | LC_ALL=C sort >want
	reader list "$1.safetensors" | cut -f 1-3 | LC_ALL=C sort | diff - want
}

# How many different values column $2 of the list of $1 has.
variety()
{
	reader list "$1" | cut -f "$2" | sort -u | wc -l
}

scaled_shapes()
{
	reader list tiny.safetensors | cut -f 1,3 | sort >one
	reader list scaled.safetensors | cut -f 1,3 | sort >two
	python3 - "$1" <<-'END'
	import json, math, sys
	factor = float(sys.argv[1])
	read = lambda f: [l.split("\t") for l in open(f).read().splitlines()]
	for (name, one), (same, two) in zip(read("one"), read("two")):
	    one, two = json.loads(one), json.loads(two)
	    if one:
	        one[0] = max(1, math.ceil(one[0] * factor))
	    assert (name, one) == (same, two), (name, same, one, two)
	END
}

even_shards()
{
	python3 - <<-'END'
	import glob, os
	sizes = [os.path.getsize(f) for f in glob.glob("three/*.safetensors")]
	assert len(sizes) == 3 and max(sizes) < 1.3 * min(sizes), sizes
	END
}

# interrupt SIGNAL TIMES: the signal ends the process, and no file is left.
interrupt()
{
	python3 - "$@" <<-'END'
	import glob, os, signal, subprocess, sys, time
	number = getattr(signal, sys.argv[1])
	# A background job of a shell ignores SIGINT, and so would its children.
	default = lambda: signal.signal(number, signal.SIG_DFL)
	p = subprocess.Popen(["weir", "synth", "llama-3.1-8b", "big",
	                      "--scale", "0.05", "--shards", "3"],
	                     stderr=subprocess.PIPE, preexec_fn=default)
	for _ in range(1000):
	    if glob.glob("big/.*"):
	        break
	    time.sleep(0.005)
	for _ in range(int(sys.argv[2])):
	    p.send_signal(number)
	p.wait(300)
	assert p.returncode == -number, p.returncode
	assert p.stderr.read() == b""
	assert not os.path.exists("big"), os.listdir("big")
	END
}

limited()
(
	ulimit -f 100
	exec weir synth tiny full.safetensors
)

# A progress bar is drawn on a terminal and erased at the end.
bar()
{
	python3 - <<-'END'
	import os, pty, subprocess
	main, other = pty.openpty()
	p = subprocess.Popen(["weir", "synth", "tinyllama-1.1b",
	                      "bar.safetensors", "--scale", "0.2"],
	                     stderr=other)
	os.close(other)
	seen = b""
	try:
	    while (part := os.read(main, 4096)):
	        seen += part
	except OSError:
	    pass
	assert p.wait() == 0
	assert b"/s" in seen and b"left" in seen and b"%" in seen, seen[-200:]
	last = seen.rsplit(b"\033[K", 1)[1]
	assert last.startswith(b"bar.safetensors: 201 tensors"), last
	END
}

plan 42
works 'the preset tiny writes one file if OUT ends in .safetensors' \
	weir synth tiny tiny.safetensors
check 'another reader accepts the ranges of tiny, their order and padding' \
	reader check tiny.safetensors
is "$(variety tiny.safetensors 2)" 19 'tiny has 19 dtypes'
is "$(reader list tiny.safetensors | cut -f 3 |
	awk -F, '{ print $0 == "[]" ? 0 : NF }' | sort -u | tr '\n' ' ')" \
	'0 1 2 3 4 ' 'tiny has every rank from 0 to 4'
check 'tiny has a tensor of no bytes' \
	sh -c 'python3 "$0/t/safetensors.py" list tiny.safetensors |
		cut -f 6 | grep -qx 0' "$srcdir"
weir synth tiny again.safetensors --seed 0 2>/dev/null
check 'the default seed is 0, and the same seed makes the same bytes' \
	cmp tiny.safetensors again.safetensors
weir synth tiny other.safetensors --seed 18446744073709551615 2>/dev/null
reader sums tiny.safetensors >one
reader sums other.safetensors >two
is "$(join -1 2 -2 2 one two | awk '$2 == $3 { print $1 }')" \
	model.layers.0.empty 'another seed makes other bytes in every tensor'
is "$(cut -d ' ' -f 1 one | sort | uniq -d)" '' \
	'no two tensors have the same bytes'

weir synth tiny scaled.safetensors --scale 0.3 2>/dev/null
check '--scale multiplies the first dimension, rounded up, at least 1' \
	scaled_shapes 0.3
check '--scale below 1 writes a valid model' reader check scaled.safetensors
weir synth tiny scaled.safetensors --scale 2.5 --force 2>/dev/null
check '--scale above 1 multiplies the first dimension' scaled_shapes 2.5

for preset in tinyllama-1.1b llama-3.1-8b qwen3-30b-a3b; do
	check "$preset has the tensors of its architecture" has_tensors $preset
done
is "$(wc -l <want)" 18867 'qwen3-30b-a3b has 18867 tensors'
works 'the preset many succeeds' weir synth many m --count 300
is "$(reader list m | cut -f 2,3,6 | sort | uniq -c | sed 's/^ *//')" \
	"300 BF16${TAB}[128, 128]${TAB}32768" \
	'the preset many writes --count tensors of 32 KiB each'
is "$(ls -A m)" model.safetensors 'the file in a directory is model.safetensors'

works 'weir synth --shards succeeds' \
	weir synth many three --count 300 --shards 3
check '--shards writes an index with every tensor' reader check three
check '--shards writes files of about the same size' even_shards
is "$(reader sums three | md5sum)" "$(reader sums m | md5sum)" \
	'the bytes of a tensor do not depend on the shards'
works 'a model may have as many shards as tensors' \
	weir synth tiny each --shards 27
check 'each of as many shards as tensors has one tensor' reader check each

refused 1 exists 'an existing file is not replaced' \
	weir synth tiny tiny.safetensors --seed 1
check 'a file that is not replaced keeps its bytes' \
	cmp tiny.safetensors again.safetensors
ln -s again.safetensors link.safetensors
refused 1 exists 'an existing symbolic link is not replaced' \
	weir synth tiny link.safetensors
works '--force replaces a symbolic link' \
	weir synth tiny link.safetensors --force --seed 1
check '--force does not write through a symbolic link' \
	cmp tiny.safetensors again.safetensors
refused 1 'not empty' 'a directory that is not empty is refused' \
	weir synth tiny three
weir synth tiny three --force 2>/dev/null
is "$(ls -A three)" model.safetensors \
	'--force removes all files of the model before'
works 'a file that is named .gguf is written' weir synth tiny .gguf
check 'the file .gguf is a GGUF file' test "$(head -c 4 .gguf)" = GGUF
refused 1 'weir: one: is not a directory' \
	'a file is not used as a directory' weir synth tiny one
mkdir empty dir.safetensors
works 'an empty directory is used' weir synth tiny empty
refused 1 'is a directory' 'a directory is not replaced by a file' \
	weir synth tiny dir.safetensors --force
refused 1 no/where.safetensors 'a missing directory is named' \
	weir synth tiny no/where.safetensors
refused 1 'File too large' 'a file over the limit of file sizes is an error' \
	limited
check 'SIGTERM ends weir synth, and no file is left' interrupt SIGTERM 1
check 'SIGINT ends weir synth, and no file is left' interrupt SIGINT 1
check 'two SIGINT end weir synth, and no file is left' interrupt SIGINT 2
if python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
	check 'a progress bar is drawn on a terminal and erased at the end' bar
else
	skip 1 'no terminals here (/dev/pts)'
fi
finish
