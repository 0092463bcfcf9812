#!/bin/sh
# SPDX-License-Identifier: MIT
# weir load --memory-map: the picture of the buffers of a load.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# The picture is XML, and the EXPRESSION about it is true: boxes is a list of
# (class, x, y, width, height, tip), tensors what tips say: (name, bytes, offset),
# text all that is written.
drawn()
{
	python3 - map.svg "$1" <<-'END'
	import json, os, re, sys, xml.etree.ElementTree as tree
	ns = "{http://www.w3.org/2000/svg}"
	root = tree.parse(sys.argv[1]).getroot()
	boxes = [(r.get("class"),
	          *(float(r.get(k) or 0) for k in ("x", "y", "width", "height")),
	          r.findtext(ns + "title")) for r in root.iter(ns + "rect")]
	tip = re.compile(r"(.*): .* \((\d+) bytes\) at offset (\d+)", re.S)
	found = [tip.fullmatch(b[5]) for b in boxes if b[5]]
	tensors = {(m[1], int(m[2]), int(m[3])) for m in found if m}
	text = "\n".join(t.text or "" for t in root.iter(ns + "text"))
	height = float(root.get("height"))
	size = os.path.getsize(sys.argv[1])
	ok = eval("(" + sys.argv[2] + ")")
	if not ok:
	    print(len(boxes), sorted(tensors)[:4], text[:600], size)
	sys.exit(not ok)
	END
}

# A model of tensors with names that XML or a terminal would misread.
odd_names()
{
	python3 - odd.safetensors <<-'END'
	import json, struct, sys
	names = ["a<b>&\"c'", "esc\x1b[0m", "a.b.\u202eweight", "x" * 3000]
	header = {n: {"dtype": "U8", "shape": [4096],
	              "data_offsets": [4096 * i, 4096 * i + 4096]}
	          for i, n in enumerate(names)}
	text = json.dumps(header).encode()
	text += b" " * (-len(text) % 8)
	with open(sys.argv[1], "wb") as f:
	    f.write(struct.pack("<Q", len(text)) + text + bytes(4096 * len(names)))
	END
}

map()
{
	weir load --quiet --memory-map map.svg "$@"
}

plan 24
weir synth tiny tiny.safetensors --scale 8 2>/dev/null || exit 1
works 'a load draws its memory' map tiny.safetensors
check 'the picture of a load is titled' drawn \
	'"Memory of tiny.safetensors" in text'
check 'the picture of a load has a title for screen readers' \
	grep -q 'role="img" aria-labelledby="t d"' map.svg
check 'the picture of a load has colours for dark viewers' \
	grep -q 'prefers-color-scheme:dark' map.svg
check 'the picture of a load explains its rows' drawn \
	'"Each row is 2 MiB of a buffer" in text'
check 'the picture of a load names its memory and the size of it' drawn \
	're.search(r"Buffer 1: CPU_Huge, \d+\.\d MB", text)'
check 'the picture of a load names large tensors' drawn \
	'"model.embed_tokens" in text and "lm_head" in text'
weir inspect --json tiny.safetensors >inspected || exit 1
check 'the tensors in the picture have the bytes of the file' drawn \
	'len(tensors) > 10 and {t[:2] for t in tensors} <= {(t["name"], t["bytes"])
	for t in json.load(open("inspected"))["tensors"]}'
check 'tensors of the picture do not overlap' drawn \
	'(lambda s: all(a[2] + a[1] <= b[2] for a, b in zip(s, s[1:])))(
	sorted(tensors, key=lambda t: t[2]))'
check 'no box of the picture is outside of it' drawn \
	'all(0 <= b[1] and b[1] + b[3] <= 1240 and b[2] + b[4] <= height
	for b in boxes)'
works 'a load to two kinds of memory draws both' \
	map tiny.safetensors --place '*f*=CPU_Locked'
check 'the picture shows buffers of both kinds' drawn \
	'"CPU_Huge" in text and "CPU_Locked" in text and
	sum(b[0] == "b blue" for b in boxes) > 2'
works 'a load with an alignment draws its memory' \
	map tiny.safetensors --align 4096
check 'the picture counts the gaps of an alignment' drawn \
	're.search(r"[1-9]\S* kB in [1-9]\d* gaps", text) and
	sum(b[0] == "b hatched" for b in boxes) > 1'
works 'a mapped model is drawn' map tiny.safetensors --way map
check 'the picture of a mapped model says that it is mapped' drawn \
	'"mapped file" in text and any(b[0] == "b yellow" for b in boxes)'
odd_names
works 'names that are no XML are drawn' map odd.safetensors
check 'names in the picture are escaped' drawn \
	'{"a<b>&\"c'"'"'", "esc\\x1b[0m", "a.b.\\u202eweight"} <=
	{t[0] for t in tensors}'
weir synth many many.safetensors --count 100000 --scale 0.001 2>/dev/null ||
	exit 1
works '100,000 tensors are drawn' map many.safetensors
check 'the picture of 100,000 tensors has a bounded size' drawn \
	'size < 1 << 20 and height < 3000 and "tensors, " in text'
refused 1 no/where 'a picture that cannot be written is an error' \
	weir load tiny.safetensors --memory-map no/where
refused 1 nothing 'a load that fails draws nothing' \
	weir load nothing --memory-map none.svg
check 'a load that fails leaves no picture' test ! -e none.svg
refused 2 '--estimate' 'a picture of an estimate is refused' \
	weir load tiny.safetensors --estimate --memory-map none.svg
finish
