"""The distribution: a wheel that carries the extension and works in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.paths import ROOT
from pgq import __version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    program = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, str(target)],
        cwd=ROOT / "python",
        check=True,
        capture_output=True,
    )
    (built,) = target.glob("*.whl")
    return built


def test_the_wheel_carries_the_extension(wheel: Path) -> None:
    assert wheel.name.startswith(f"pgq_client-{__version__}-")
    names = set(zipfile.ZipFile(wheel).namelist())
    for file in ("pgq.control", f"pgq--{__version__}.sql", "pgq-plain.sql"):
        assert f"pgq/extension/{file}" in names
    assert "pgq/py.typed" in names


def test_the_wheel_finds_the_extension_it_carries(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pgq._files as files;"
        "print(files.extension_parent(), files.extension_version())"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(tmp_path / "pgq"), __version__]
