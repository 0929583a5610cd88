"""Write extension/pgq.md, the reference, from the comments in an installed extension's catalog.

    python sql/reference.py             write it
    python sql/reference.py --check     compare, write nothing

Objects appear under the use that `GROUPS` gives them, in the order of the sources. A name that
begins with an underscore is private and left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from textwrap import dedent

import psycopg

import build
from pgq import embedded

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "extension" / "pgq.md"

CREATED = re.compile(
    r"^create (?:or replace )?(function|procedure|aggregate|view|table|type|sequence) pgq\.(\w+)",
    re.MULTILINE,
)
CALLED = ("function", "procedure", "aggregate")
WIDTH = 90

#: Groups by use: a sentence, then chapters of sql/ and names of objects; names take precedence.
GROUPS = {
    "Queues": (
        "Create queues, subscribe them to topics, grant rights to them.",
        "30_queue subscription rights",
    ),
    "Publishing": (
        "Publish by a function, by INSERT or COPY into `pgq.message`, or by a schedule.",
        "message publish publish_batch reply 42_schedule schedules",
    ),
    "Claims and leases": (
        "Claim messages under a lease, and end the lease.",
        "claimed claim ack nack bury extend release finish seen",
    ),
    "Filters": (
        "Build, test and explain [filters](doc/filters.md), which are JSON documents.",
        "20_filter addressed_to entity_filter explain_filter filter_stats",
    ),
    "Dead letters": (
        "Messages that failed too often, expired or were buried.",
        "dead_letter 60_dead_letter",
    ),
    "Operate": (
        "Stop and resume delivery, change waiting messages, run maintenance.",
        "pause resume 58_operate maintain limits version",
    ),
    "Observe": (
        "Read the state of queues and messages. These functions change nothing.",
        "80_observe 82_findings 84_metrics peek messages backlog",
    ),
    "Clients and integrations": (
        "Functions for clients, Spark, relays and archives: waiting, streams, staging, the log.",
        "40_publish 49_lease 50_claim 52_peek 53_wait 55_stream 70_maintain relays streams",
    ),
    "Internals": (
        "Tables, and functions for tests. They may change with any version. Use the views above.",
        "",
    ),
}
POLICY = "These are the options of `create_queue`. `alter_queue` changes the given ones."

#: Examples of the most used functions. The build runs them, in this order, in one database.
EXAMPLES = {
    "create_queue": """
        select pgq.create_queue('orders', lane_keys => '{type}', max_attempts => 5);
        select pgq.create_queue('calls', rate => '100/min', max_leased => 20);
    """,
    "alter_queue": "select pgq.alter_queue('orders', lease => '2 min', retention => '7 days');",
    "subscribe": """
        select pgq.subscribe('audit', 'orders.#');
        select pgq.subscribe('vip', 'orders', '{"payload.amount": {"$gte": 1000}}');
    """,
    "publish": """
        select pgq.publish('orders', '{"amount": 120}', headers => '{"type": "paid"}');
        select pgq.publish('orders', '{"amount": 75}', delay => '5 min', dedup_key => 'order 7');
    """,
    "publish_batch": """
        select pgq.publish_batch('orders', array['{"amount": 1}', '{"amount": 2}']::jsonb[]);
    """,
    "schedule": """
        select pgq.schedule('report', 'orders', '{"kind": "report"}', cron => '0 6 * * *',
                            time_zone => 'Europe/Berlin');
    """,
    "peek": "select id, payload from pgq.peek('orders', '{\"type\": \"paid\"}', n => 5);",
    "backlog": "select pgq.backlog('orders');",
    "explain_filter": """
        select item, value from pgq.explain_filter('orders', '{"type": "paid"}');
    """,
    "matches": 'select pgq.matches(\'{"type": ["paid", "refund"]}\', \'{"type": "paid"}\');',
    "claim": """
        select lease_id, id, payload from pgq.claim('orders', '{"type": "paid"}', n => 10);
        select * from pgq.claim('orders', n => 1, lease => '5 min');
    """,
    "extend": "select pgq.extend(lease_id, '10 min') from pgq.leases where queue = 'orders';",
    "ack": "select pgq.ack(lease_id) from pgq.leases where queue = 'orders';",
    "nack": """
        select pgq.nack(lease_id, error => 'bank not reachable') from pgq.claim('orders');
    """,
    "bury": "select pgq.bury(lease_id, error => 'no such customer') from pgq.claim('vip');",
    "replay": """
        select pgq.replay('orders', cause => '{"error": "bank not reachable"}', dry_run => true);
        select pgq.replay('orders', per_second => 50);
    """,
    "cancel": "select pgq.cancel('orders', dedup_key => 'order 7', dry_run => true);",
    "history": "select event, at, note from pgq.history(1);",
    "findings": "select severity, queue, finding, cure from pgq.findings();",
}

FUNCTIONS = """
select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
       obj_description(p.oid, 'pg_proc')
  from pg_proc p
 where p.pronamespace = 'pgq'::regnamespace and p.prorettype <> 'trigger'::regtype
 order by p.proname, p.pronargs, 2
