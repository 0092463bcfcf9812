#!/bin/sh
# SPDX-License-Identifier: MIT
# weir load: its report, its JSON, the bytes it loads, and signals.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# The digests of tensors with these names are sha256sum's lines for files of
# these names.
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
	# sha256sum's lines are in the order of the shell: sort both.
	sort lines >want
	weir load odd.safetensors --digest=sha256 2>/dev/null >got &&
		sort got | diff want -
}

# interrupt SIGNAL TIMES: the signal ends a running load, which prints nothing.
interrupt()
{
	python3 - "$@" <<-'END'
	import signal, subprocess, sys, time
	number = getattr(signal, sys.argv[1])
	# A background job of a shell ignores SIGINT, and so would its children.
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

# estimated FROM TO OPTION...: whatever the budget between FROM and TO, the load
# succeeds if the estimate says that it fits, and fails if not. Both happen.
estimated()
{
	python3 - "$@" <<-'END'
	import subprocess, sys
	first, last, options = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
	def status(*more):
	    return subprocess.run(["weir", "load", "tiny.safetensors", *options,
	                           "--budget", str(budget), *more],
	                          stdout=subprocess.DEVNULL,
	                          stderr=subprocess.DEVNULL).returncode
	seen = []
	for budget in range(first, last, (last - first) // 24):
	    seen.append((status("--estimate"), status("--quiet")))
	    assert seen[-1] in ((0, 0), (3, 1)), (budget, seen[-1])
	assert (0, 0) in seen and (3, 1) in seen, seen
	END
}

narrow()
(
	ulimit -v 8388608
	exec weir load m
)

# With too few descriptors for the setting of huge pages: what is said is true.
no_false_reason()
{
	local n

	test -e /sys/kernel/mm/transparent_hugepage/enabled || return 0
	for n in 5 6 7 8 9 10 11 12 13 14 64; do
		(ulimit -n "$n" && weir load tiny.safetensors >out 2>&1 3>&-) || :
		! grep -q 'kernel has no transparent' out || return 1
	done
	grep -q 'tiny.safetensors: 27 tensors' out
}

plan 74
weir synth tiny tiny.safetensors 2>/dev/null
weir synth many m --count 500 --shards 2 2>/dev/null
check 'with few descriptors the kernel is not said to lack huge pages' \
	no_false_reason
works 'weir load prints a report' weir load tiny.safetensors
is "$(wc -c <out)" 0 'the report of a load is not on stdout'
has "$(cat err)" 'tiny.safetensors: 27 tensors, 4.93 MB in' \
	'the report of a load has the tensors, the bytes and the time'
for word in ways io memory cpu; do
	check "the report of a load has a line on $word" grep -q "^  $word " err
done
works 'weir load --quiet succeeds' weir load --quiet tiny.safetensors
is "$(cat err)" '' 'weir load --quiet prints nothing on stderr'
works 'weir load --json succeeds' weir load --json m
is "$(cat err)" '' 'weir load --json prints nothing on stderr'
check 'the JSON has the bytes of the tensors' says 'j["bytes"] == 500 * 32768'
check 'gbps in the JSON is bytes over seconds' \
	says 'abs(j["gbps"] - j["bytes"] / j["seconds"] / 1e9) < 1e-6'
check 'io in the JSON is the method that was used' \
	says 'j["io"] in ("uring", "sync")'
check 'the ways in the JSON add up to the bytes' says 'j["bytes"] == sum(
	j["ways"][w] for w in ("in_place", "staged", "buffered", "mapped"))'
check 'the JSON has times and counts' says 'j["seconds"] > 0 and
	j["cpu_seconds"] >= 0 and j["enters"] >= 0 and
	j["peak_rss"] > j["bytes"] and j["staging_bytes"] >= 0'
check 'the list of runs in the JSON has one run' says \
	'len(k) == 1 and k[0]["bytes"] == j["bytes"]'
check 'the JSON describes the tensors' says 'len(j["tensors"]) == 500 and
	j["tensors"][7] == {"name": "model.blocks.0000007.weight",
		"dtype": "BF16", "shape": [128, 128], "device": "CPU",
		"memory": "huge", "bytes": 32768, "state": "loaded"}'
works 'weir load --json --digest succeeds' \
	weir load --json --digest tiny.safetensors
check 'the JSON has the digest of each tensor' says 'all(len(t["digest"]) == 32
	for t in j["tensors"])'
