"""Run test suites on every major of PostgreSQL that pgq supports.

python test/matrix.py                      the SQL, isolation and Python suites on all of them
python test/matrix.py sql --majors 15 16   some of them
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from harness import versions
from harness.paths import TEST


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="suite", default=[])
    parser.add_argument("--majors", nargs="*", type=int, default=versions.MAJORS)
    parser.add_argument("--only", default="", metavar="TEXT", help="tests with TEXT in their path")
    options = parser.parse_args()
    suites = options.suites or ["sql", "isolation", "python"]
    ends = []
    for major in options.majors:
        started = time.monotonic()
        code, last = run(major, [*suites, "--only", options.only])
        ends.append((major, code, last, time.monotonic() - started))
    print("\n== matrix")
    for major, _, last, seconds in ends:
        print(f"PostgreSQL {major:<4} {last:<40} {seconds:>7.1f} s")
    return 1 if any(code for _, code, _, _ in ends) else 0


def run(major: int, arguments: list[str]) -> tuple[int, str]:
    """Run suites on one major; return the exit code and the last line that was printed."""
    try:
        binaries = versions.server(major)
    except versions.MissingVersion as error:
        return 1, str(error)
    print(f"\n==== PostgreSQL {major}: {binaries}", flush=True)
    path = f"{versions.tools()}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PGQ_PG_BIN": str(binaries), "PATH": path}
    last = "nothing was printed"
    with subprocess.Popen(
        [sys.executable, TEST / "run.py", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return process.returncode, last


if __name__ == "__main__":
    sys.exit(main())
