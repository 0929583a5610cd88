"""Changes of pgq's log by hand, which its triggers refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

if TYPE_CHECKING:
    import psycopg

TABLES: tuple[LiteralString, ...] = ("message", "message_0", "message_1", "message_2", "ready")


def damage(db: psycopg.Connection, statement: LiteralString) -> None:
    """Execute a statement while the triggers that protect the log are disabled."""
    for table in TABLES:
        db.execute(f"alter table pgq.{table} disable trigger keep_log")
    db.execute(statement)
    for table in TABLES:
        db.execute(f"alter table pgq.{table} enable always trigger keep_log")
