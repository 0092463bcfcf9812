#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/heap: traces, simulated allocators and rows. Its times mean nothing here.
. "${0%/*}/../tap.inc"

bench=$builddir/bench/heap
test -x "$bench" || skip_all 'bench/heap is not built'

# heap ARG...
heap()
{
	"$bench" --tiny --rounds 1 --threads 2 --json "$tmp/json" "$@" \
		>"$tmp/out" 2>"$tmp/err" && return
	sed 's/^/# /' "$tmp/out" "$tmp/err"
	return 1
}

# Lines "LIMIT: VALUE OF THE LIMIT" of the rows of memory, in MiB.
memory()
{
	sed -n 's/.*, \(peak\|least memory\)", "limit": "\([^"]*\)".*"limit_value": \([0-9.e+]*\),.*/\1, \2: \3/p' \
		"$tmp/json"
}

# In MiB: 1, 3 and 12 (stream 1), less than 1 in place of the first, 25 (stream 2).
cat >"$tmp/hand" <<'END'
# weir heap 1
# align 256
+ 1 1000000 0 0 1
+ 2 3145728 0 1 1
+ 3 12582912 0 1 1
- 1 0 1
+ 4 500 0 0 1
- 9 0 1
+ 5 26214400 0 2 1
- 5 2 1
END

# refused LINE SENTENCE TEXT: a trace that ends with this text.
refused()
{
	printf '# weir heap 1\n+ 7 1000 0 0 1\n%s\n' "$3" >"$tmp/bad"
	"$bench" "$tmp/bad" 2>&1 >/dev/null | grep -q "bad:$1: .*$2" && return
	"$bench" "$tmp/bad" 2>&1 | sed 's/^/# /'
	return 1
}

refusals()
{
	refused 3 'begins with +, - or #' 'x' &&
		refused 3 'a size, an alignment' '+ 8 1000' &&
		refused 3 'number is live' '+ 7 1000 0 0 1' &&
		refused 3 'size is 0' '+ 8 0 0 0 1' &&
		refused 3 "stream's number" '+ 8 1000 0 64 1' &&
		refused 3 'block is too large' '+ 99999999 1000 0 0 1' &&
		refused 3 'a number and a stream' '- x'
}

plan 11
check 'bench/heap replays a trace from a file' heap "$tmp/hand"
is "$(memory | sed -n 's/^peak, live bytes: //p')" 40.0005 \
	'the live bytes of a trace are those of its blocks'
is "$(memory | sed -n 's/^peak, best fit: //p')" 40.9539 \
	'best fit uses the smallest free block, and rounds up to 256 bytes'
is "$(memory | sed -n 's/^peak, PyTorch.*: //p')" 48 \
	"PyTorch's rules reserve segments of 2 and 20 MiB, and larger ones by size"
is "$(memory | sed -n 's/^least memory, PyTorch.*: //p')" 48 \
	"PyTorch's rules need the memory of all segments in use"
check 'a malformed trace is refused with its line' refusals
has "$("$bench" "$tmp/out" 2>&1)" 'out:1: not a record of a heap' \
	'a file that is no trace is refused'

heap --row streams
memory >"$tmp/made"
"$bench" --tiny --row streams --write "$tmp/written"
heap "$tmp/written"
is "$(memory)" "$(cat "$tmp/made")" \
	'a trace that was written is the same when it is read'

check 'every shape of bench/heap runs' heap
is "$(grep -o '"judged": [^,]*' "$tmp/json" | sort -u)" '"judged": "nothing"' \
	'no row of tiny shapes is judged'
if grep -q 'ptrace(2) is not allowed' "$tmp/out"; then
	skip 1 'ptrace(2) is not allowed'
else
	is "$(grep 'kernel calls, weir' "$tmp/json" |
		sed 's/.*"value": \([0-9]*\),.*/\1/' | sort -u)" 0 \
		'a heap makes no system call when it has its memory'
fi
finish
