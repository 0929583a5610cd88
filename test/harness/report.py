"""The results of the suites, counted in the same way."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Report:
    """The checks of one suite; prints failures immediately."""

    name: str
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def good(self, count: int = 1) -> None:
        self.passed += count

    def bad(self, what: str, detail: str = "", count: int = 1) -> None:
        self.failed += count
        self.failures.append(what)
        print(f"FAILED  {self.name}: {what}", flush=True)
        if detail.strip():
            print("        " + detail.strip().replace("\n", "\n        "), flush=True)

    def check(self, what: str, detail: str) -> None:
        """Count one check; a text means failure."""
        if detail.strip():
            self.bad(what, detail)
        else:
            self.good()


Suite = Callable[[Report], None]


def run(suites: dict[str, Suite], result: Path | None = None) -> int:
    """Run the suites, print the summary and return the exit code; the result can be kept."""
    reports = []
    for name, suite in suites.items():
        report = Report(name)
        print(f"== {name}", flush=True)
        started = time.monotonic()
        try:
            suite(report)
        except Exception as error:  # a suite that cannot run is a failure, not the end
            report.bad("the suite could not run", f"{type(error).__name__}: {error}")
        report.seconds = time.monotonic() - started
        if report.passed + report.failed == 0:
            report.bad("nothing was tested")
        reports.append(report)
    if result is not None:
        result.write_text(json.dumps([asdict(report) for report in reports]), encoding="utf-8")
    return summary(reports)


def run_beside(names: Sequence[str], jobs: int) -> int:
    """Run suites in their own processes, some in parallel; print the output of each at its end."""
    reports: list[Report] = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:

        def one(name: str) -> tuple[str, list[Report]]:
            result = Path(scratch) / name
            done = subprocess.run(
                [sys.executable, sys.argv[0], name, "--result", str(result)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
            if result.exists():
                return done.stdout, [Report(**fields) for fields in json.loads(result.read_text())]
            dead = Report(name)
            dead.failed, dead.failures = 1, [f"the suite ended with code {done.returncode}"]
            return done.stdout, [dead]

        for future in as_completed([pool.submit(one, name) for name in names]):
            output, found = future.result()
            print(output, flush=True)
            reports += found
    return summary(reports)


def summary(reports: Sequence[Report]) -> int:
    """Print the summary and return the exit code."""
    failures = [(report.name, what) for report in reports for what in report.failures]
    print("\n== summary")
    for report in reports:
        print(
            f"{report.name:<10} {report.passed:>6} passed {report.failed:>6} failed"
            f" {report.seconds:>7.1f} s"
        )
    for suite_name, what in failures:
        print(f"FAILED  {suite_name}: {what}")
    passed = sum(report.passed for report in reports)
    failed = sum(report.failed for report in reports)
    print(f"{passed} passed, {failed} failed")
    sys.stdout.flush()
    return 1 if failed else 0