"""

RELATIONS = """
select c.relname, obj_description(c.oid, 'pg_class'), a.attname,
       format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
   and not c.relispartition
 union all
select t.typname, obj_description(t.oid, 'pg_type'), a.attname,
       format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)
  from pg_type t
  join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where t.typnamespace = 'pgq'::regnamespace
"""

HEAD = """\
# pgq reference

`make docs` builds this page from the comments in the catalog. psql shows the same texts with `\\df+
pgq.*` and `\\d+ pgq.*`. Parameters with a default are optional. Pass optional parameters by name:
`pgq.claim('orders', n => 10)`.

## Rights

The owner of the extension, its members and superusers may do everything. Other roles get rights
queue by queue. PUBLIC has no rights.

```sql
select pgq.grant_queue('orders', 'shop', 'publish');
select pgq.grant_queue('orders', 'billing', 'consume');
select pgq.grant_queue('orders', 'operator', 'admin');
select * from pgq.rights;
```

| right | lets a role |
|---|---|
| publish | publish to every topic that the queue receives, by function, INSERT or COPY |
| consume | claim, end and extend leases, peek, wait; read statistics, history, dead letters |
| admin | both, and alter, pause, resume, drop, replay, discard, subscribe and unsubscribe |

- pgq checks the rights of `current_user`. So SET ROLE changes them, members of a role have its
  rights (unless they do not inherit), and your own SECURITY DEFINER functions call pgq with the
  rights of their owner.
- `grant_queue` also grants the privileges that the role needs. `revoke_queue` revokes them with the
  last right. When a role is dropped, its rights end.
- An administrator of a queue can subscribe it to topics that one of its queues already receives
  without a filter, and to no others.
- `create_queue`, `grant_queue`, `maintain` and `check` are for the owner, and for roles to which
  the owner grants EXECUTE. A role that may create queues or grant rights can get access to all
  queues.
- A queue that does not exist and a queue that the role may not use raise the same error: 42501, or
  QU003 for a lease.

[security.md](security.md) explains what this protects against, and what not.

Functions that check rights have one more parameter, `caller`, which is not shown below. It is
`current_user`, and no other value is accepted.
"""


def public_objects() -> dict[str, list[tuple[str, str]]]:
    """Return the kinds and names of the public objects of each group."""
    groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    home = {name: group for group, (_, names) in GROUPS.items() for name in names.split()}
    for source in build.read_sources(ROOT, build.read_version(ROOT)):
        chapter = source.path.split("/")[1]
        for kind, name in CREATED.findall(source.text):
            group = groups[home.get(name) or home.get(chapter) or "Internals"]
            if not name.startswith("_") and (kind, name) not in group:
                group.append((kind, name))
    return groups


def anchor(heading: str) -> str:
    """Return the anchor that a link to a heading points to."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def contents(groups: dict[str, list[tuple[str, str]]]) -> str:
    """Return a table of the groups with links to their objects; internals are not listed."""
    lines = ["## Contents", "", "| use | |", "|---|---|"]
    for group, objects in groups.items():
        names = [
            f"[{name}](#{anchor(name if kind in CALLED else f'{name} ({kind})')})"
            for kind, name in objects
        ]
        listed = "tables" if group == "Internals" else " ".join(names)
        lines.append(f"| [{group}](#{anchor(group)}) | {listed} |")
    return "\n".join(lines) + "\n"


