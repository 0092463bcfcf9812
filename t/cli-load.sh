#!/bin/sh
# SPDX-License-Identifier: MIT
# weir load: its report, its JSON, what it loads, and how it ends.
. "${0%/*}/cli.inc"

cd "$tmp" || exit 1

# A Python expression is true of the object j that was printed.
says()
{
	python3 -c 'import json, sys
j = json.load(open("out"))
k = j["runs"]
assert eval("(" + sys.argv[1] + ")"), {m: j[m] for m in j if m != "tensors"}' "$1"
}

# As sha256sum writes lines for files of these names.
escaped_names()
{
	mkdir names && python3 - <<-'END' || return
	import json
	names = ["line\nfeed", "carriage\rreturn", "back\\slash", "all\\\r\n",
	         "plain", "esc\x1b[31m", "\u00fc"]
	header, end = {}, 0
	for i, name in enumerate(names):
	    data = bytes(k * 7 & 0xff for k in range(end, end + i + 1))
	    open(f"names/{name}", "wb").write(data)
	    header[name] = {"dtype": "U8", "shape": [i + 1],
	                    "data_offsets": [end, end + i + 1]}
	    end += i + 1
	json.dump(header, open("header", "w"))
	END
	reader put odd.safetensors --data 28 <header
	(cd names && sha256sum -- *) >lines || return
	# Those of sha256sum are in the order of the shell: sort both.
	sort lines >want
	weir load odd.safetensors --digest=sha256 2>/dev/null >got &&
		sort got | diff want -
}

# What a load that is at work dies of; it says nothing.
interrupt()
{
	python3 - "$@" <<-'END'
	import signal, subprocess, sys, time
	number = getattr(signal, sys.argv[1])
	# In the background of a shell SIGINT is ignored, and stays so.
	default = lambda: signal.signal(number, signal.SIG_DFL)
	p = subprocess.Popen(["weir", "load", "m", "--repeat", "1000000",
	                      "--json"], stdout=subprocess.PIPE,
	                     stderr=subprocess.PIPE, preexec_fn=default)
	time.sleep(0.7)
	for _ in range(int(sys.argv[2])):
	    p.send_signal(number)
	out, err = p.communicate(timeout=300)
	assert p.returncode == -number, p.returncode
	assert (out, err) == (b"", b""), (out, err)
	END
}

narrow()
(
	ulimit -v 8388608
	exec weir load m
)

plan 52
weir synth tiny tiny.safetensors 2>/dev/null
weir synth many m --count 500 --shards 2 2>/dev/null
works 'a load reports on stderr' weir load tiny.safetensors
is "$(wc -c <out)" 0 '... and leaves stdout alone'
has "$(cat err)" 'tiny.safetensors: 27 tensors, 4.93 MB in' \
	'... what it loaded, in what time'
for word in ways io memory cpu; do
	check "... and its $word" grep -q "^  $word " err
done
works '--quiet reports nothing' weir load --quiet tiny.safetensors
is "$(cat err)" '' '... at all'
works '--json gives one object' weir load --json m
is "$(cat err)" '' '... and no report'
check 'bytes are those of the tensors' says 'j["bytes"] == 500 * 32768'
check 'gbps is bytes over seconds' \
	says 'abs(j["gbps"] - j["bytes"] / j["seconds"] / 1e9) < 1e-6'
check 'io is the method that was used' says 'j["io"] in ("uring", "sync")'
check 'ways add up to the bytes' says 'j["bytes"] == sum(
	j["ways"][w] for w in ("in_place", "staged", "buffered", "mapped"))'
check 'times and counts are there' says 'j["seconds"] > 0 and
	j["cpu_seconds"] >= 0 and j["enters"] >= 0 and
	j["peak_rss"] > j["bytes"] and j["staging_bytes"] >= 0'
check 'a list of runs has the one' says \
	'len(k) == 1 and k[0]["bytes"] == j["bytes"]'
check 'tensors are described' says 'len(j["tensors"]) == 500 and
	j["tensors"][7] == {"name": "model.blocks.0000007.weight",
		"dtype": "BF16", "shape": [128, 128], "device": "CPU",
		"bytes": 32768, "state": "loaded"}'
