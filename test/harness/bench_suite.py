"""The benchmark at its smallest: it fails only if a ratio is wrong by a wide margin."""

from __future__ import annotations

from bench import cluster
from bench.report import FIGURES, PLOTS, Section, figures, write
from bench.run import PUBLISHED, destinations, measure
from harness.paths import CACHE
from harness.report import Report

# The guarded sections; others need more clients. Only CPU is measured, so fsync is off.
GUARDED = ("cost", "batches", "backlog", "filters", "snapshot", "client", "soak")
# The picture at the top has both panels, and pgmq in each.
PICTURE = (
    "Claims while a transaction holds a snapshot",
    "CPU of a claim of 100 behind a backlog",
    "pgmq, published by 1,000",
    ">pgmq<",
)


def run(report: Report) -> None:
    sections: list[Section] = []
    with cluster.start("small", durable=False) as bench:
        for section, error in measure(bench, GUARDED):
            report.check(f"{section.name} can be measured", "" if error is None else repr(error))
            for guard in section.guards:
                report.check(section.name, "" if guard.holds else guard.what)
            sections.append(section)
    wanted = {name for name, _, _ in FIGURES} & set(GUARDED)
    missing = wanted - {name for name, _, _ in figures(sections)}
    report.check("the figures at the top", f"no target for {missing}" if missing else "")
    place = CACHE / "bench" / "guards"
    write(place / "report.md", sections)
    picture = (place / PLOTS / "summary.svg").read_text(encoding="utf-8")
    missing = {text for text in PICTURE if text not in picture}
    report.check("the picture at the top", f"it lacks {missing}" if missing else "")
    for section in sections:
        file = place / f"{section.name}.json"
        section.save(file)
        same = Section.load(file).markdown() == section.markdown()
        report.check(f"{section.name} can be read again", "" if same else "it is another one")
    runs: list[tuple[cluster.Scale, bool, bool]] = [("small", True, True), ("full", False, False)]
    for scale, whole, publish in runs:
        wrong = PUBLISHED in destinations(scale, whole=whole, publish=publish)
        what = "a small or partial run is not published"
        report.check(what, "it is" if wrong else "")
