#!/bin/sh
# SPDX-License-Identifier: MIT
# The files that the command writes beside stdout: pictures and traces. Inputs
# are not replaced, and an older file only by a complete one.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# spared FILE SENTENCE CMD...: the output FILE is refused, and stays as it is.
spared()
{
	spared=$1
	t_title=$2
	shift 2
	before=$(cksum <"$spared" && stat -c %i "$spared")
	run "$@"
	is_refusal 1 "$spared: is a" && grep -q 'another name' "$tmp/err" &&
		test "$(cksum <"$spared" && stat -c %i "$spared")" = "$before" &&
		nothing_left
	t_result $? "$t_title" && return
	show_run "$@"
}

# No temporary file is there.
nothing_left()
{
	for left in .*.??????; do
		test ! -e "$left" || { echo "$left is left"; return 1; }
	done
}

# kept MODE SENTENCE CMD...: the command fails, prints nothing on stdout and one
# line on stderr, and old.svg stays. MODE: limit, or new: there is no old.svg.
kept()
{
	mode=$1
	t_title=$2
	shift 2
	rm -f old.svg
	test "$mode" = new || { echo old >old.svg && chmod 640 old.svg; }
	status=0
	(ulimit -f "$blocks" && exec "$@") >out 2>err </dev/null || status=$?
	test $status = 1 && test ! -s out && test "$(wc -l <err)" = 1 &&
		grep -q '^weir: old.svg: could not be written: File too' err &&
		if test "$mode" = new; then
			test ! -e old.svg
		else
			test "$(cat old.svg) $(stat -c %a old.svg)" = 'old 640'
		fi && nothing_left
	t_result $? "$t_title" && return
	show_run "$@"
}

# A signal while a load goes on removes what is not complete; one is recorded,
# two end the process at once.
signalled()
{
	echo old >old.svg && rm -f trace.json && python3 - <<-'END'
	import glob, os, signal, subprocess, time
	for times in 1, 2:
	    p = subprocess.Popen(["weir", "load", "a.gguf", "--repeat", "1000000",
	                          "--trace", "trace.json", "--quiet",
	                          "--memory-map", "old.svg"],
	                         stderr=subprocess.PIPE)
	    end = time.monotonic() + 60
	    while len(glob.glob(".*.??????")) < 2:
	        assert p.poll() is None and time.monotonic() < end
	        time.sleep(.01)
	    time.sleep(.2)
	    for _ in range(times):
	        p.send_signal(signal.SIGTERM)
	    err = p.communicate(timeout=300)[1]
	    assert p.returncode == -signal.SIGTERM and not err, (p, err)
	    assert open("old.svg").read() == "old\n"
	    assert not glob.glob(".*.??????"), glob.glob(".*")
	END
}

on_full_disk()
{
	unshare --mount sh -c '
	full()
	{
		"$@" 2>err && return 1
		grep -q "No space left" err
	}
	mount -t tmpfs -o size=16k none disk && echo old >disk/old.svg || exit
	head -c 1M /dev/zero >disk/full 2>err
	full weir graph --all --svg model.gguf disk/old.svg &&
		full weir graph --all --svg model.gguf disk/new.svg &&
		full weir load a.gguf --quiet --trace disk/new.json &&
		test "$(cat disk/old.svg)" = old &&
		test "$(ls -A disk | tr "\n" " ")" = "full old.svg "'
}

cat >five.csv <<END
id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
END
python3 -B "$srcdir/t/llama/sparse.py" model.gguf || exit 1
weir synth tiny a.gguf 2>/dev/null || exit 1
weir synth many m --count 50 --shards 2 2>/dev/null || exit 1
weir synth tiny b.safetensors 2>/dev/null || exit 1
ln -s a.gguf link.svg
ln a.gguf hard.svg
ln m/model-00002-of-00002.safetensors shard.svg
ln -s five.csv five.svg

plan 34
spared a.gguf 'the picture of a load does not replace the model' \
	weir load a.gguf --memory-map a.gguf
spared a.gguf 'the trace of a load does not replace the model' \
	weir load a.gguf --trace a.gguf
