# SPDX-License-Identifier: MIT
"""The results, as a table in Markdown and as a picture in SVG.

As a program it shows results that were written before: see --help.
"""
import argparse
import json
import os
import platform
from statistics import median
from xml.sax.saxutils import escape


def machine():
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="ascii") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (f"{os.cpu_count()} CPUs ({model}), {memory / (1 << 30):.0f} GiB, "
            f"Linux {platform.release()}")


def ratios(peer, weir):
    """Times of @peer over weir's, each pair from the same round."""
    base = {run["round"]: run["seconds"] for run in weir["runs"]}
    return [run["seconds"] / base[run["round"]] for run in peer["runs"]
            if run["round"] in base]


def figures(peer, row):
    """The medians that the table and the picture show."""
    runs = peer["runs"]
    times = sorted(run["seconds"] for run in runs)
    pairs = sorted(ratios(peer, row["peers"][0])) or [float("nan")]
    return {"time": median(times), "least": times[0], "most": times[-1],
            "rate": row["bytes"] / median(times) / 1e9,
            "ratio": median(pairs), "lowest": pairs[0], "highest": pairs[-1],
            "cpu": median(run["cpu"] for run in runs),
            "peak": median(run["peak"] for run in runs) / 1e9,
            "before": median(run["before"] for run in runs) / 1e9,
            "disturbed": sum(run["disturbed"] for run in runs)}


def heading(row):
    return (f"{row['title']}, {row['state']}: {row['bytes'] / 1e9:.2f} GB in "
            f"{row['tensors']:,} tensors")


def summary(peer, row):
    """Its figures, or why there are none; and whether it failed."""
    if not peer["runs"]:
        return f"{peer['failed'] or 'not run'}", True
    x = figures(peer, row)
    text = (f"{x['time']:.3f} s ({x['least']:.3f}-{x['most']:.3f}), "
            f"{x['rate']:.2f} GB/s")
    if peer["key"] != "weir":
        text += (f"; {x['ratio']:.2f} times weir's ({x['lowest']:.2f}-"
                 f"{x['highest']:.2f})")
    if x["disturbed"]:
        text += f"; disturbed in {x['disturbed']} of {len(peer['runs'])} rounds"
    if peer["failed"]:
        text += "; then it failed: " + peer["failed"]
    return text, bool(peer["failed"])


def lines(result, model, state):
    """A row for programs, separated by tabs: ok or FAILED, loader, figures.

    Loaders that are skipped are in the first row.
    """
    for row in result["rows"]:
        if (row["model"], row["state"]) != (model, state):
            continue
        for peer in row["peers"]:
            text, failed = summary(peer, row)
            # Only a failure of weir counts as FAILED; another's is a finding.
            mark = "ok" if not failed else \
                "FAILED" if peer["key"] == "weir" else "note"
            yield "\t".join((mark, f"{model}, {state}: {peer['title']}",
                             text))
        if row is result["rows"][0]:
            for s in result["skipped"]:
                yield "\t".join(("absent", s["title"], s["why"]))


COLUMNS = ("loader", "seconds (range)", "GB/s", "time over weir's (range)",
           "CPU s", "peak RSS GB (of it before)")


def line(peer, row):
    if peer["failed"] or not peer["runs"]:
        return [peer["title"], "failed: " + (peer["failed"] or "?")] + [""] * 4
    x = figures(peer, row)
    mark = f" †{x['disturbed']}" if x["disturbed"] else ""
    return [peer["title"] + mark,
            f"{x['time']:.3f} ({x['least']:.3f}-{x['most']:.3f})",
            f"{x['rate']:.2f}",
            f"{x['ratio']:.2f} ({x['lowest']:.2f}-{x['highest']:.2f})",
            f"{x['cpu']:.2f}", f"{x['peak']:.2f} ({x['before']:.2f})"]


def rule(cells):
    return "|" + "|".join(cells) + "|"


def row_table(row, skipped):
    lines = [COLUMNS, None]
    lines += [line(peer, row) for peer in row["peers"]]
    lines += [[s["title"], "skipped: " + s["why"]] + [""] * 4
              for s in skipped]
    widths = [max(len(x[i]) for x in lines if x and (i != 1 or x[2]))
              for i in range(len(COLUMNS))]
    out = [f"**{heading(row)}**", ""]
    for cells in lines:
        out.append(rule(f" {c:{w}} " for c, w in zip(cells, widths)) if cells
                   else rule("-" * (w + 2) for w in widths))
    return "\n".join(out + [""])


def table(result):
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    lines = [f"{result['date']}, {result['machine']}; {versions}; medians of "
             f"{result['rounds']} rounds.", ""]
    lines += [row_table(row, result["skipped"]) for row in result["rows"]]
    if any(run["disturbed"] for row in result["rows"]
           for peer in row["peers"] for run in peer["runs"]):
        lines.append("†n: in n rounds others took over a tenth of the machine "
                     "at every try.")
    return "\n".join(lines)


# The picture: a panel for each row, a bar for each loader, GB/s from zero.
WIDTH, LABEL, BAR, GAP, TOP = 600, 235, 18, 5, 34
STYLE = """
text { font: 12px sans-serif; fill: #222 }
.head { font-weight: bold; font-size: 13px }
.note { fill: #777 }
.weir { fill: #1769aa }
.peer { fill: #b9c3cc }
.missed { fill: #c0392b }
.spread { stroke: #333; stroke-width: 1 }
"""


