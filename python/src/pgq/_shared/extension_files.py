"""The location of the extension's files, in a wheel or in a checkout."""

from __future__ import annotations

import re
from pathlib import Path


def extension_parent() -> Path:
    """Return the directory whose subdirectory ``extension`` holds ``pgq.control``."""
    package = Path(__file__).resolve().parents[1]
    for parent in (package, package.parents[2]):
        if (parent / "extension" / "pgq.control").is_file():
            return parent
    raise FileNotFoundError("the extension's files are missing from this installation of pgq")


def extension_version() -> str:
    """Return the version that ``pgq.control`` names."""
    control = extension_parent() / "extension" / "pgq.control"
    found = re.search(r"^default_version\s*=\s*'([^']+)'", control.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError("pgq.control names no default_version")
    return found[1]
