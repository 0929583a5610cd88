"""``pgq demo``, ``pgq install`` and ``pgq sql``."""

from __future__ import annotations

import sys
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from pgq import __version__
from pgq._shared.extension_files import extension_parent
from pgq._shared.sql import VERSION
from pgq.cli import _sql as statements
from pgq.cli._command import Commands, Failure, Options, connect
from pgq.cli._output import Output, say
from pgq.migrations import script

__all__ = ["add", "install"]

Conn = psycopg.Connection[Any]


def add(commands: Commands) -> None:
    """Add the commands."""
    commands.add("demo", demo, "one message's whole life, on a server of its own", "pgq demo")
    parser = commands.add(
        "install",
        run,
        "put pgq into a database, or upgrade it there",
        """
        pgq install
        pgq install --plain --dsn postgresql://app@db.example.com/shop
        """,
        more="Creates the extension where the server has its files, and else runs its script,\n"
        "which needs nothing but the right to create a schema. Both can be upgraded.\n\n",
    )
    parser.add_argument("--plain", action="store_true", help="without extension files in any case")
    parser = commands.add(
        "sql",
        show,
        "print a script for your own migrations",
        """
        pgq sql install > migrations/0001_pgq.sql
        pgq sql upgrade | psql shop
        """,
        more="One statement, which can be run again and again: it brings pgq to the version of "
        "this\npackage and needs no extension files. In Python it is pgq.migrations.script().\n\n",
    )
    parser.add_argument(
        "action",
        choices=["install", "upgrade", "tle"],
        help="upgrade installs nothing; tle is for servers with pg_tle",
    )


def demo(options: Options, out: Output) -> int:
    """Tell one message's life."""
    from pgq import demo

    return demo.main()


def run(options: Options, out: Output) -> None:
    """Create or upgrade pgq."""
    with connect(options) as conn:
        how, action = install(conn, plain=options.plain)
    out.rows([{"version": __version__, "how": how, "action": action}])
    if action == "created":
        say("Next: pgq create QUEUE")


def show(options: Options, out: Output) -> None:
    """Print a script."""
    sys.stdout.write(script(options.action))


def install(conn: Conn, *, plain: bool = False) -> tuple[str, str]:
    """Create or upgrade pgq in a database; return how it is installed and what was done."""
    extension: str | None = _value(conn, statements.EXTENSION)
    if extension is not None:
        return "extension", _upgrade_extension(conn, extension)
    if _value(conn, statements.PLAIN):
        return "plain", _upgrade_plain(conn, _value(conn, VERSION))
    if not plain and _value(conn, statements.AVAILABLE, __version__):
        conn.execute(sql.SQL(statements.CREATE_EXTENSION).format(sql.Literal(__version__)))
        return "extension", "created"
    conn.execute(_script())
    return "plain", "created"


def _upgrade_extension(conn: Conn, version: str) -> str:
    if version == __version__:
        return "unchanged"
    _refuse_newer(version)
    if not _value(conn, statements.AVAILABLE, __version__):
        raise Failure(
            f"the server has no files of pgq {__version__}, and the extension is {version}",
            "Install them on the server: make install, or its package",
        )
    conn.execute(sql.SQL(statements.UPDATE_EXTENSION).format(sql.Literal(__version__)))
    return "upgraded"


def _upgrade_plain(conn: Conn, version: str) -> str:
    if version == __version__:
        return "unchanged"
    _refuse_newer(version)
    conn.execute(_script())
    return "upgraded"


def _refuse_newer(version: str) -> None:
    if [int(part) for part in version.split(".")] > [int(part) for part in __version__.split(".")]:
        raise Failure(
            f"the database has pgq {version}, which is newer than this client's {__version__}",
            f"pip install pgq-client=={version}",
        )


def _script() -> bytes:
    """Return the script of the extension, which installs and upgrades without being one too."""
    return (extension_parent() / "extension" / f"pgq--{__version__}.sql").read_bytes()


def _value(conn: Conn, statement: LiteralString, *parameters: Any) -> Any:
    row = conn.execute(statement, parameters).fetchone()
    return None if row is None else row[0]