def bar(peer, row, scale, y):
    middle = y + BAR / 2 + 4
    out = [f'<text x="{LABEL - 8}" y="{middle}" text-anchor="end">'
           f'{escape(peer["title"])}</text>']
    if not peer["runs"]:
        why = escape((peer["failed"] or "?")[:60])
        return out + [f'<text class="note" x="{LABEL}" y="{middle}">'
                      f'{why}</text>']
    x = figures(peer, row)
    kind = "weir" if peer["key"] == "weir" else "peer"
    slow, fast = (row["bytes"] / x[k] / 1e9 * scale for k in ("most", "least"))
    note = f"{x['rate']:.2f} GB/s"
    if kind == "peer":
        note += f", weir {x['ratio']:.1f}x"
    return out + [
        f'<rect class="{kind}" x="{LABEL}" y="{y}" '
        f'width="{x["rate"] * scale:.1f}" height="{BAR}"/>',
        f'<path class="spread" d="M{LABEL + slow:.1f} {y + BAR / 2}'
        f'H{LABEL + fast:.1f}"/>',
        f'<text x="{LABEL + fast + 6:.1f}" y="{middle}">{note}</text>']


def panel(row, skipped, left, top):
    """The elements of a panel, and its height."""
    rates = [row["bytes"] / figures(p, row)["least"] / 1e9
             for p in row["peers"] if p["runs"]]
    scale = (WIDTH - LABEL - 140) / max(rates + [1e-9])
    out = [f'<g transform="translate({left} {top})">',
           f'<text class="head" x="8" y="20">{escape(heading(row))}</text>']
    y = TOP
    for peer in row["peers"]:
        out += bar(peer, row, scale, y)
        y += BAR + GAP
    for s in skipped:
        out += bar({"title": s["title"], "runs": [], "key": s["key"],
                    "failed": "skipped: " + s["why"]}, row, scale, y)
        y += BAR + GAP
    return out + ["</g>"], y + 16


def limits_panel(rows, left, top):
    """Rows of bench/load: weir as a share of the limit, and the goal."""
    unit = (WIDTH - LABEL - 140) / 1.2
    edge = LABEL + unit
    out = [f'<g transform="translate({left} {top})">',
           '<text class="head" x="8" y="20">weir as a share of the limit'
           '</text>']
    y = TOP
    for row in rows:
        middle = y + BAR / 2 + 4
        width = min(row["ratio"], 1.2) * unit
        note = f'{row["ratio"]:.2f} of {escape(row["limit"])[:40]}'
        out += [f'<text x="{LABEL - 8}" y="{middle}" text-anchor="end">'
                f'{escape(row["row"])}</text>',
                f'<rect class="{"weir" if row["ok"] else "missed"}" '
                f'x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}"/>',
                f'<text x="{max(edge, LABEL + width) + 6:.1f}" '
                f'y="{middle}">{note}</text>']
        if row["judged"] == "ratio":
            at = LABEL + row["goal"] * unit
            out.append(f'<path class="spread" d="M{at:.1f} {y - 2}'
                       f'V{y + BAR + 2}"/>')
        y += BAR + GAP
    out.append(f'<path class="spread" d="M{edge:.1f} {TOP - 4}V{y}"/>')
    return out + ["</g>"], y + 16


def picture(result, limits=()):
    body, top, height = [], 30, 0
    states = list(dict.fromkeys(row["state"] for row in result["rows"]))
    last = None
    if limits:
        body, tall = limits_panel(limits, 0, top)
        top += tall
    for row in result["rows"]:
        if last is not None and row["model"] != last:
            top, height = top + height, 0
        last = row["model"]
        part, tall = panel(row, result["skipped"],
                           WIDTH * states.index(row["state"]), top)
        body += part
        height = max(height, tall)
    total, width = top + height + 8, WIDTH * max(len(states), 1)
    where = result.get("device")
    where = "memory of " + where if where else "memory of one's own"
    title = (f"Loading into {where}, medians of {result['rounds']} rounds; "
             "lines: slowest to fastest. "
             f"{result['machine']}, {result['date']}")
    return "\n".join(
        ['<svg xmlns="http://www.w3.org/2000/svg" '
         f'viewBox="0 0 {width} {total}" width="{width}" height="{total}">',
         f"<style>{STYLE}</style>",
         '<rect width="100%" height="100%" fill="#fff"/>',
         f'<text x="8" y="20" class="note">{escape(title)}</text>',
         *body, "</svg>", ""])


def read_limits(path):
    """Rows with a limit in the arrays that bench/load has written."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        rows = [row for line in f for row in json.loads(line)]
    return [row for row in rows if row.get("ratio")]


def read_result(path):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    return {"rows": [], "skipped": [], "rounds": 0, "machine": machine(),
            "date": ""}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("json", help="what bench/peers --json has written")
    p.add_argument("--lines", nargs=2, metavar=("MODEL", "STATE"),
                   help="print the loaders of this row, for programs")
    p.add_argument("--limits", default="", metavar="FILE",
                   help="arrays of bench/load --json, each on a line")
    p.add_argument("--svg", metavar="FILE", help="write a picture of both")
    args = p.parse_args()
    result = read_result(args.json)
    if args.lines:
        for text in lines(result, *args.lines):
            print(text)
    elif args.svg:
        with open(args.svg, "w", encoding="utf-8") as f:
            f.write(picture(result, read_limits(args.limits)))
    else:
        print(table(result))


if __name__ == "__main__":
    main()
