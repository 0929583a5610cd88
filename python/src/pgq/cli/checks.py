"""The checks of ``pgq doctor``: the findings of ``pgq.findings()``, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CHECKS", "DEEP", "FINDINGS", "OTHERS", "STATE", "Check"]


@dataclass(frozen=True)
class Check:
    """A group of findings; `title` describes the state without any of them."""

    name: str
    title: str
    findings: tuple[str, ...] = ()


FINDINGS: Final = """
select severity, queue, finding, since, detail, cure
  from pgq.findings(snapshot_age => %(snapshot_age)s, role => %(role)s)
"""
OTHERS: Final = """
select format('grant pg_read_all_stats to %%I', current_user) as cure
 where not pg_has_role('pg_read_all_stats', 'usage')
"""
STATE: Final = """
select c.queue, concat_ws(': ', c.problem, c.detail) as detail from pgq."check"() c
"""

CHECKS: Final = (
    Check("version", "client and database have the same version", ("version",)),
    Check(
        "snapshot",
        "no session holds an old snapshot",
        ("long_transaction", "prepared_transaction", "idle_slot"),
    ),
    Check(
        "backlog",
        "every queue is consumed, and none is growing",
        ("no_consumer", "growing", "late", "paused"),
    ),
    Check(
        "failures",
        "nothing fails, and there are no dead letters",
        ("failing", "dead_letters", "dead_letters_rising"),
    ),
    Check(
        "leases",
        "messages are done before their lease ends",
        ("leases_end", "lease_expired", "lease_long", "lease_endless"),
    ),
    Check("filters", "every filter finds messages", ("filter_matches_nothing",)),
    Check("lanes", "no queue has too many lanes", ("lanes",)),
    Check(
        "relays", "every relay lives, and its destination answers", ("relay_silent", "relay_fails")
    ),
    Check("limits", "no limit makes messages wait", ("limit_reached",)),
    Check("schedules", "every schedule runs in time", ("schedule_missed", "schedule_fails")),
    Check(
        "log",
        "the log is maintained and rotated",
        ("maintain_never", "maintain_late", "rotation_overdue"),
    ),
    Check("autovacuum", "autovacuum is on", ("autovacuum_off",)),
    Check("replication", "what is published can be updated", ("replica_identity",)),
    Check("grants", "roles have the rights that they need", ("rights",)),
    Check("others", "nothing else is found"),
)
DEEP: Final = Check("state", "the stored state is sound")
