"""Measure pgq beside other systems, and write the report.

python test/bench/run.py                              everything, into extension/benchmark.md
python test/bench/run.py --only cost --only filters   these sections, into .cache/bench
python test/bench/run.py --scale small                everything, in minutes, less exact

Each section is stored in .cache/bench, and a report contains the newest result of each section.
Only a complete run at full scale, or --publish, writes the report of the repository. The report
names the time and the commit of each section, and lists missing sections.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import cluster, environment, report
from harness.paths import CACHE, ROOT

# In the order of the report.
MODULES = (
    "cost",
    "batches",
    "pgmq_served",
    "single",
    "skytools",
    "peers",
    "client",
    "backlog",
    "filters",
    "limits",
    "rotation",
    "stages",
    "place",
    "snapshot",
    "connections",
    "wakeup",
    "notify",
    "fanout",
    "growth",
    "soak",
    "relay",
    "spark",
)
PUBLISHED = ROOT / "extension" / "benchmark.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=MODULES, metavar="NAME")
    parser.add_argument("--scale", choices=["small", "full"], default="full")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="duration of the soak test")
    parser.add_argument(
        "--publish",
        action="store_true",
        help=f"write {PUBLISHED.relative_to(ROOT)} after a partial run, too",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="write the report from stored sections, without measuring",
    )
    options = parser.parse_args()
    if options.publish and options.scale != "full":
        parser.error("only full scale is published")

    kept = CACHE / "bench" / options.scale
    failed: list[str] = []
    if not options.report:
        names = options.only or MODULES
        with cluster.start(options.scale, soak=options.soak) as bench:
            for section, error in measure(bench, names):
                failed += [f"{section.name}: {error}"] if error else section.broken
                if error is None:
                    section.save(kept / f"{section.name}.json")

    files = [kept / f"{name}.json" for name in MODULES]
    sections = [report.Section.load(file) for file in files if file.exists()]
    preface = ""
    if options.scale == "small":
        preface = (
            "This run is at small scale. It shows that everything runs; its figures are rough."
        )
    if missing := [file.stem for file in files if not file.exists()]:
        preface += f" Not measured yet: {', '.join(missing)}."
        print(preface.strip(), file=sys.stderr)
    if sections:
        for target in destinations(
            options.scale,
            whole=options.only is None and not options.report and not failed,
            publish=options.publish,
        ):
            report.write(target, sections, preface.strip())
            print(f"written: {target.relative_to(ROOT)}", file=sys.stderr)
    for what in failed:
        print(f"FAILED  {what}", file=sys.stderr)
    return 1 if failed else 0


def destinations(scale: cluster.Scale, *, whole: bool, publish: bool) -> list[Path]:
    """Return the files to write; only a complete run without failures goes to the repository."""
    files = [CACHE / "bench" / scale / "report.md"]
    if scale == "full" and (whole or publish):
        files.append(PUBLISHED)
    return files


def measure(
    bench: cluster.Bench, names: Sequence[str]
) -> Iterator[tuple[report.Section, Exception | None]]:
    """Measure the sections one by one. A failure in one section does not stop the others."""
    facts, commit = environment.describe(bench), environment.commit()
    begun = time.monotonic()
    for position, name in enumerate(names, 1):
        module = import_module(f"bench.{name}")
        section = report.Section(name, (module.__doc__ or "").splitlines()[0])
        section.environment, section.commit = facts, commit
        section.measured_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        scale = "" if bench.scale == "full" else f" --scale {bench.scale}"
        section.command = f"make bench BENCH='--only {name}{scale}'"
        progress(f"{position}/{len(names)} {name}: {section.title}")
        started = time.monotonic()
        failure: Exception | None = None
        try:
            module.run(bench, section)
        except Exception as error:
            traceback.print_exc()
            failure = error
        section.seconds = time.monotonic() - started
        so_far = (time.monotonic() - begun) / 60
        progress(f"{name} took {section.seconds:.0f} s; {so_far:.0f} minutes so far")
        yield section, failure


def progress(text: str) -> None:
    print(f"== {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
