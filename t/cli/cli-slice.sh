#!/bin/sh
# SPDX-License-Identifier: MIT
# weir load: parts of tensors, conversion, order, capacities, and estimates.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# Tensors of two dimensions as rows of elements, and what a load should have of
# them. It shares no code with the library.
cat >oracle.py <<'END'
import hashlib, json, struct, sys

class Tensor:
    def __init__(self, code, rows):
        self.code, self.rows = code, rows

    def cut(self, dim, start, n):
        if dim == 0:
            return Tensor(self.code, self.rows[start:start + n])
        return Tensor(self.code, [r[start:start + n] for r in self.rows])

    def part(self, dim, rank, ranks):
        n = len(self.rows if dim == 0 else self.rows[0]) // ranks
        return self.cut(dim, rank * n, n)

    def to(self, code):
        return Tensor(code, self.rows)

    def data(self):
        flat = [x for r in self.rows for x in r]
        if self.code == "BF16":         # all values are exact in BF16
            return b"".join(struct.pack("<f", x)[2:] for x in flat)
        return struct.pack(f"<{len(flat)}{self.code}", *flat)

def rows(code, n, m, k):
    return Tensor(code, [[(i * m + j) * 3 % k for j in range(m)]
                         for i in range(n)])

up = rows("BF16", 8, 64, 119)
down = rows("f", 64, 12, 251)
odd = rows("f", 6, 4, 97)
step = rows("B", 4, 5, 256)
NAMES = {"up": "model.layers.0.up:proj", "down": "model.layers.1.down",
         "odd": "w[0].*x", "step": "step"}
DTYPES = {"BF16": "BF16", "f": "F32", "B": "U8"}

def make(path):
    header, data = {}, b""
    for key, name in NAMES.items():
        t = globals()[key]
        bytes_ = t.data()
        header[name] = {"dtype": DTYPES[t.code],
                        "shape": [len(t.rows), len(t.rows[0])],
                        "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)

def sums(expression):
    for key, t in sorted(eval(f"dict({expression})").items(),
                         key=lambda kv: NAMES[kv[0]]):
        print(f"{hashlib.sha256(t.data()).hexdigest()}  {NAMES[key]}")

if sys.argv[1] == "make":
    make(sys.argv[2])
else:
    sums(sys.argv[2])
END

# loads EXPRESSION SENTENCE OPTION...: the tensors of EXPRESSION, and no others.
loads()
{
	python3 oracle.py sums "$1" >want
	t_sentence=$2
	shift 2
	run weir load m.safetensors --quiet --digest=sha256 "$@"
	test $status = 0 && test ! -s err && cmp -s out want
	t_result $? "$t_sentence" && return
	show_run weir load m.safetensors "$@"
}

# no_match OPTION VALUE: a glob that matches no tensor.
no_match()
{
	refused 1 "no tensor matches 'none'" \
		"$1 with a glob that matches no tensor is an error" \
		weir load m.safetensors "$@"
}

# The number of tensors that --estimate says of each kind of memory.
kinds()
{
	weir load m.safetensors --estimate --json --memory plain "$@" |
		python3 -c 'import json, sys
print(*sorted(f"{m['\''kind'\'']} {m['\''tensors'\'']}"
              for m in json.load(sys.stdin)["memory"]))'
}

# The offset of the read that was first in a trace.
first_offset()
{
	python3 -c 'import json
events = json.load(open("trace.json"))["traceEvents"]
print(min((e["ts"], e["args"]["offset"]) for e in events
          if e["ph"] == "X" and e["args"].get("offset"))[1])'
}

plan 43
python3 oracle.py make m.safetensors
loads 'up=up, down=down, odd=odd, step=step' \
	'without options every tensor is loaded whole'
for rank in 0 1 3; do
	loads "up=up.part(1, $rank, 4), down=down, odd=odd, step=step" \
		"--rank $rank/4 loads part $rank of four of dimension 1" \
		--slice '*up*:1' --rank $rank/4
done
loads 'up=up, down=down.part(0, 5, 8), odd=odd, step=step' \
	'--slice with dimension 0 loads rows' --slice '*down:0' --rank 5/8
loads 'up=up, down=down.cut(1, 7, 3), odd=odd, step=step' \
	'--slice GLOB:DIM:START+N loads N indices from START on' \
	--slice '*down:1:7+3'
loads 'up=up.cut(1, 0, 64), down=down, odd=odd, step=step' \
	'a glob of --slice may have colons' --slice '*up:proj:1:0+64'
loads 'up=up.part(0, 1, 2), down=down.cut(0, 2, 5), odd=odd, step=step' \
	'parts by rank and ranges may be combined' \
	--slice '*up*:0' --rank 1/2 --slice '*down:0:2+5'
loads 'up=up.cut(0, 1, 2), down=down.cut(0, 3, 1), odd=odd, step=step' \
	'the first --slice that matches a tensor is used' \
	--slice '*up*:0:1+2' --slice 'model*:0:3+1'
loads 'up=up, down=down, odd=odd.cut(1, 1, 2), step=step' \
	'a tensor whose name has wildcards is sliced' --slice 'w?0*:1:1+2'
loads 'up=up.cut(0, 4, 0), down=down, odd=odd, step=step' \
	'a slice may be empty' --slice '*up*:0:4+0'
loads 'up=up.cut(1, 4, 0), down=down, odd=odd, step=step' \
	'a mapped slice may be empty' --slice '*up*:1:4+0' --way map
for way in direct buffered map; do
	loads 'up=up.cut(1, 5, 9), down=down, odd=odd, step=step' \
		"--way $way loads the bytes of a slice" \
		--slice '*up*:1:5+9' --way $way
done

loads 'up=up.to("f"), down=down, odd=odd, step=step' \
	'--dtype f32 converts floating-point tensors and no others' \
	--dtype f32
loads 'up=up.to("e"), down=down.to("e"), odd=odd.to("e"), step=step' \
	'--dtype f16 converts floating-point tensors' --dtype f16
loads 'up=up.part(1, 2, 4).to("f"), down=down.part(1, 2, 4)' \
	'slices are converted, and --only selects among them' \
	--slice 'model*:1' --rank 2/4 --dtype f32 --only 'model*'
loads 'up=up.part(1, 2, 4), odd=odd' \
	'--only, --place, --slice and --first are combined' \
	--slice 'model*:1' --rank 2/4 --place '*down=CPU' --place 'w*=CPU' \
	--only '*up*' --only 'w*' --first step
loads 'up=up, down=down, odd=odd, step=step' \
	'--place --slice --repeat loads into the same memory again' \
	--place '*down=CPU' --first '*up*' --repeat 3

works 'weir load --json with a slice and a conversion succeeds' weir load \
	m.safetensors --json --slice '*up*:1:5+9' --dtype f32
check 'the JSON has dtype, shape and bytes of the tensor in memory' says \
	'j["tensors"][0] == {"name": "model.layers.0.up:proj",
	"dtype": "F32", "shape": [8, 9], "device": "CPU", "memory": "huge",
	"bytes": 288, "state": "loaded", "stored": {"dtype": "BF16", "shape": [8, 64]}}'