def policy(arguments: str, comments: dict[str, str | None]) -> str:
    """Return the options of create_queue as a table, with what the columns' comments say."""
    lines = ["### Policy of a queue", "", POLICY, "", "| option | type | default | |"]
    lines.append("|---|---|---|---|")
    for part in split_arguments(arguments)[1:]:
        name, kind, default = re.fullmatch(r"(\w+) (.*) = (.*)", part).groups()  # type: ignore[union-attr]
        lines.append(f"| `{name}` | {kind} | `{default}` | {comments.get(name) or ''} |")
    return "\n".join(lines) + "\n"


def readable(arguments: str) -> str:
    """Return a function's parameters without `caller` and without casts of their defaults."""
    arguments = re.sub(r"(, )?caller pgq\.caller DEFAULT CURRENT_USER", "", arguments)
    arguments = arguments.replace(" DEFAULT ", " = ").replace("NULL::", "null::")
    arguments = re.sub(r"= null::[\w ]+(\[\])?", "= null", arguments)
    return re.sub(r"('(?:[^']|'')*')::[\w ]+(\[\])?", r"\1", arguments)


def split_arguments(arguments: str) -> list[str]:
    return re.split(r", (?=\w+ \w|\"|OUT |VARIADIC )", arguments) if arguments else []


def signature(name: str, arguments: str, result: str | None) -> str:
    """Return a function's head, on one line if that is short enough."""
    returned = re.sub("^(SETOF|TABLE)", lambda word: word[0].lower(), result or "")
    arrow = f" -> {returned}" if returned else ""
    line = f"pgq.{name}({arguments}){arrow}"
    if len(line) <= WIDTH:
        return line
    parts = split_arguments(arguments)
    body = "".join(f"\n    {part}," for part in parts).removesuffix(",") + "\n" * bool(parts)
    if len(arrow) > WIDTH:
        arrow = arrow.replace("table(", "table(\n    ").replace(", ", ",\n    ")
        arrow = arrow.removesuffix(")") + "\n)"
    return f"pgq.{name}({body}){arrow}"


def table(columns: list[tuple[str, str, str | None]]) -> str:
    lines = ["| column | type | |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {text or ''} |" for name, kind, text in columns]
    return "\n".join(lines)


def reference() -> str:
    """Return the text of the reference."""
    functions: dict[str, list[tuple[str, str | None, str | None]]] = {}
    relations: dict[str, tuple[str | None, list[tuple[str, str, str | None]]]] = {}
    with (
        embedded.start(durable=False) as server,
        psycopg.connect(server.dsn(), autocommit=True) as conn,
    ):
        conn.execute("create extension pgq")
        for example in EXAMPLES.values():
            conn.execute(example.encode())
        for name, arguments, result, text in conn.execute(FUNCTIONS):
            functions.setdefault(name, []).append((readable(arguments), result, text))
        for name, text, *column in conn.execute(RELATIONS):
            relations.setdefault(name, (text, []))[1].append((column[0], column[1], column[2]))

    groups = public_objects()
    comments = {
        column: text
        for table in ("queue", "queue_limit")
        for column, _, text in relations[table][1]
    }
    parts = [HEAD, contents(groups)]
    for group, objects in groups.items():
        section: list[str] = []
        for kind, name in objects:
            if kind in CALLED:
                for position, (arguments, result, text) in enumerate(functions.get(name, [])):
                    head = signature(name, arguments, result)
                    section.append(f"### {name}\n\n```sql\n{head}\n```\n\n{text or ''}\n")
                    if position == 0 and name in EXAMPLES:
                        section.append(f"```sql\n{dedent(EXAMPLES[name]).strip()}\n```\n")
            elif name in relations:
                text, columns = relations[name]
                section.append(f"### {name} ({kind})\n\n{text or ''}\n\n{table(columns)}\n")
        parts += [f"## {group}\n", f"{GROUPS[group][0]}\n", *section]
        if group == "Queues":
            parts.append(policy(functions["create_queue"][0][0], comments))
    return "\n".join(parts)


def is_current() -> bool:
    """Whether the reference is what the catalog says."""
    return TARGET.exists() and TARGET.read_text(encoding="utf-8") == reference()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if parser.parse_args().check:
        current = is_current()
        if not current:
            print("reference: extension/pgq.md is not what the catalog says; run make docs")
        return 0 if current else 1
    TARGET.write_text(reference(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
