"""Every example runs, and prints the output at its end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT

EXAMPLES = sorted((ROOT / "python" / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.stem))
def test_an_example_prints_the_expected_output(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    expected = re.sub(r"^# ?", "", text.partition("\n# Prints:\n")[2], flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert len(text.splitlines()) <= 100  # a page


def test_there_is_an_example_of_each_use() -> None:
    assert [example.stem for example in EXAMPLES] == [
        "finance",
        "gateway",
        "notifications",
        "orders",
    ]
