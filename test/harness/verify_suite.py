"""Checks that generated files are up to date."""

from __future__ import annotations

import json
import sys

from harness.paths import ROOT
from harness.report import Report
from pgq import __version__

sys.path.insert(0, str(ROOT / "sql"))
sys.path.insert(0, str(ROOT / "python"))
import build
import pictures
import reference
import unasync


def run(report: Report) -> None:
    scripts = build.build(ROOT)
    stale = build.stale(ROOT, scripts)
    for name in sorted({*scripts, *stale}):
        report.check(f"extension/{name}", "stale: run make build" if name in stale else "")
    report.check("extension/pgq.md", "" if reference.is_current() else "stale: run make docs")

    old = pictures.stale()
    for name in pictures.pictures():
        report.check(f"extension/doc/{name}", "stale: run make docs" if name in old else "")

    old = unasync.stale()
    for name in sorted({*old, *(original.name for original in unasync.originals())}):
        fault = "stale: run python python/unasync.py" if name in old else ""
        report.check(f"pgq/_sync/{name}", fault)

    meta = json.loads((ROOT / "META.json").read_text(encoding="utf-8"))
    versions = {meta["version"]}
    for ours in meta["provides"].values():
        versions |= {ours["version"], ours["file"].split("--")[1][: -len(".sql")]}
    for file in (ROOT / "extension").glob("*.control"):
        versions.add(build.VERSION.findall(file.read_text(encoding="utf-8"))[0])
    wrong = versions - {__version__}
    report.check("META.json", f"says {', '.join(wrong)}, not {__version__}" if wrong else "")
