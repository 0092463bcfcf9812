#!/bin/sh
# SPDX-License-Identifier: MIT
# weir convert from file to file: formats, shards, dtypes, names, parts,
# metadata, and what it does not replace.
. "${0%/*}/../cli.inc"

cd "$tmp" || exit 1

# Digests of a model's tensors by name; two models with the same bytes agree.
sums()
{
	weir load --quiet --digest=sha256 "$1" | sort
}

same_sums()
{
	sums "$1" >one && test -s one && sums "$2" >two && diff one two
}

# A pair of the metadata of a model: its value and type as JSON.
meta()
{
	weir inspect --json "$1" | python3 -c 'import json, sys
j = json.load(sys.stdin)
key = sys.argv[1]
print(json.dumps(j["metadata"].get(key)), j["metadata_types"].get(key))' "$2"
}

names()
{
	weir inspect --json "$1" | python3 -c 'import json, sys
print(*sorted(t["name"] for t in json.load(sys.stdin)["tensors"]))'
}

# name, dtype and shape of a tensor.
tensor()
{
	weir inspect --json "$1" | python3 -c 'import json, sys
print(*[(t["dtype"], t["shape"]) for t in json.load(sys.stdin)["tensors"]
        if t["name"] == sys.argv[1]])' "$2"
}

# interrupt SIGNAL: it ends the process while it writes; nothing is left.
interrupt()
{
	python3 - "$@" <<-'END'
	import glob, os, signal, subprocess, sys, time
	numbers = [getattr(signal, name) for name in sys.argv[1:]]
	default = lambda: [signal.signal(n, signal.SIG_DFL) for n in numbers]
	for wait in range(200):
	    p = subprocess.Popen(["weir", "convert", "--quiet", "big.safetensors",
	                          "stopped.gguf", "--dtype", "f32"],
	                         stderr=subprocess.PIPE, preexec_fn=default)
	    while p.poll() is None and not glob.glob(".stopped*"):
	        pass
	    time.sleep(wait * 1e-4)
	    for number in numbers:
	        p.send_signal(number)
	    err = p.communicate()[1]
	    if -p.returncode in numbers:
	        break
	    os.unlink("stopped.gguf")
	assert -p.returncode in numbers, (p.returncode, err)
	assert not err, err
	assert not glob.glob("*stopped*") and not glob.glob(".stopped*")
	END
}

python3 "$srcdir/t/gguf.py" write small.gguf
weir synth tiny tiny.safetensors 2>/dev/null
weir synth tiny tiny.gguf 2>/dev/null
weir synth many big.safetensors --count 2600 2>/dev/null

plan 62
works 'a GGUF file is written from another' weir convert tiny.gguf again.gguf
has "$(cat "$tmp/err")" 'again.gguf: 16 tensors, 2.97 MB in 1 file of GGUF' \
	'the report has tensors, bytes, files and format'
check 'its tensors have the same bytes' same_sums tiny.gguf again.gguf
works 'a safetensors file is written from GGUF' \
	weir convert --quiet tiny.gguf tiny2.safetensors \
	--drop-meta general.architecture --set format=string:pt
test ! -s "$tmp/err"
t_result $? '--quiet prints no report'
check 'its tensors have the same bytes, too' same_sums tiny.gguf tiny2.safetensors
check 'an independent reader finds no violation in it' reader check \
	tiny2.safetensors
works 'a GGUF file is written from safetensors' \
	weir convert tiny2.safetensors back.gguf
check 'its tensors have the bytes of the first file' same_sums tiny.gguf back.gguf
works 'shards are written' weir convert tiny.safetensors parts.safetensors \
	--shard 1M
has "$(cat "$tmp/err")" 'in 7 files' 'the report has their number'
check 'the tensors of the shards have the same bytes' same_sums \
	tiny.safetensors parts.safetensors.index.json
works 'shards become one file again' \
	weir convert parts.safetensors.index.json whole.safetensors
(cd "$tmp" && weir convert --quiet tiny.safetensors undivided.safetensors)
check 'the file is the one that is written without shards' \
	cmp whole.safetensors undivided.safetensors
works 'a split GGUF model is written' weir convert tiny.gguf split.gguf --shard 1M
check 'its tensors have the same bytes in all parts' same_sums tiny.gguf \
	split-00001-of-00005.gguf

# What exists.
cp again.gguf kept.gguf
refused 1 'exists already; --force replaces it' \
	'a file that exists is not replaced' weir convert tiny.gguf kept.gguf
