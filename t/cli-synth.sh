#!/bin/sh
# SPDX-License-Identifier: MIT
# weir synth: what it writes, and that nothing half written stays behind.
. "${0%/*}/cli.inc"

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

# interrupt SIGNAL TIMES: what the process died of, and what it left.
interrupt()
{
	python3 - "$@" <<-'END'
	import glob, os, signal, subprocess, sys, time
	number = getattr(signal, sys.argv[1])
	# In the background of a shell SIGINT is ignored, and stays so.
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

# A bar is drawn on a terminal, and gone at the end.
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

plan 39
works 'tiny is one file if OUT ends in .safetensors' \
	weir synth tiny tiny.safetensors
check 'an independent reader finds it in order: ranges, order, padding' \
	reader check tiny.safetensors
is "$(variety tiny.safetensors 2)" 19 '... of 19 dtypes'
is "$(reader list tiny.safetensors | cut -f 3 |
	awk -F, '{ print $0 == "[]" ? 0 : NF }' | sort -u | tr '\n' ' ')" \
	'0 1 2 3 4 ' '... and of every rank from 0 to 4'
check '... with a tensor of no bytes' \
	sh -c 'python3 "$0/t/safetensors.py" list tiny.safetensors |
		cut -f 6 | grep -qx 0' "$srcdir"
weir synth tiny again.safetensors --seed 0 2>/dev/null
check 'the same seed, which is 0 by default, gives the same bytes' \
	cmp tiny.safetensors again.safetensors
weir synth tiny other.safetensors --seed 18446744073709551615 2>/dev/null
reader sums tiny.safetensors >one
reader sums other.safetensors >two
is "$(join -1 2 -2 2 one two | awk '$2 == $3 { print $1 }')" \
	model.layers.0.empty 'another seed gives other bytes to every tensor'
is "$(cut -d ' ' -f 1 one | sort | uniq -d)" '' \
	'no two tensors have the same bytes'

weir synth tiny scaled.safetensors --scale 0.3 2>/dev/null
check '--scale multiplies the first dimension, rounded up, at least 1' \
	scaled_shapes 0.3
check '... of nothing but valid tensors' reader check scaled.safetensors
weir synth tiny scaled.safetensors --scale 2.5 --force 2>/dev/null
check '... and larger too' scaled_shapes 2.5

for preset in tinyllama-1.1b llama-3.1-8b qwen3-30b-a3b; do
	check "$preset has the tensors of its architecture" has_tensors $preset
done
is "$(wc -l <want)" 18867 '... which for qwen3-30b-a3b are 18867'
works 'many writes --count tensors' weir synth many m --count 300
is "$(reader list m | cut -f 2,3,6 | sort | uniq -c | sed 's/^ *//')" \
	"300 BF16${TAB}[128, 128]${TAB}32768" '... of 32 KiB each'
is "$(ls -A m)" model.safetensors 'a directory holds model.safetensors'

works '--shards spreads a model over files' \
	weir synth many three --count 300 --shards 3
check '... with an index that says all about them' reader check three
check '... of about the same size' even_shards
is "$(reader sums three | md5sum)" "$(reader sums m | md5sum)" \
	'the bytes of a tensor do not depend on the shards'
works 'there may be as many shards as tensors' \
	weir synth tiny each --shards 27
check '... and each holds one' reader check each

refused 1 exists 'a file that is there is not replaced' \
	weir synth tiny tiny.safetensors --seed 1
check '... and is as it was' cmp tiny.safetensors again.safetensors
ln -s again.safetensors link.safetensors
refused 1 exists 'nor is a symbolic link' weir synth tiny link.safetensors
works '--force replaces it' weir synth tiny link.safetensors --force --seed 1
check '... and not what it points to' cmp tiny.safetensors again.safetensors
refused 1 'not empty' 'a directory with something in it is not used' \
	weir synth tiny three
weir synth tiny three --force 2>/dev/null
is "$(ls -A three)" model.safetensors \
	'--force leaves nothing of the model that was there'
mkdir empty dir.safetensors
works 'an empty directory is used' weir synth tiny empty
refused 1 'is a directory' 'a directory is not replaced by a file' \
	weir synth tiny dir.safetensors --force
refused 1 no/where.safetensors 'a directory that is missing is named' \
	weir synth tiny no/where.safetensors
refused 1 'File too large' 'a file that may not grow is an error' limited
check 'SIGTERM ends it with nothing left behind' interrupt SIGTERM 1
check 'SIGINT as well' interrupt SIGINT 1
check '... and two of them' interrupt SIGINT 2
if python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
	check 'a terminal sees a bar, and not for long' bar
else
	skip 1 'no terminals here (/dev/pts)'
fi
finish
