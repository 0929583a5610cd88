"""The package as it is distributed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.paths import ROOT


def build(target: Path) -> Path:
    """Build the wheel into a directory and return it."""
    program = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, str(target)],
        cwd=ROOT / "python",
        check=True,
        capture_output=True,
    )
    (built,) = target.glob("*.whl")
    return built