check 'it is as it was' cmp kept.gguf again.gguf
works 'with --force it is replaced' weir convert tiny.safetensors --force \
	whole.safetensors --drop '*.hashes'
refused 1 'is an input' 'with --force the input is not replaced' \
	weir convert --force tiny.gguf ./tiny.gguf
refused 1 'is an input' 'nor is the index of its shards, by a file of its name' \
	weir convert --force parts.safetensors.index.json parts.safetensors
check 'nor any shard' same_sums tiny.safetensors parts.safetensors.index.json
refused 1 'ends in neither' 'a name that has no ending of a format is refused' \
	weir convert tiny.gguf out.bin
refused 1 'No such file' 'a model that does not exist is an error' \
	weir convert none.gguf out.gguf

# Dtypes.
works 'tensors are quantised' weir convert big.safetensors q.gguf --dtype Q8_0
is "$(tensor q.gguf "$(names q.gguf | cut -d' ' -f1)" | cut -c1-7)" "('Q8_0'" \
	'they have the dtype'
works 'some rows are not whole blocks' weir convert --json small.gguf \
	q6.gguf --dtype q6_k
says "j['other_dtype'] == 5 and j['format'] == 'GGUF'"
t_result $? 'the report counts the tensors that got another dtype'
is "$(tensor q6.gguf blk.0.attn_k.weight) $(tensor q6.gguf blk.0.ffn_up.weight) $(tensor q6.gguf output_norm.weight)" \
	"('Q8_0', [2, 3, 32]) ('F32', [5, 7]) ('F32', [64])" \
	'these are Q8_0 where its blocks are whole, or F32, and so are norms'
check 'the members of --json are documented' documented weir-convert.1
refused 1 'safetensors has no dtype Q4_0; --dtype converts it' \
	'safetensors cannot hold quantised tensors' \
	weir convert small.gguf out.safetensors
refused 1 "tensor 'model.hashes': GGUF has no dtype U64" \
	'GGUF cannot hold unsigned integers' weir convert tiny.safetensors out.gguf
works '--dtype makes them floating-point' \
	weir convert small.gguf small.safetensors --dtype f16

# Metadata.
is "$(meta small.safetensors test.u8) $(meta small.safetensors test.i8)" \
	'"255" str "-128" str' 'numbers of metadata are text in safetensors'
run weir convert small.gguf small2.safetensors --dtype f16
has "$(cat "$tmp/err")" 'written as text, since safetensors has only strings' \
	'the report says so'
is "$(meta small2.safetensors general.alignment)" 'null None' \
	'the alignment of GGUF files is left out'
works 'metadata are set and dropped' weir convert small.gguf set.gguf \
	--set a.b=i16:-7 --set test.i8=string:x=y:z --set c=f32:0.1 \
	--set d=u64:18446744073709551615 --set e=bool:true \
	--drop-meta 'test.u*'
is "$(meta set.gguf a.b) $(meta set.gguf test.i8) $(meta set.gguf d) $(meta set.gguf e) $(meta set.gguf test.u8)" \
	'-7 i16 "x=y:z" str 18446744073709551615 u64 true bool null None' \
	'they have their types, and others are gone'
works 'arrays are set' weir convert small.gguf arrays.gguf \
	--set 'a=i16[]:-7,8' --set 'b=string[]:x\,y,,z\\' --set 'c=f32[]:' \
	--set 'd=bool[]:true,false' --set 'e=f64[]:0.5'
is "$(meta arrays.gguf a) $(meta arrays.gguf b) $(meta arrays.gguf c) $(meta arrays.gguf d) $(meta arrays.gguf e)" \
	'[-7, 8] [i16] ["x,y", "", "z\\"] [str] [] [f32] [true, false] [bool] [0.5] [f64]' \
	'commas separate their items, but for one after a backslash'
refused 1 "no metadata matches 'nothing'" 'a glob that matches none is an error' \
	weir convert small.gguf out.gguf --drop-meta nothing
refused 1 "values in safetensors are strings" 'safetensors has no numbers' \
	weir convert small2.safetensors out.safetensors --set a=u8:1

# Names and parts.
works 'tensors are dropped and renamed' weir convert small.gguf names.gguf \
	--drop 'blk.*' --drop zz --rename '^(tok)en_(.*)$=\2.\1\\' \
	--rename 'weight=w'
is "$(names names.gguf)" 'bytes embd.w.tok\ empty ids last output_norm.w' \
	'names have the replacements, one after the other'
