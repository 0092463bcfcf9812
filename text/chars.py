# SPDX-License-Identifier: MIT
"""Writes chars_table.h: python3 chars.py >chars_table.h

The source is the Unicode Character Database 16.0.0, as the package unicodedata2
16.0.0 has it (UnicodeData.txt: General_Category). White_Space is the property of
PropList.txt, which that package lacks; it has these 25 characters since Unicode
6.3.
"""
import unicodedata2 as ucd

SPACE = {*range(9, 14), 0x20, 0x85, 0xa0, 0x1680, *range(0x2000, 0x200b),
         0x2028, 0x2029, 0x202f, 0x205f, 0x3000}
# The numbers of enum char_class.
CLASS = {"L": 1, "N": 2, "M": 3, "P": 4}
CASES = {"Lu": 6, "Lt": 6, "Ll": 7}
PER_LINE = 6

assert ucd.unidata_version == "16.0.0" and len(SPACE) == 25


def class_of(c):
    category = ucd.category(chr(c))
    return 5 if c in SPACE else CASES.get(category, CLASS.get(category[0], 0))


classes = [class_of(c) for c in range(0x110000)]
ranges = [c << 3 | classes[c] for c in range(0x110000)
          if c == 0 or classes[c] != classes[c - 1]]
print("/* SPDX-License-Identifier: MIT */")
print("/* Made by chars.py from Unicode 16.0.0: first character << 3 | class. */")
for i in range(0, len(ranges), PER_LINE):
    print(" ".join("0x%06x," % r for r in ranges[i:i + PER_LINE]))