spared link.svg 'a picture does not replace the model through a symbolic link' \
	weir load a.gguf --memory-map link.svg
spared hard.svg 'a trace does not replace the model by its other name' \
	weir load a.gguf --trace hard.svg
spared shard.svg 'a picture does not replace a shard of the model' \
	weir load m --memory-map shard.svg
spared m/model.safetensors.index.json \
	'a trace does not replace the index of the model' \
	weir load m --trace m/model.safetensors.index.json
spared b.safetensors 'a trace does not replace another model' \
	weir load a.gguf --trace b.safetensors
spared model.gguf 'the picture of a graph does not replace the model' \
	weir graph model.gguf --svg model.gguf
spared five.csv 'the picture of a placement does not replace the buffers' \
	weir plan five.csv --svg five.csv
spared five.svg 'buffers are not replaced through a symbolic link' \
	weir plan five.csv --svg five.svg
spared five.csv 'buffers on standard input are not replaced' \
	sh -c 'exec weir plan - --svg five.csv <five.csv'

echo old >one.svg && ln one.svg two.svg
refused 2 '--memory-map and --trace are one file' \
	'a picture and a trace are not the same file by two names' \
	weir load a.gguf --memory-map one.svg --trace two.svg

blocks=2
kept limit 'a placement that cannot be drawn in full leaves the older picture' \
	weir plan five.csv --svg old.svg
kept new 'a placement that cannot be drawn in full leaves no picture' \
	weir plan five.csv --svg old.svg
kept limit 'a graph that cannot be drawn in full leaves the older picture' \
	weir graph model.gguf --all --svg old.svg
kept new 'a graph that cannot be described in full leaves no file' \
	weir graph model.gguf --all --dot old.svg
blocks=1
kept limit 'a trace that cannot be written leaves an older one' \
	weir load a.gguf --quiet --way buffered --repeat 50 --trace old.svg
kept new 'a trace that cannot be written leaves no file' \
	weir load a.gguf --quiet --way buffered --repeat 50 --trace old.svg
if unshare --mount sh -c 'mount -t tmpfs none /mnt' 2>/dev/null; then
	mkdir disk
	check 'on a full disk older files stay, and no new ones' on_full_disk
else
	skip 1 'no mounts here'
fi
check 'signals during a load leave an older picture and no temporary file' \
	signalled

echo old >old.svg && chmod 604 old.svg
works 'a picture replaces an older one' weir plan five.csv --svg old.svg
is "$(tail -n 1 old.svg) $(stat -c %a old.svg)" '</svg> 604' \
	'a picture that replaces an older one keeps its mode'
(umask 027 && exec weir plan five.csv --svg fresh.svg) >/dev/null 2>&1
is "$(stat -c %a fresh.svg)" 640 'a new picture has the mode of the umask'
mkdir folder
ln -s folder/real.svg way.svg
works 'a picture is written through a link to no file' \
	weir plan five.csv --svg way.svg
check 'a link to a picture stays' test -L way.svg -a -s folder/real.svg
echo old >folder/real.svg
works 'a picture is written through a link to an older one' \
	weir plan five.csv --svg way.svg
check 'a picture is the file that a link leads to' \
	sh -c 'test -L way.svg && cmp folder/real.svg fresh.svg'
works 'a picture may be standard output' \
	weir plan five.csv --svg /dev/stdout --quiet
check 'standard output has the picture and then the placement' python3 -c '
import sys
out = open("out").read()
assert out.startswith(open("fresh.svg").read() + "id,"), out[:200]'
sh -c 'echo before; weir graph model.gguf --svg /dev/stdout' >appended 2>err
is "$(head -n 1 appended; tail -n 1 appended)" 'before
</svg>' 'a picture on standard output follows what is there'
check 'a picture may be a pipe' sh -c \
	'test "$(weir graph model.gguf --svg /dev/stdout | tail -n 1)" = "</svg>"'
refused 1 'cannot be written: No such file' 'an empty name is refused' \
	weir plan five.csv --svg ''
refused 1 'cannot be written: Is a directory' 'a folder is refused' \
	weir plan five.csv --svg folder
check 'no temporary file is left' nothing_left
finish
