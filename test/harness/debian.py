"""Debian packages unpacked into a private directory: no root needed, nothing installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.paths import CACHE, fetching

# Libraries of Debian's postgres that a small machine may not have.
SERVER_PACKAGES = (
    "postgresql-{major}",
    "postgresql-client-{major}",
    "libpq5",
    "libldap-2.5-0",
    "libsasl2-2",
    "libxml2",
    "libicu72",
    "liblz4-1",
    "libgssapi-krb5-2",
    "libkrb5-3",
    "libk5crypto3",
    "libkrb5support0",
    "libkeyutils1",
    "libcom-err2",
)


KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# A PostgreSQL that is not released yet, and newer libraries than a stable system has.
EXPERIMENTAL_PACKAGES = (
    "postgresql-{major}",
    "postgresql-client-{major}",
    "libpq5/experimental",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "libicu78",
    "libssl3t64",
    "libxml2-16",
    "libxslt1.1",
    "libldap2",
    "libsasl2-2",
    "liblz4-1",
    "libzstd1",
    "zlib1g",
    "liblzma5",
    "libnuma1",
    "liburing2",
    "libuuid1",
    "libpam0g",
    "libaudit1",
    "libcap-ng0",
    "libcap2",
    "libselinux1",
    "libpcre2-8-0",
    "libsystemd0",
    "libgcrypt20",
    "libgpg-error0",
    "libgssapi-krb5-2",
    "libkrb5-3",
    "libkrb5support0",
    "libk5crypto3",
    "libcom-err2",
    "libkeyutils1",
    "libreadline8t64",
    "libtinfo6",
)
# Starts a program by the loader, and with the libraries, that have been unpacked with it.
LAUNCHER = """#!/bin/sh
here=${0%/*}
libraries=$(echo "$here"/../../../*-linux-gnu)
set -- --library-path "$libraries" --argv0 "$0" "$here/../own/${0##*/}" "$@"
exec "$libraries"/ld-linux-*.so.? "$@"
"""


class PackageError(RuntimeError):
    """A package could not be fetched; the message is the output of apt."""


Download = Callable[[Sequence[str], Path, list[str]], None]


def unpack(name: str, *packages: str) -> Path:
    """Return the directory into which the packages have been unpacked, fetching them once.

    In package names ``{major}`` stands for the newest PostgreSQL that has all of them here.
    """
    return _unpack(name, packages, _download)


def unpack_with_dependencies(name: str, *packages: str) -> Path:
    """Do the same with all dependencies that this machine does not have."""
    return _unpack(name, packages, _download_missing)


def libraries(tree: Path) -> str:
    """Return LD_LIBRARY_PATH for programs of unpacked packages."""
    found = {file.parent for top in ("lib", "usr/lib") for file in tree.glob(f"{top}/**/*.so*")}
    return ":".join(map(str, sorted(found)))


def _unpack(name: str, packages: Sequence[str], download: Download) -> Path:
    target = CACHE / "debian" / name
    if not target.is_dir():
        with fetching():
            if not target.is_dir():
                _fetch(target, packages, download)
    return target


def _fetch(target: Path, packages: Sequence[str], download: Download) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PackageError(f"{', '.join(packages)}: this knows only Debian's way to get them")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        downloads, tree = Path(scratch) / "downloads", Path(scratch) / "tree"
        downloads.mkdir()
        tree.mkdir()
        try:
            download(packages, downloads, [])
        except PackageError:
            # No package lists here, or old ones: fetch lists of our own, not the system's.
            own = _own_lists()
            _run(["apt-get", "-q", *own, "update"], downloads)
            download(packages, downloads, own)
        for package in downloads.glob("*.deb"):
            _run(["dpkg-deb", "-x", str(package), str(tree)], downloads)
        tree.rename(target)


@contextmanager
def postgres(major: str) -> Iterator[Path]:
    """Provide the programs of Debian's PostgreSQL, installed or unpacked; yield their directory."""
    installed = Path("/usr/lib/postgresql") / major / "bin"
    if (installed / "postgres").exists():
        yield installed
        return
    tree = unpack(f"postgresql-{major}", *SERVER_PACKAGES)
    libraries = ":".join(str(path) for path in tree.glob("usr/lib/*-linux-gnu*"))
    os.environ["LD_LIBRARY_PATH"] = libraries
    try:
        yield tree / "usr/lib/postgresql" / major / "bin"
    finally:
        os.environ.pop("LD_LIBRARY_PATH", None)


