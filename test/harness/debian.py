"""Debian packages unpacked into a private directory: no root, nothing installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.paths import CACHE


class PackageError(RuntimeError):
    """A package could not be had; the message is what apt said."""


def unpack(name: str, *packages: str) -> Path:
    """Return the directory into which the packages have been unpacked, fetching them once."""
    target = CACHE / "debian" / name
    if target.is_dir():
        return target
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PackageError(f"{', '.join(packages)}: only known how to get on Debian and Ubuntu")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        work = Path(scratch)
        # As root, apt downloads as another user, who has to get here; say nothing if not.
        work.chmod(0o755)
        downloads, tree = work / "debs", work / "tree"
        downloads.mkdir()
        tree.mkdir()
        if said := _apt(["download", *packages], downloads, []):
            # No package lists, or old ones: fetch lists of our own, not the system's.
            state = CACHE / "apt"
            for part in ("lists/partial", "archives/partial"):
                (state / part).mkdir(parents=True, exist_ok=True)
            own = ["-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::Cache={state}"]
            said = _apt(["update"], downloads, own) or _apt(["download", *packages], downloads, own)
        if said:
            raise PackageError(said)
        for package in downloads.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
        try:
            tree.rename(target)
        except OSError:  # another run was faster
            if not target.is_dir():
                raise
    return target


def _apt(arguments: list[str], cwd: Path, options: list[str]) -> str:
    """Run apt-get; return what it said if it failed, else nothing."""
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    done = subprocess.run(
        ["apt-get", "-q", *sandbox, *options, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or "apt-get failed"
