#!/bin/sh
# SPDX-License-Identifier: MIT
# weir plan: the placement, its CSV and JSON, the picture, and errors.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# The lines of $1 are those of $2 with an offset; buffers that are alive at the
# same time have different bytes, and offsets are aligned. Prints the height.
placed()
{
	python3 - "$@" <<-'END'
	import csv, sys
	given = [row for row in
	         csv.reader(open(sys.argv[1], encoding="utf-8-sig")) if row]
	have = list(csv.reader(open(sys.argv[2])))
	assert have[0] == given[0] + ["offset"], have[0]
	assert [row[:-1] for row in have[1:]] == given[1:]
	column = {name: i for i, name in enumerate(have[0])}
	rows = []
	for row in have[1:]:
	    lower, upper, size, offset = (
	        int(row[column[name]])
	        for name in ("lower", "upper", "size", "offset"))
	    if "alignment" in column:
	        assert offset % int(row[column["alignment"]]) == 0, row
	    rows.append((lower, upper, offset, offset + size))
	rows.sort()
	alive = []
	for a in rows:
	    alive = [b for b in alive if b[1] > a[0]]
	    for b in alive:
	        assert a[3] <= b[2] or b[3] <= a[2], (a, b)
	    alive.append(a)
	print(max((row[3] for row in rows), default=0))
	END
}

# height_of FILE OPTION...: its height, or what is wrong.
height_of()
{
	file=$1
	shift
	weir plan "$file" --quiet "$@" >placed.csv && placed "$file" placed.csv
}

# make KIND N: a problem of N buffers. "tiles" fill [0, 1000) x [0, 2^20);
# "random" ones have random times, sizes and alignments.
make()
{
	python3 - "$@" <<-'END'
	import random, sys
	kind, n = sys.argv[1], int(sys.argv[2])
	rnd = random.Random(7)
	rows = []
	def split(n, t0, t1, a0, a1):
	    k = rnd.randint(1, max(1, n - 1))
	    at = t0 + (t1 - t0) * k // n
	    to = a0 + (a1 - a0) * k // n
	    if n > 1 and rnd.random() < .5 and t0 < at < t1:
	        split(k, t0, at, a0, a1)
	        split(n - k, at, t1, a0, a1)
	    elif n > 1 and a0 < to < a1:
	        split(k, t0, t1, a0, to)
	        split(n - k, t0, t1, to, a1)
	    else:
	        rows.append((t0, t1, a1 - a0, 1))
	if kind == "tiles":
	    split(n, 0, 1000, 0, 1 << 20)
	else:
	    for i in range(n):
	        t = rnd.randint(-50 * n, 50 * n)
	        rows.append((t, t + rnd.randint(1, 2000), rnd.randint(0, 9999),
	                     1 << rnd.randint(0, 8)))
	print("id,lower,upper,size,alignment")
	for i, row in enumerate(rows):
	    print(f"tensor.{i}", *row, sep=",")
	END
}

# malformed PART TEXT SENTENCE: the text, a printf format, is refused.
malformed()
{
	printf "$2" >bad.csv
	refused 1 "bad.csv: $1" "$3" weir plan bad.csv
}

# A signal during the search ends the command and removes the temporary file of
# the picture, but not an older one.
interrupt()
{
	make tiles 3000 >hard.csv && echo old >old.svg && python3 - <<-'END'
	import glob, os, signal, subprocess, time
	for path, stays in (("new.svg", False), ("old.svg", True)):
	    p = subprocess.Popen(["weir", "plan", "hard.csv", "--time", "100",
	                          "--svg", path], stdout=subprocess.PIPE,
	                         preexec_fn=lambda: signal.signal(
	                             signal.SIGINT, signal.SIG_DFL))
	    end = time.monotonic() + 60
	    while not glob.glob(f".{path}.*"):
	        assert p.poll() is None and time.monotonic() < end
	        time.sleep(.01)
	    time.sleep(.5)
	    assert p.poll() is None, "it has ended"
	    p.send_signal(signal.SIGINT)
	    out, _ = p.communicate(timeout=60)
	    assert p.returncode == -signal.SIGINT and not out, p.returncode
	    assert os.path.exists(path) == stays, path
	    assert not glob.glob(f".{path}.*"), path
	assert open("old.svg").read() == "old\n"
	END
}

# The picture is well-formed, and has no more than $1 bytes.
good_picture()
{
	xmllint --noout out.svg 2>xml.err || { cat xml.err; return 1; }
	size=$(wc -c <out.svg)
	test "$size" -le "$1" || { echo "$size bytes"; return 1; }
}

cat >five.csv <<END
id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
END
head=id,lower,upper,size

plan 76
works 'weir plan succeeds' weir plan five.csv
cp "$tmp/out" five.out
is "$(placed five.csv five.out)" 12 \
	'five buffers that need 12 bytes are placed in 12'
has "$(cat "$tmp/err")" 'five.csv: 5 buffers placed in 12 bytes' \
	'the report has the height'
has "$(cat "$tmp/err")" '12 bytes, which are alive at time 0' \
	'the report has the lower bound'
