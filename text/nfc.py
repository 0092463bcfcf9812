# SPDX-License-Identifier: MIT
"""Writes two tables: python3 nfc.py mappings >nfc_mappings.h, and
python3 nfc.py order >nfc_order.h

The source is the Unicode Character Database 16.0.0, as the package unicodedata2
16.0.0 has it: UnicodeData.txt (Canonical_Combining_Class, Decomposition_Mapping).
Characters that do not compose (Full_Composition_Exclusion) are those that its NFC
does not give back.
"""
import sys

import unicodedata2 as ucd

assert ucd.unidata_version == "16.0.0"


def show(name, kind, values, form, per_line):
    print(f"static const {kind} {name}[] = {{")
    for i in range(0, len(values), per_line):
        print("\t" + " ".join(form % v for v in values[i:i + per_line]))
    print("};")


def mapping(c):
    """The one or two characters that c is made of; Hangul has a rule instead."""
    text = ucd.decomposition(chr(c))
    if not text or text[0] == "<":
        return None
    return [int(part, 16) for part in text.split()]


made = {c: mapping(c) for c in range(0x110000) if mapping(c)}
singles = [c << 21 | m[0] for c, m in made.items() if len(m) == 1]
pairs = [(c, *m) for c, m in made.items() if len(m) == 2]
composed = [i for i, p in enumerate(pairs)
            if ucd.normalize("NFC", chr(p[0])) == chr(p[0])]
composed.sort(key=lambda i: pairs[i][1:])
classes = [ucd.combining(chr(c)) for c in range(0x110000)]
ranges = [c << 8 | classes[c] for c in range(0x110000)
          if c == 0 or classes[c] != classes[c - 1]]

print("/* SPDX-License-Identifier: MIT */")
print(f"/* Made by nfc.py {sys.argv[1]} from Unicode 16.0.0. */")
if sys.argv[1] == "mappings":
    print("/* A character << 21 | the one that it is made of. */")
    show("singles", "uint64_t", singles, "0x%x,", 5)
    print("/* A character << 42 | the two that it is made of: << 21, and as is. */")
    show("pairs", "uint64_t",
         [p[0] << 42 | p[1] << 21 | p[2] for p in pairs], "0x%x,", 3)
else:
    print("/* Which of pairs compose, ordered by what they are made of. */")
    show("composed", "uint16_t", composed, "%d,", 14)
    print("/* The first character of a range << 8 | its combining class. */")
    show("classes", "uint32_t", ranges, "0x%x,", 7)
