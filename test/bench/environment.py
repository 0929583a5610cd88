"""The environment of a measurement: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.cluster import SETTINGS, Bench, Session
from harness.paths import ROOT
from pgq import __version__

PACKAGES = ("psycopg", "pgmq", "procrastinate", "pgqueuer", "asyncpg", "uvloop", "pyspark")


def describe(bench: Bench) -> dict[str, str]:
    """Return the table of the report's section Environment."""
    with Session(bench.server.dsn()) as session:
        settings = [
            f"{name} {session.value('select current_setting(%s)', name)}"
            for name in sorted(SETTINGS)
        ]
    return {
        "Processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "Memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "System": f"{_system()}, {platform.system()} {platform.release()}",
        "Server": bench.server.version,
        "Settings": ", ".join(settings),
        "pgq": __version__,
        "Python": platform.python_version(),
        "Packages": ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name))),
        "Scale": bench.scale,
    }


def commit() -> str:
    """Return the measured commit, and whether files differ from it."""
    try:
        name = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "-uno", "--", ".", ":!extension/benchmark*")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name} with changes" if changed else name


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def _processor() -> str:
    text = _read("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def _system() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read("/etc/os-release"), re.MULTILINE)
    return found[1] if found else "unknown system"


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError:
        return ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