refused 1 "the save has one of that name" 'two tensors of one name are refused' \
	weir convert small.gguf out.gguf --rename '^.*$=x'
refused 1 "no tensor matches 'nothing'" 'a pattern without a match is an error' \
	weir convert small.gguf out.gguf --rename 'nothing=x'
works 'parts of tensors are written' weir convert small.gguf part.gguf \
	--slice 'last:1:8+16' --slice 'l*:0:0+1' --slice 'token_*:0' --rank 1/2
is "$(tensor part.gguf last) $(tensor part.gguf token_embd.weight)" \
	"('F32', [300, 16]) ('Q4_0', [25, 64])" 'they have the shapes of the parts'
python3 - "$srcdir" <<-'END'
	import json, subprocess, sys
	def data(path, name):
	    j = json.loads(subprocess.check_output(["weir", "inspect", "--json", path]))
	    t = next(t for t in j["tensors"] if t["name"] == name)
	    b = open(path, "rb").read()
	    return b[t["offset"]:t["offset"] + t["bytes"]]
	whole, part = data("small.gguf", "last"), data("part.gguf", "last")
	rows = [whole[i * 160:][:160] for i in range(300)]
	assert part == b"".join(r[32:96] for r in rows)
	whole = data("small.gguf", "token_embd.weight")
	assert data("part.gguf", "token_embd.weight") == whole[len(whole) // 2:]
END
t_result $? 'they have the bytes of the parts'

# Estimates, memory, signals.
works '--estimate writes nothing' weir convert --estimate --json \
	big.safetensors none.gguf --dtype f32
says "j['tensors'] == 2600 and j['bytes'] > 160e6 and j['seconds'] == 0" &&
	test ! -e none.gguf
t_result $? 'it has the bytes that would be written'
works 'a model is written in a small part of its memory' weir convert --json \
	big.safetensors f32.gguf --dtype f32 --staging 4M
if test "$WEIR_T_SANITIZER" = no; then
	says "j['peak_rss'] < j['staging'] + 14e6 and j['bytes'] > 20 * j['staging']"
	t_result $? 'it takes no more memory than chunks and the command'
else
	skip 1 'the sanitizer takes memory'
fi
check 'SIGINT ends weir convert, and no file is left' interrupt SIGINT
check 'SIGTERM ends weir convert, and no file is left' interrupt SIGTERM
check 'two signals at once end it, and no file is left' \
	interrupt SIGINT SIGTERM

# Lines of progress: each is whole, the last has all bytes.
follow()
{
	python3 - "$@" <<-'END'
	import json, os, subprocess, sys
	read, write = os.pipe()
	p = subprocess.Popen(["weir", *sys.argv[1:], "--progress-fd", str(write)],
	                     pass_fds=[write], stdout=subprocess.DEVNULL,
	                     stderr=subprocess.DEVNULL)
	os.close(write)
	lines = [json.loads(line) for line in os.fdopen(read)]
	assert p.wait() == 0
	last = lines[-1]
	assert last["bytes"] == last["total"] > 80e6, last
	assert all(a["bytes"] <= b["bytes"] and a["seconds"] <= b["seconds"]
	           for a, b in zip(lines, lines[1:])), lines
	END
}
unread()
{
	python3 - <<-'END'
	import fcntl, os, subprocess
	read, write = os.pipe()
	os.set_blocking(write, False)
	try:
	    while os.write(write, b"x" * 4096):
	        pass
	except BlockingIOError:
	    os.set_blocking(write, True)
	for close in False, True:
	    if close:
	        os.close(read)
	    p = subprocess.run(["weir", "convert", "--quiet", "big.safetensors",
	                        "again.gguf", "--force", "--progress-fd",
	                        str(write)], pass_fds=[write],
	                       stderr=subprocess.PIPE)
	    assert p.returncode == 0 and not p.stderr, p
	END
}
sha256sum big.safetensors >sums
weir digest --quiet big.safetensors digests
check 'a program can follow weir convert' \
	follow convert --force big.safetensors again.gguf
check 'a program can follow weir digest' follow digest big.safetensors
check 'a program can follow weir verify' \
	follow verify big.safetensors digests
check 'a program can follow weir verify with sums of files' \
	follow verify big.safetensors sums
check 'a program that does not read the lines stops nothing' unread
check 'a descriptor that is not open is refused' sh -c '
	weir convert big.safetensors again.gguf --force --progress-fd 77 2>err
	test $? = 2 && grep -q "77 is not open for writing" err'
finish
