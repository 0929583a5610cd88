"""Measure pgq, side by side with others, and write .cache/bench/report.md.

python test/bench/run.py                              everything, which takes a while
python test/bench/run.py --scale small                everything, in a minute, less exactly
python test/bench/run.py --only cost --only filters   some of it
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import (
    backlog,
    client,
    cluster,
    cost,
    fanout,
    filters,
    growth,
    notify,
    peers,
    place,
    relay,
    report,
    snapshot,
    wakeup,
)
from harness.paths import CACHE

MODULES = (
    *(cost, growth, snapshot, backlog, filters, place, wakeup, notify, fanout, client, relay),
    peers,
)


def main() -> int:
    names = {module.__name__.split(".")[-1]: module for module in MODULES}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(names), metavar="NAME")
    parser.add_argument("--scale", choices=["small", "full"], default="full")
    options = parser.parse_args()

    sections = []
    with cluster.start(options.scale) as bench:
        preface = f"Scale {bench.scale}. {cluster.describe(bench)}"
        if bench.scale == "small":
            preface += " This scale shows that all of it runs: its figures are rough."
        for name in options.only or names:
            module = names[name]
            print(f"== {name}", file=sys.stderr, flush=True)
            section = report.Section(name, (module.__doc__ or "").splitlines()[0])
            started = time.monotonic()
            try:
                module.run(bench, section)
            except Exception as error:  # what was measured before and after it still counts
                traceback.print_exc()
                section.say(f"Could not be measured: {error}")
                section.guard(f"could not be measured: {error}", False)
            section.seconds = time.monotonic() - started
            sections.append(section)

    text = report.whole(preface, sections)
    target = CACHE / "bench" / "report.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(text)
    broken = [what for section in sections for what in section.broken]
    for what in broken:
        print(f"FAILED  {what}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