check 'the JSON does not repeat what is as in the file' \
	says 'all("stored" not in t for t in j["tensors"][1:])'
works 'weir load with a slice and a conversion reports them' weir load \
	m.safetensors --slice '*up*:1:5+9' --dtype f32
check 'the report has the number of slices' \
	grep -qx '  slices  1 of 4 tensors' err
check 'the report has the number of converted tensors' \
	grep -qx '  dtype   1 of 4 tensors converted to F32' err
weir synth many many.safetensors --count 64 2>err
weir load many.safetensors --quiet --first '*50.weight' --trace trace.json \
	--way direct --chunk 64K
is "$(first_offset)" "$(reader list many.safetensors | grep '50\.weight' |
	cut -f 5)" '--first reads its tensors before the others'

for option in --slice --first --only --place; do
	case $option in
	--slice) no_match $option 'none:0:0+1' ;;
	--place) no_match $option none=CPU ;;
	*) no_match $option none ;;
	esac
done
no_match --place none=CPU@1M
refused 1 "'step': a slice of 3 elements from 3 on" \
	'a slice that a tensor does not have is an error' \
	weir load m.safetensors --slice 'step:0:3+3'
refused 1 'not 3 equal parts' 'parts that are not equal are an error' \
	weir load m.safetensors --slice 'step:0' --rank 0/3

is "$(kinds)" 'plain 4' '--estimate counts the tensors of each kind of memory'
is "$(kinds --place '*=CPU@4095')" 'huge 1 plain 3' \
	'a --place with a SIZE takes the layers that fit into it'
is "$(kinds --place '*=CPU@4096' --place '*=CPU')" 'huge 4' \
	'a later --place takes what an earlier one with a SIZE has left'
works '--estimate succeeds if the load fits' weir load m.safetensors --estimate
check '--estimate prints a line for each kind of memory' \
	grep -q '^CPU_Huge .* 4 tensors .* needed .* free  fits$' out
works '--estimate --json succeeds' weir load m.safetensors --estimate --json \
	--dtype f32 --align 4096
check '--estimate counts converted tensors and the alignment' says \
	'j["fits"] and j["memory"][0]["bytes"] >= 3 * 4096 + 20'
truncate -s 4T huge.safetensors 2>/dev/null && python3 -c '
import json, struct
n = 2 ** 42 - 256
text = json.dumps({"x": {"dtype": "U8", "shape": [2, n // 2],
                         "data_offsets": [0, n]}}).encode().ljust(248)
with open("huge.safetensors", "r+b") as f:
    f.write(struct.pack("<Q", len(text)) + text)'
if test -s huge.safetensors; then
	run weir load huge.safetensors --estimate
	is "$status$(grep -c 'does not fit$' out)" 31 \
		'--estimate of a load that does not fit exits with status 3'
	run weir load huge.safetensors --estimate --json
	check '--estimate --json says that it does not fit' \
		says 'not j["fits"] and j["memory"][0]["bytes"] > 2 ** 41'
else
	skip 2 'no sparse file of 4 TiB'
fi
finish