check 'the JSON has the bytes and the kind of the memory' \
	says 'j["memory"]["bytes"] >= j["bytes"] and
	j["memory"]["kind"] == "huge"'
check 'weir-load(1) names each member of the JSON of a load' \
	documented weir-load.1
works 'weir load --repeat succeeds' weir load m --json --repeat 3
check 'the JSON of --repeat has each run' says 'len(k) == 3 and
	k[2]["seconds"] == j["seconds"] and all(r["bytes"] == j["bytes"]
	for r in k)'
works 'weir load --repeat --fresh succeeds' \
	weir load m --repeat 3 --fresh --json
check 'weir load --repeat --fresh frees the memory of each run' says \
	'len(k) == 3 and j["memory"]["bytes"] < 2 * j["bytes"]'
works 'the report of --repeat is printed' weir load m --repeat 3
check 'the report of --repeat has the slowest and the fastest run' \
	grep -q '^  runs    3: ' err

weir load tiny.safetensors --place 'model.*=CPU' --memory plain 2>err
check 'the report has a line for each kind of memory' sh -c \
	'grep -q "^  memory  plain: " err && grep -q "^  memory  huge: " err'
weir load tiny.safetensors --first 'lm*' 2>err
check 'the report says how much of a kind has no huge pages' sh -c \
	'grep -q "^  memory  huge: 4.9" err &&
	! grep -A 1 "^  memory .* [1-9][^,]* in huge" err | grep "^ *no huge"'
weir load tiny.safetensors --place 'model.*=CPU' --memory plain --json >out \
	2>err
check 'the memory in the JSON is the sum of all kinds' says \
	'j["memory"]["bytes"] >= j["bytes"]'
refused 2 'use --way map' 'a --place in mapped memory names --way map' \
	weir load tiny.safetensors --place '*=CPU_Mapped'

works 'weir load --hugetlb succeeds' weir load tiny.safetensors --hugetlb --json
check 'the memory of --hugetlb is reserved, or the reason why not is reported' \
	says 'j["memory"]["reserved"] == j["memory"]["bytes"] or
	"no reserved pages of 2048 KiB: " in j["memory"]["why"]'
works 'weir load --hugetlb=1G succeeds' \
	weir load tiny.safetensors --hugetlb=1G --json
check 'the memory of --hugetlb=1G is reserved, or the reason why not is reported' \
	says 'j["memory"]["reserved"] == j["memory"]["bytes"] or
	"no reserved pages of 1048576 KiB: " in j["memory"]["why"]'
refused 1 "root's budget of 16777300 are in use" \
	'a load that exceeds --budget is refused' \
	weir load m --budget 16777300
check 'an estimate with --budget says whether the load succeeds' \
	estimated 3000000 16000000
check 'an estimate with --budget counts small pages as the load does' \
	estimated 10900000 11300000 --memory plain
check 'an estimate with --budget counts all kinds of host memory' \
	estimated 3000000 18000000 --place '*f*=CPU_Locked'
run weir load tiny.safetensors --estimate --budget 1M
is "$status $(grep -c 'staging slots' err)" '3 1' \
	'an estimate says that the slots exceed --budget'
works 'a mapped model needs no --budget' \
	weir load tiny.safetensors --way map --budget 1M --trace trace.json
check 'the report of a mapped model has no line on the I/O engine' \
	sh -c "! grep '^  io ' err"
works 'the estimate of a mapped model needs no --budget' \
	weir load tiny.safetensors --way map --budget 1M --estimate
works 'a load and its slots fit into a --budget of twice the model' \
	weir load m --budget 32M --quiet