def experimental(major: int) -> Path:
    """Return the programs of a PostgreSQL that only Debian's experimental suite has."""
    names = [package.replace("{major}", str(major)) for package in EXPERIMENTAL_PACKAGES]
    home = _unpack(f"experimental-{major}", names, _download_experimental) / "usr/lib/postgresql"
    programs, own = home / str(major) / "bin", home / str(major) / "own"
    if not own.exists():
        with fetching():
            if not own.exists():
                launchers = Path(tempfile.mkdtemp(dir=programs.parent))
                launchers.chmod(0o755)
                for program in programs.iterdir():
                    (launchers / program.name).write_text(LAUNCHER)
                    (launchers / program.name).chmod(0o755)
                # Programs elsewhere have no launcher.
                shutil.rmtree(programs.parent / "lib" / "pgxs", ignore_errors=True)
                programs.rename(own)
                launchers.rename(programs)
    return programs


def _own_lists() -> list[str]:
    state = CACHE / "apt"
    for part in ("lists/partial", "archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    return ["-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::Cache={state}"]


def _download(packages: Sequence[str], target: Path, options: list[str]) -> None:
    known = set(_run(["apt-cache", *options, "pkgnames"], target).split())
    majors = {int(m) for name in known for m in re.findall(r"^postgresql-(\d+)$", name)}
    for major in sorted(majors, reverse=True):
        names = [package.replace("{major}", str(major)) for package in packages]
        if known.issuperset(names):
            _download_these(names, target, options)
            return
    raise PackageError(f"apt knows no {', '.join(packages)}")


def _download_missing(packages: Sequence[str], target: Path, options: list[str]) -> None:
    simulate = ["apt-get", "-q", *options, "--simulate", "--no-install-recommends", "install"]
    plan = _run([*simulate, *packages], target)
    found = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", plan, re.MULTILINE)
    names = {name: f"{name}={version}" for name, version in found}
    # What is installed in the newest version is not in the plan, but must be in the tree.
    _download_these([names.pop(name, name) for name in packages], target, options)
    if names:
        _download_these(list(names.values()), target, options)


def _download_experimental(packages: Sequence[str], target: Path, options: list[str]) -> None:
    form = "$(REPO_URI) $(LABEL) $(COMPONENT)"
    shown = _run(
        ["apt-get", *options, "indextargets", "--format", form, "Created-By: Packages"], target
    )
    archives = [line.split()[0] for line in shown.splitlines() if line.endswith(" Debian main")]
    if not archives:
        raise PackageError("apt knows no archive of Debian")
    place = target / "apt"
    for part in ("lists/partial", "archives/partial", "sources"):
        (place / part).mkdir(parents=True)
    (place / "sources" / "newer.list").write_text(
        "".join(
            f"deb [signed-by={KEYRING}] {archives[0]} {suite} main\n"
            for suite in ("sid", "experimental")
        )
    )
    own = [
        "-o",
        "Dir::Etc::sourcelist=/dev/null",
        "-o",
        f"Dir::Etc::sourceparts={place}/sources",
        "-o",
        f"Dir::State::lists={place}/lists",
        "-o",
        f"Dir::Cache={place}",
    ]
    _run(["apt-get", "-q", *own, "update"], target)
    _download_these(packages, target, own)


def _download_these(names: Sequence[str], target: Path, options: list[str]) -> None:
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    _run(["apt-get", "-q", *sandbox, *options, "download", *names], target)


def _run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PackageError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