has "$(cat "$tmp/err")" 'no placement is lower' \
	'the report has what was proved'
works 'weir plan reads standard input' sh -c 'weir plan - <five.csv'
check 'the output for standard input is that for the file' \
	cmp "$tmp/out" five.out
has "$(cat "$tmp/err")" 'standard input: 5 buffers' \
	'the report names standard input'
works 'weir plan --quiet succeeds' weir plan --quiet five.csv
is "$(wc -c <"$tmp/err")" 0 'weir plan --quiet prints no report'

make tiles 60 >tiles.csv
make random 2000 >random.csv
check 'tiles are placed validly by the greedy planner' \
	height_of tiles.csv --time 0
check 'random buffers are placed validly, and aligned' \
	height_of random.csv --time 0
check 'random buffers are placed validly by the search of two threads' \
	height_of random.csv --time 0.2 --threads 2

is "$(height_of tiles.csv)" 1048576 'tiles are placed without a gap by the search'

printf 'size,upper,id,lower\r\n4,3,"a,b",0\r\n\r\n8,9,"say ""x""",3\r\n' >odd.csv
is "$(height_of odd.csv)" 8 'columns in another order, quotes and CRLF are read'
is "$(tr -d '\r' <placed.csv | cmp - placed.csv)" '' \
	'lines of the output end in LF'
is "$(sed -n 3p placed.csv)" '8,9,"say ""x""",3,0' 'a quoted id stays quoted'
printf '\357\273\277%s\nb,0,3,4' $head >bom.csv
is "$(height_of bom.csv)" 4 \
	'a byte order mark and a missing end of line are accepted'
is "$(head -c 2 placed.csv)" id 'the output has no byte order mark'
echo $head >none.csv
is "$(height_of none.csv)" 0 'a file without buffers is accepted'
printf "$head,hint,gaps\nb,0,3,4,7,\nc,5,6,4,,\n" >hints.csv
is "$(height_of hints.csv)" 4 'hints, also empty ones, and empty gaps are accepted'
printf 'buffer,start,end,size\nb,0,2,4\nc,3,4,4\nd,4,5,4\n' >ends.csv
is "$(weir plan --quiet ends.csv | sed 's/.*,//' | tr '\n' ' ' |
	sed 's/0 4 4\|4 0 0/apart/;s/0 0 4\|4 4 0/apart/')" 'offset apart ' \
	'a buffer is alive at its end'

printf "$head\nb,0,3,1\n" >one.csv
run weir plan one.csv
has "$(head -n 2 "$tmp/err" | tr '\n' ' ')" \
	'1 buffer placed in 1 byte   lower bound  1 byte, which is alive at' \
	'the report of one buffer of one byte is in the singular'
refused 1 'No such file' 'a file that does not exist is refused' \
	weir plan nothing.csv
refused 1 'Is a directory' 'a directory is refused' weir plan .
malformed 'line 1, column 1: the file is empty' '' 'an empty file is refused'
malformed "line 1, column 14: there is no column 'upper'" 'id,lower,size' \
	'a missing column is refused'
malformed "line 1, column 21: unknown column 'colour'" "$head,colour\n" \
	'an unknown column is refused'
malformed "line 3, column 5: upper is 'x', not a whole number" \
	"$head\na,0,3,4\nb,0,x,4\n" 'a field that is no number is refused'
malformed 'line 2, column 7: size is 9223372036854775808, not from 0 to' \
	"$head\na,0,3,9223372036854775808\n" 'a number over 63 bits is refused'
malformed 'line 2, column 5: upper 3 is not greater than lower 3' \
	"$head\na,3,3,4\n" 'a lifetime that is empty is refused'
malformed "line 4, column 1: id 'a' is used in line 2 already" \
	"$head\na,0,3,4\nb,0,3,4\na,4,5,4\n" 'an id that occurs twice is refused'
malformed 'line 2, column 6: size is missing' "$head\na,0,3\n" \
	'a line that is too short is refused'
malformed 'line 2, column 9: field 5' "$head\na,0,3,4,5\n" \
	'a line that is too long is refused'
malformed 'line 2, column 4: a NUL byte' "$head\na,0\0,3,4\n" \
	'a NUL byte is refused'
malformed 'line 2, column 1: the quote' "$head\n\"a,0,3,4\n" \
	'a quote that is not closed is refused'
malformed "line 2, column 9: gaps is '1-2'" "$head,gaps\na,0,3,4,1-2\n" \
	'gaps are refused'
malformed "line 1, column 21: the column 'offset'" "$head,offset\na,0,3,4,0\n" \
	'an offset column is refused'
malformed "line 2, column 3: lower is '\\x1b[2J'" "$head\na,\033[2J,3,4\n" \
	'control characters of the file are escaped in errors'
refused 1 'NUL byte' 'an endless device file is refused' weir plan /dev/zero
refused 1 'line 1, column 1: unknown column' 'a line of 50 MB is refused' \
	sh -c 'yes 99999999 | tr -d "\n" | head -c 50000000 | weir plan -'