works 'weir load --way map succeeds' weir load tiny.safetensors --way map --json
check 'weir load --way map maps every byte' says \
	'j["ways"]["mapped"] == j["bytes"]'
check 'the JSON of --way map has no method of I/O' says \
	'io is None and j["enters"] == 0'
run weir load tiny.safetensors --way map --repeat 2
check 'the report of --way map has no rate in its first line' \
	sh -c "grep -q 'tensors, .* s$' '$tmp/out' '$tmp/err'"
check 'the report of --way map has no rate in any line' \
	sh -c "! grep 'GB/s' '$tmp/out' '$tmp/err'"
works 'weir load --way buffered succeeds' \
	weir load tiny.safetensors --way buffered --json
check 'weir load --way buffered reads every byte through the page cache' \
	says 'j["ways"]["buffered"] == j["bytes"]'
works 'weir load --io sync succeeds' weir load m --io sync --json
check 'the JSON of --io sync has no system calls of the ring' \
	says 'j["io"] == "sync" and j["enters"] == 0'
works 'weir load --only succeeds' weir load tiny.safetensors --json \
	--only 'model.layers.0.conv.*' --only lm_head.weight --only 'lm_*'
check 'weir load --only loads the tensors that match one of its patterns' says \
	'sorted(t["name"] for t in j["tensors"]) == ["lm_head.weight",
	"model.layers.0.conv.offset", "model.layers.0.conv.quantized",
	"model.layers.0.conv.shift", "model.layers.0.conv.weight"]'
refused 1 "'lm_hea'" \
	'a pattern of --only that matches no whole name is refused' \
	weir load tiny.safetensors --only lm_hea
refused 1 "'none'" 'each pattern of --only must match a tensor' \
	weir load tiny.safetensors --only 'lm*' --only none
check 'names in digests are escaped as sha256sum escapes them' escaped_names
works 'weir load --trace succeeds' weir load m --trace trace.json
check 'weir load --trace writes events as JSON' python3 -c 'import json
t = json.load(open("trace.json"))
events = t["traceEvents"] if isinstance(t, dict) else t
assert len(events) > 4 and all("ph" in e for e in events)'
refused 1 no/where 'a trace that cannot be written is an error' \
	weir load m --trace no/where
refused 1 "'TPU7'" 'a device that does not exist is an error' \
	weir load m --device TPU7
works 'a device with parameters is accepted' weir load m --device CPU:node=0
check 'SIGINT ends a load by that signal' interrupt SIGINT 1
check 'two SIGTERM end a load by that signal' interrupt SIGTERM 2
if test "$WEIR_T_SANITIZER" = no; then
	works 'a load works in an address space of 8 GiB' narrow
else
	skip 1 'a sanitizer needs more address space'
fi
if test -w /dev/shm; then
	here=$tmp
	memory=$(mktemp -d /dev/shm/weir-t.XXXXXX)
	trap 'rm -rf "$here" "$memory"' 0
	cp tiny.safetensors "$memory"
	weir load tiny.safetensors --digest 2>/dev/null >want
	weir load "$memory/tiny.safetensors" --way direct 2>err
	is "$(grep -c '^  note ' err)" 1 \
		'the report says once that a file has no direct reads'
	works 'a file on tmpfs is loaded' \
		weir load "$memory/tiny.safetensors" --digest
	check 'a file on tmpfs is loaded with the right bytes' cmp out want
	rm -rf "$memory"
else
	skip 3 'no /dev/shm'
fi
works 'a model without tensors is loaded' sh -c \
	'printf "{}" | python3 "$0/t/safetensors.py" put none.safetensors &&
	weir load none.safetensors --digest' "$srcdir"
is "$(cat out)" '' 'a model without tensors has no digests'
printf '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' |
	reader put one.safetensors --data 1
weir load one.safetensors 2>err
has "$(cat err)" 'one.safetensors: 1 tensor, 1 B in' \
	'the report of a load of one tensor is in the singular'
finish
