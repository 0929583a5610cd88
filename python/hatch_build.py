"""Put the extension's scripts into the wheel, and take the version from its control file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent


def extension() -> Path:
    """Return the extension's directory, which an unpacked sdist has inside."""
    inside = HERE / "extension"
    return inside if inside.is_dir() else HERE.parent / "extension"


def version() -> str:
    """Return the version that the control file names."""
    control = (extension() / "pgq.control").read_text(encoding="utf-8")
    found = re.search(r"^default_version\s*=\s*'([^']+)'", control, re.MULTILINE)
    assert found, "pgq.control names no default_version"
    return found[1]


class ExtensionFiles(BuildHookInterface[Any]):
    """Copy the extension beside the package's modules, where pgq looks for it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        target = "pgq/extension" if self.target_name == "wheel" else "extension"
        build_data["force_include"][str(extension())] = target