printf "$head\na,0,3,9223372036854775807\n" >huge.csv
refused 1 'huge.csv: line 2, column 7: all sizes' \
	'sizes over 2^60 bytes are refused' weir plan huge.csv
printf "$head,alignment\na,0,3,1152921504606838784,4096\n" >most.csv
is "$(height_of most.csv)" 1152921504606838784 \
	'a size and twice its alignment may be 2^60 bytes'
printf "$head\na,0,3,1152921504606846975\n" >over.csv
refused 1 'over 2^60' 'a size and twice its alignment over 2^60 are refused' \
	weir plan over.csv
printf "$head\na,0,3,1152921504606846973\n\nb,4,6,0\n" >sum.csv
refused 1 'sum.csv: line 4, column 7: all sizes up to this one' \
	'the line of which the sum of sizes is over 2^60 is named' \
	weir plan sum.csv

works 'a capacity that is large enough has status 0' \
	weir plan five.csv --capacity 12
has "$(cat "$tmp/err")" 'the buffers fit, 0 bytes left' \
	'the report says that the buffers fit'
run weir plan five.csv --capacity 11
is $status 3 'a capacity that is too small has status 3'
check 'a capacity that is too small prints the best placement' \
	cmp "$tmp/out" five.out
has "$(cat "$tmp/err")" 'no placement fits; the bound exceeds it by 1 byte' \
	'the report says that no placement fits'
printf "$head,alignment\na,0,3,32,32\nb,0,3,4,32\n" >align.csv
run weir plan align.csv --capacity 36
is $status 0 'the end of a size needs no alignment'
run weir plan align.csv --capacity 35
is $status 4 'an answer that is not known has status 4'
has "$(cat "$tmp/err")" '35 bytes: not known' \
	'the report says that it is not known whether the buffers fit'
run weir plan align.csv --capacity 32
is $status 3 'alignments count in a capacity that is too small'
printf "$head\na,0,2,2\nb,1,4,2\nc,3,6,3\nd,5,7,1\n" >small.csv
works 'a capacity may have a suffix' weir plan small.csv --capacity 1K
run weir plan five.csv --capacity 12 --json
check 'the JSON has the height, the bound and the offsets' says \
	'j["height"] == j["bound"] == j["live"] == 12 and j["optimal"] and
	 j["fits"] and [b["offset"] for b in j["buffers"]] ==
	 [int(line.split(",")[4]) for line in open("five.out").readlines()[1:]]'
run weir plan five.csv --capacity 11 --json
is $status 3 'the JSON has the same exit status'
check 'the JSON says that the buffers do not fit' says 'j["fits"] is False'

refused 1 'No space left' 'a full standard output is an error' \
	output full plan --quiet five.csv
refused 1 'standard output' 'a closed standard output is an error' \
	output closed plan --quiet five.csv
check 'a pipe without a reader ends weir plan' gone plan --quiet --time 0 random.csv
refused 1 'none/out.svg: cannot be written' \
	'a picture in a folder that does not exist is an error' \
	weir plan five.csv --svg none/out.svg
refused 1 'No space left' 'a picture on a full disk is an error' \
	weir plan five.csv --svg /dev/full
echo old >out.svg
refused 1 'line 2' 'a malformed file is refused before the picture' \
	weir plan bad.csv --svg out.svg
is "$(cat out.svg)" old 'a malformed file leaves an older picture'
refused 1 'over 2^60' 'buffers that cannot be placed are refused' \
	weir plan huge.csv --svg new.svg
check 'buffers that cannot be placed leave no picture' test ! -e new.svg

check 'a signal ends the search and leaves no picture' interrupt

make random 100000 >many.csv
check 'the search of 100,000 buffers respects its time' \
	timeout 30 weir plan many.csv --quiet --time 0.1

if command -v xmllint >/dev/null; then
	works 'a picture is drawn' weir plan five.csv --svg out.svg --capacity 14
	check 'a picture is well-formed XML' good_picture 10000
	is "$(grep -c '<title>b[1-5]: 4 B' out.svg)" 5 \
		'a picture has a tip for each buffer'
	has "$(tr -d '\n' <out.svg)" '>capacity<' \
		'a picture names its lines'
	printf "$head\n\"<&'\"\">]]>\",0,3,4\n\033\001,0,3,4\n\377\376,0,3,4\n\357\277\277,0,3,4\n" \
		>odd.csv
	printf 'e,-9223372036854775808,9223372036854775807,1\n' >>odd.csv
	weir plan odd.csv --svg out.svg >/dev/null 2>&1
	check 'a picture with odd ids and times is well-formed XML' \
		good_picture 10000
	weir plan none.csv --svg out.svg >/dev/null 2>&1
	check 'a picture without buffers is well-formed XML' good_picture 10000
	weir plan many.csv --time 0 --svg out.svg >/dev/null 2>&1
	check 'a picture of 100,000 buffers has at most 2 MB' \
		good_picture 2000000
else
	skip 7 'no xmllint'
fi
finish
