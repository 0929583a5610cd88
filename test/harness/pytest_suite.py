"""Directories of pytest files, each run in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from harness.paths import TEST
from harness.report import Report


def run(
    report: Report,
    directory: str,
    *,
    pattern: str = "",
    accept: bool = False,
    pooler: bool = False,
) -> None:
    """Run the tests below test/`directory` whose names match `pattern`, through a pooler or not."""
    with TemporaryDirectory() as scratch:
        results = Path(scratch) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={results}"]
        command.append(str(TEST / directory))
        if pattern:
            command += ["-k", pattern]
        environment = os.environ | {"PGQ_TEST_ACCEPT": "1" if accept else ""}
        if pooler:
            environment["PGQ_TEST_POOLER"] = "1"
        code = subprocess.run(command, env=environment, check=False).returncode
        if not results.exists():
            report.bad("pytest did not run")
            return
        cases = ElementTree.parse(results).getroot().iter("testcase")
        for case in cases:
            # A test that passes and then fails to tear down is one failure, not two results.
            if case.find("failure") is not None or case.find("error") is not None:
                report.bad(f"{case.get('classname')}::{case.get('name')}")
            elif case.find("skipped") is None:
                report.good()
        if code not in (0, 5) and not report.failed:
            report.bad(f"pytest ended with code {code}")
