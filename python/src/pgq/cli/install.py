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
    commands.add("demo", demo, "show the life of a message, on a private server", "pgq demo")
    parser = commands.add(
        "install",
        run,
        "install pgq in a database, or upgrade it",
        """
        pgq install
        pgq install --plain --dsn postgresql://app@db.example.com/shop
        """,
        more="Creates the extension if the server has its files. Otherwise runs the extension's\n"
        "script, which needs only the right to create a schema. Both can be upgraded.\n\n",
    )
    parser.add_argument("--plain", action="store_true", help="do not use extension files")
    parser = commands.add(
        "sql",
        show,
        "print a script for your own migrations",
        """
        pgq sql install > migrations/0001_pgq.sql
        pgq sql upgrade | psql shop
        """,
        more="The script is one statement that can be run repeatedly. It installs or upgrades pgq "
        "to the\nversion of this package, and needs no extension files. In Python it is\n"
        "pgq.migrations.script().\n\n",
    )
    parser.add_argument(
        "action",
        choices=["install", "upgrade", "tle"],
        help="upgrade fails if pgq is missing; tle is for servers with pg_tle",
    )


def demo(options: Options, out: Output) -> int:
    """Run the demonstration."""
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
    """Create or upgrade pgq; return the kind (extension or plain) and the action taken."""
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
    """Return the extension's script, which also installs and upgrades pgq as a plain schema."""
    return (extension_parent() / "extension" / f"pgq--{__version__}.sql").read_bytes()


def _value(conn: Conn, statement: LiteralString, *parameters: Any) -> Any:
    row = conn.execute(statement, parameters).fetchone()
    return None if row is None else row[0]