works '--digest adds to it' weir load --json --digest tiny.safetensors
check '... and prints no lines' says 'all(len(t["digest"]) == 32
	for t in j["tensors"])'
check 'memory says what it is' says 'j["memory"]["bytes"] >= j["bytes"] and
	j["memory"]["kind"] == "huge"'
works '--repeat loads again' weir load m --json --repeat 3
check '... and tells of each run' says 'len(k) == 3 and
	k[2]["seconds"] == j["seconds"] and all(r["bytes"] == j["bytes"]
	for r in k)'
works '--fresh takes new memory each time' \
	weir load m --repeat 3 --fresh --json
check '... and no more of it' says \
	'len(k) == 3 and j["memory"]["bytes"] < 2 * j["bytes"]'
works 'people are told of all runs' weir load m --repeat 3
check '... from the slowest to the fastest' grep -q '^  runs    3: ' err

works '--way map maps' weir load tiny.safetensors --way map --json
check '... every byte, and copies none' says \
	'j["ways"]["mapped"] == j["bytes"]'
run weir load tiny.safetensors --way map --repeat 2
check '... and has no rate, since nothing was read' \
	sh -c "grep -q 'tensors, .* s$' '$tmp/out' '$tmp/err'"
check '... in no line' sh -c "! grep 'GB/s' '$tmp/out' '$tmp/err'"
works '--way buffered reads through the page cache' \
	weir load tiny.safetensors --way buffered --json
check '... every byte' says 'j["ways"]["buffered"] == j["bytes"]'
works '--io sync does without the ring' weir load m --io sync --json
check '... and says so' says 'j["io"] == "sync" and j["enters"] == 0'
works '--only takes a part' weir load tiny.safetensors --json \
	--only 'model.layers.0.conv.*' --only lm_head.weight --only 'lm_*'
check '... which matches one of the patterns' says \
	'sorted(t["name"] for t in j["tensors"]) == ["lm_head.weight",
	"model.layers.0.conv.offset", "model.layers.0.conv.quantized",
	"model.layers.0.conv.shift", "model.layers.0.conv.weight"]'
refused 1 "'lm_hea'" 'a pattern matches whole names, and must match one' \
	weir load tiny.safetensors --only lm_hea
refused 1 "'none'" '... each of them' \
	weir load tiny.safetensors --only 'lm*' --only none
check 'names in digests are escaped as sha256sum does it' escaped_names
works '--trace writes a trace' weir load m --trace trace.json
check '... of events, as JSON' python3 -c 'import json
t = json.load(open("trace.json"))
events = t["traceEvents"] if isinstance(t, dict) else t
assert len(events) > 4 and all("ph" in e for e in events)'
refused 1 no/where 'a trace that cannot be written is an error' \
	weir load m --trace no/where
refused 1 "'TPU7'" 'so is a device that is not there' \
	weir load m --device TPU7
works 'a device may have parameters' weir load m --device CPU:node=0
check 'SIGINT ends a load, by that signal' interrupt SIGINT 1
check 'so does SIGTERM, twice' interrupt SIGTERM 2
if test "$WEIR_T_SANITIZER" = no; then
	works 'an address space of 8 GiB is enough' narrow
else
	skip 1 'a sanitizer needs more address space'
fi
if test -w /dev/shm; then
	here=$tmp
	memory=$(mktemp -d /dev/shm/weir-t.XXXXXX)
	trap 'rm -rf "$here" "$memory"' 0
	cp tiny.safetensors "$memory"
	weir load tiny.safetensors --digest 2>/dev/null >want
	works 'a file in memory is loaded' \
		weir load "$memory/tiny.safetensors" --digest
	check '... byte by byte' cmp out want
	rm -rf "$memory"
else
	skip 2 'no /dev/shm'
fi
works 'a model of no tensors is loaded' sh -c \
	'printf "{}" | python3 "$0/t/safetensors.py" put none.safetensors &&
	weir load none.safetensors --digest' "$srcdir"
is "$(cat out)" '' '... and has no digests'
finish
