"""Libraries that write tables of Delta and Iceberg, which only the long tests of Spark need.

The connectors for Spark itself are jars, which no registry of Python packages has.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from harness.paths import CACHE, fetching

PACKAGES = ("deltalake==1.6.6", "pyiceberg[sql-sqlite]==0.12.0")


def use() -> None:
    """Make the libraries importable in this process, after its own packages; fetch them once."""
    target = CACHE / "lake"
    with fetching():
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                python = getattr(sys, "_base_executable", sys.executable)
                options = ["--quiet", "--disable-pip-version-check", "--target", f"{scratch}/lake"]
                subprocess.run(
                    [python, "-m", "pip", "install", *options, *PACKAGES],
                    stdin=subprocess.DEVNULL,
                    check=True,
                )
                Path(scratch, "lake").rename(target)
    if str(target) not in sys.path:
        sys.path.append(str(target))
