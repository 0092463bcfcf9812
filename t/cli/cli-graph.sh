#!/bin/sh
# SPDX-License-Identifier: MIT
# weir graph: the table, JSON, and the pictures as SVG and DOT.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# model PATH [NAME=VALUE]...: a Llama model whose weights are 0.
model()
{
	python3 -B "$srcdir/t/llama/sparse.py" "$@" || exit 1
}

# The picture FILE is XML, and the EXPRESSION about it is true: text is a list
# of all texts, lines of (x, y, class, text), boxes of (class, x, y, width,
# height, tip), ops those of operations.
drawn()
{
	python3 - "$@" <<-'END'
	import sys, xml.etree.ElementTree as tree
	ns = "{http://www.w3.org/2000/svg}"
	root = tree.parse(sys.argv[1]).getroot()
	width, height = (float(root.get(k)) for k in ("width", "height"))
	boxes = [(r.get("class"),
	          *(float(r.get(k)) for k in ("x", "y", "width", "height")),
	          r.findtext(ns + "title") or "")
	         for r in root.iter(ns + "rect") if r.get("x")]
	ops = [b for b in boxes if "; result " in b[5]]
	lines = [(float(t.get("x")), float(t.get("y")), t.get("class"), t.text)
	         for t in root.iter(ns + "text")]
	text = [line[3] for line in lines]
	spans = [(y, x - 7 * len(s) * ("end" in c), x + 7 * len(s) *
	          ("end" not in c)) for x, y, c, s in lines if y]
	arrows = [p for p in root.iter(ns + "path") if p.get("class") == "edge"]
	copies = [p for p in root.iter(ns + "path") if p.get("class") == "copy"]
	ok = eval("(" + sys.argv[2] + ")")
	if not ok:
	    print(len(boxes), len(ops), text[:40])
	sys.exit(not ok)
	END
}

# Boxes of operations and their leaves are apart, or one is in the other.
apart='all(a is b or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1] or
	a[2] + a[4] <= b[2] or b[2] + b[4] <= a[2] for a in ops for b in ops)'
# Texts of the same line, at the width that most characters have at most.
readable='all(a[2] <= b[1] or b[2] <= a[1] for a in spans for b in spans
	if a[0] == b[0] and a is not b)'

# The syntax of DOT as far as it is used; labels are XML.
dot_parses()
{
	python3 - "$1" <<-'END'
	import re, sys, xml.etree.ElementTree as tree
	text = open(sys.argv[1], encoding="utf-8").read()
	def label(m):
	    tree.fromstring("<x>" + m[1] + "</x>")
	    return "label=L"
	text = re.sub(r"label=<(.*)>(?=\]?$)", label, text, flags=re.M)
	assert "<" not in text, text[text.index("<"):][:200]
	assert text.count("{") == text.count("}") > 2
	assert re.fullmatch(r"digraph weir \{\n.*\}\n", text, re.S)
	value = r'(?:L|[\w.]+|"[^"\n]*")'
	line = re.compile(rf"""\{{rank=same\ s\d+\ b\d+\}} | subgraph\ cluster_\w+\ \{{ | \}} | {value}={value}
	    | \w+(\ ->\ \w+)?(\ \[\w+={value}(\s\w+={value})*\])?""", re.X)
	nodes, ends = set(), set()
	for row in text.splitlines()[1:-1]:
	    assert line.fullmatch(row), row
	    found = re.match(r"(b\d+) (->)? ?(b\d+)?", row)
	    if found and found[2]:
	        ends |= {found[1], found[3]}
	    elif found:
	        nodes.add(found[1])
	assert ends <= nodes and len(nodes) > 5, ends - nodes
	END
}

plan 75
model m.gguf
works 'weir graph prints a table' weir graph m.gguf
has "$(cat "$tmp/out")" 'm.gguf: the graph of a pass of 1 token, which attends to 256' \
	'the table of a graph says which pass it is'
has "$(cat "$tmp/out")" 'nodes in 5 layers: 99 operations, 48 weights, 10 caches, 3 inputs' \
	'the table of a graph counts its nodes'
check 'the table of a graph counts matrix products' \
	grep -q '^mul_mat  *36  ' "$tmp/out"
check 'the table of a graph has a line for the device' \
	grep -q '^CPU  *99  ' "$tmp/out"
works 'weir graph --json succeeds' weir graph --json m.gguf
check 'the JSON of a graph has the sums of its operations' says \
	'sum(o["nodes"] for o in j["operations"]) == 99 and
	sum(o["flops"] for o in j["operations"]) == j["flops"] and
	j["layers"] == 5 and j["tokens"] == 1 and j["context"] == 256'
check 'the JSON of a graph has the bytes of its weights' says \
	'j["weights"]["bytes"] == sum(d["weights"]["bytes"]
	for d in j["devices"]) == 2 * (2 * 96 * 64 + 5 * (2 * 64 * 64 +
	2 * 32 * 64 + 3 * 160 * 64)) + 4 * 11 * 64'
check 'the JSON of a graph has the memory of the device' says \
	'j["devices"][0]["memory"]["results"] > 0'
check 'weir-graph(1) names each member of the JSON of a graph' \
	documented weir-graph.1
works 'weir graph --tokens succeeds' \
	weir graph --json m.gguf --tokens 300 --context 1000
check '--tokens and --context choose the pass' says \
	'j["tokens"] == 300 and j["context"] == 1000'
works 'the context of a pass is at most that of the model' \
	weir graph m.gguf --tokens 2000 --json
check 'the context of a long pass is that of the model' says \
	'j["context"] == 2048'

works 'weir graph --svg draws to a file' weir graph m.gguf --svg m.svg
check 'a drawn graph is titled' drawn m.svg \
	'"m.gguf: the graph of a pass of 1 token, which attends to 256" in text'
check 'a drawn graph has a title for screen readers' \
	grep -q 'role="img" aria-labelledby="t d"' m.svg
check 'the first layer is drawn, and one box for the others' drawn m.svg \
	'"Layer 0" in text and "Layers 1 to 4" in text and
	"19 operations each, as in layer 0" in text and "Layer 1" not in text'
check 'a drawn graph has a box for each operation of a layer' drawn m.svg \
	'len(ops) == 1 + 19 + 3'
check 'an operation is drawn with its name, kind, shape and bytes' drawn m.svg \
	'"attn_q" in text and "mul_mat" in text and "F32 [1, 64]" in text and
	"256 B" in text'
check 'a weight is drawn with its dtype, shape and bytes' drawn m.svg \
	'"ffn_down  F16 [64, 160]" in text and "20.5 kB" in text'
check 'a box for several layers has the bytes of their weights' drawn m.svg \
	'"36 weights: F16, F32" in text and "346 kB" in text'
check 'a drawn graph explains its colours' drawn m.svg \
	'"weight: name, dtype, shape, bytes" in text and
	"matrix product" in text'
check 'the device of a graph is drawn with what it computes' drawn m.svg \
	'"Device CPU" in text and "99 operations" in text'
check 'boxes of operations do not overlap' drawn m.svg "$apart"
check 'texts of a drawn graph do not overlap' drawn m.svg "$readable"
check 'a drawn graph has an arrow for each use of a result' drawn m.svg \
	'len(arrows) == 24 + 4 + 1'
check 'nothing is drawn outside of the picture' drawn m.svg \
	'all(0 <= b[1] and b[1] + b[3] <= width and 0 <= b[2] and
	b[2] + b[4] <= height for b in boxes)'
works 'a graph is drawn to stdout' weir graph m.gguf --svg
check 'a graph on stdout is that in a file' cmp m.svg "$tmp/out"
works '--all draws each layer' weir graph m.gguf --svg --all all.svg
check 'all layers are drawn' drawn all.svg \
	'{f"Layer {i}" for i in range(5)} <= set(text) and
	len(ops) == 99'
check 'boxes of all layers do not overlap' drawn all.svg "$apart"
works 'a pass of several tokens is drawn' \
	weir graph m.gguf --svg --tokens 8 m8.svg
check 'the last layer, which needs one token only, is drawn' drawn m8.svg \
	'"Layers 1 to 3" in text and "Layer 4" in text and
	"F32 [8, 64]" in text'
model mixed.gguf mixed=1
works 'a model of several dtypes is drawn' weir graph mixed.gguf --svg mixed.svg
check 'layers whose weights have other dtypes are drawn together' \
	drawn mixed.svg '"36 weights: F16, F32, Q8_0" in text'

works 'weir graph --dot describes the graph' weir graph m.gguf --dot m.dot
check 'a graph in DOT is well-formed' dot_parses m.dot
weir graph m.gguf --dot --all >all.dot || exit 1
check 'a graph of all layers in DOT is well-formed' dot_parses all.dot
if command -v dot >/dev/null; then
	check 'graphviz draws the graph' dot -Tsvg m.dot -o dot.svg
else
	skip 1 'no graphviz'
fi

devices=CPU:devices=2,apart=1,CPU1
works 'a graph on two devices is listed' weir graph m.gguf --devices $devices
check 'the list of a graph has the copy between two devices' grep -q \
	'^  copy CPU to CPU1: blk.2.sum  F32 \[1, 64\], 256 B$' "$tmp/out"
works 'a graph on two devices is described as JSON' \
	weir graph m.gguf --devices $devices --json
check 'the JSON of a graph has splits that have all operations' says \
	'[s["device"] for s in j["splits"]] == ["CPU", "CPU1"] and
	sum(s["operations"] for s in j["splits"]) == 99 and
	all(s["cause"] == "pinned there by name" for s in j["splits"])'
check 'the JSON of a graph has the copy between two devices' says \
	'len(j["copies"]) == 1 and j["copies"][0]["bytes"] == 256 and
	j["copies"][0]["split"] == 1'
works 'a graph on two devices is drawn' \
	weir graph m.gguf --svg --devices $devices two.svg
check 'splits are drawn with their device and cause' drawn two.svg \
	'"Split 1: CPU" in text and "Split 2: CPU1" in text and
	"pinned there by name" in text'
check 'a copy between devices is drawn with its bytes' drawn two.svg \
	'"copy from CPU to CPU1" in text and len(copies) == 3'
check 'layers on the other device are drawn as a box' drawn two.svg \
	'"Layer 3" not in text and "Layers 3 to 4" in text'
check 'texts of a graph on two devices do not overlap' drawn two.svg \
	"$readable"
weir graph m.gguf --dot --devices $devices >two.dot || exit 1
check 'a graph on two devices in DOT is well-formed' dot_parses two.dot
weir graph m.gguf --devices CPU:devices=2,CPU1 --json >"$tmp/out" || exit 1
check 'devices that share memory need no copies' says \
	'len(j["splits"]) == 2 and not j["copies"]'
model large.gguf embedding=256 inner=1024
works 'a graph with a budget is described as JSON' \
	weir graph large.gguf --budget 3M --json
check 'a budget of 3 MB leaves the other weights to be prefetched' says \
	'j["weights"]["bytes"] - (3 << 20) <= j["devices"][0]["prefetched"] <
	j["weights"]["bytes"] and
	j["splits"][0]["prefetched"] == j["devices"][0]["prefetched"]'
refused 1 'm.gguf: with --budget 6144: weights on CPU: ' \
	'a budget that is too small for a matrix is refused' \
	weir graph m.gguf --budget 6K
works 'a graph with a budget is drawn' \
	weir graph large.gguf --budget 3M --svg prefetched.svg
check 'weights that are prefetched are drawn in another colour' drawn prefetched.svg \
	'"prefetched: a weight that is read in each pass" in text and
	"of these prefetched" in text and any(b[0] == "b orange" for b in boxes)'
refused 1 'large.gguf: with --budget 1024: a budget of' \
	'a budget that is too small is refused' \
	weir graph large.gguf --budget 1K
refused 1 '--devices NOTHING' 'an unknown device is refused' \
	weir graph m.gguf --devices NOTHING
refused 1 '6 devices for 5 layers' 'more devices than layers are refused' \
	weir graph m.gguf --devices CPU:devices=6,CPU1,CPU2,CPU3,CPU4,CPU5

model deep.gguf layers=2500 embedding=32 inner=32 heads=1 kv_heads=1
works '100,000 nodes are drawn at once' \
	timeout 30 weir graph deep.gguf --svg --all deep.svg
check 'the picture of 100,000 nodes has their operations' \
	sh -c 'test $(grep -c "; result " deep.svg) = 47504'

model other.gguf arch=gpt2
refused 1 "other.gguf: architecture 'gpt2'" \
	'a model of another architecture is refused, with its name' \
	weir graph other.gguf
model short.gguf drop=blk.3.attn_k.weight
refused 1 "no tensor 'blk.3.attn_k.weight'" \
	'a model without one of its tensors is refused' weir graph short.gguf
head -c 2000 m.gguf >cut.gguf
refused 1 cut.gguf 'a damaged model is refused' weir graph cut.gguf
refused 1 'a context of 2048' 'a pass of more tokens than the context is refused' \
	weir graph m.gguf --tokens 2049
refused 1 'at least as many, not to 8' \
	'a pass that attends to fewer tokens than it reads is refused' \
	weir graph m.gguf --tokens 9 --context 8
refused 2 'only one of' 'two forms of output are refused' \
	weir graph m.gguf --svg --dot
refused 2 '--svg or --dot is missing' 'a file for a table is refused' \
	weir graph m.gguf out
cp m.gguf other.gguf
refused 1 'is a model' 'a picture does not replace a model' \
	weir graph m.gguf --svg other.gguf
refused 1 'none/out.svg: cannot be written' \
	'a picture of a graph in a missing folder is an error' \
	weir graph m.gguf --svg none/out.svg
refused 1 'No space left' 'a picture of a graph on a full disk is an error' \
	weir graph m.gguf --svg /dev/full
refused 1 'standard output' 'a graph on a full standard output is an error' \
	output full graph m.gguf --dot
check 'a pipe without a reader ends weir graph' gone graph m.gguf --svg --all
finish
