"""The dashboard and the alert rules: valid for their programs, and about existing metrics."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

import pgq
from harness import debian
from harness.paths import ROOT
from pgq.metrics import MetricsReader

MONITORING = ROOT / "extension" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
# What the exporter and Prometheus add to the metrics and labels of pgq.metrics().
ADDED_METRICS: dict[str, set[str]] = {"pgq_up": set(), "pgq_scrape_seconds": set()}
ADDED_LABELS = {"instance", "job"}

_FOR_ALL = {"$instance": ".*", "$queue": ".*", "$__rate_interval": "1m"}


def concrete(expression: str) -> str:
    """Return an expression of the dashboard with its variables replaced."""
    for name, value in _FOR_ALL.items():
        expression = expression.replace(name, value)
    return expression


QUERIES = [concrete(target["expr"]) for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = [*QUERIES, *(rule["expr"] for rule in RULES)]


@pytest.fixture(scope="module")
def prometheus() -> Path:
    """The directory of Prometheus' programs."""
    return debian.unpack("prometheus", "prometheus") / "usr" / "bin"


def promtool(prometheus: Path, *arguments: str | Path, stdin: str = "") -> str:
    done = subprocess.run(
        [prometheus / "promtool", *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def orders(client: pgq.PooledClient, db: psycopg.Connection) -> pgq.PooledClient:
    """Queues with data for every panel of the dashboard."""
    client.create_queue("orders", lane_keys=["type"], max_attempts=1)
    client.subscribe("audit", "orders.#")
    client.publish_batch("orders", list(range(20)))
    client.claim("orders", n=1).nack(error="no")
    client.claim("orders", {"n": 1})
    db.execute("select pgq.hold('orders', 'job')")
    return client


# What the files are for


def test_the_dashboard_is_valid_for_grafana() -> None:
    register_default_plugins()
    read = Dashboard.from_json(json.loads(json.dumps(DASHBOARD)))
    written = json.loads(JSONEncoder().encode(read))
    assert lost(DASHBOARD, written) == []


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Return the parts that were not understood: they are missing or different afterwards."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            name
            for key, value in before.items()
            for name in lost(value, after.get(key, "nothing"), f"{path}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            name
            for index, (one, other) in enumerate(zip(before, after, strict=True))
            for name in lost(one, other, f"{path}/{index}")
        ]
    return [] if before == after else [f"{path}: {before} became {after}"]


def test_panels_do_not_overlap_and_have_descriptions() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert all(panel["title"] and panel["description"] for panel in PANELS)


def test_prometheus_accepts_the_rules(prometheus: Path) -> None:
    assert f"{len(RULES)} rules found" in promtool(prometheus, "check", "rules", ALERTS)


def test_every_rule_says_why_and_how_bad() -> None:
    for rule in RULES:
        assert rule["annotations"].keys() == {"summary", "reason"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


# When the alerts fire. For each: series that make it fire, and some that do not. What is added up
# in an hour of minutes is written as Prometheus' tests do: 0+10x60 begins at 0 and grows by 10.

ORDERS = '{job="pgq", instance="db", queue="orders"}'
DB = '{job="pgq", instance="db"}'
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "PgqDown": ({f"pgq_up{DB}": "0x60"}, {f"pgq_up{DB}": "1x60"}),
    "PgqUnwatched": ({}, {f"pgq_up{DB}": "0x60"}),
    "PgqMessagesWait": (
        {f"pgq_oldest_ready_seconds{ORDERS}": "700x60", f"pgq_paused{ORDERS}": "0x60"},
        {f"pgq_oldest_ready_seconds{ORDERS}": "700x60", f"pgq_paused{ORDERS}": "1x60"},
    ),
    "PgqPaused": (
        {f"pgq_paused{ORDERS}": "1x60", f"pgq_ready_messages{ORDERS}": "1x60"},
        {f"pgq_paused{ORDERS}": "1x60", f"pgq_ready_messages{ORDERS}": "0x60"},
    ),
    "PgqDeadLetters": (
        {f"pgq_dead_letters_total{ORDERS[:-1]}, reason='timeout'}}": "5x55 6x10"},
        {f"pgq_dead_letters_total{ORDERS[:-1]}, reason='timeout'}}": "5x60"},
    ),
    "PgqDeadLettersUnattended": (
        {f"pgq_oldest_dead_seconds{ORDERS}": "700000x60"},
        {f"pgq_oldest_dead_seconds{ORDERS}": "500000x60"},
    ),
    "PgqFinding": (
        {f"pgq_findings{ORDERS[:-1]}, severity='critical'}}": "1x60"},
        {f"pgq_findings{ORDERS[:-1]}, severity='warning'}}": "1x60"},
    ),
    "PgqFailures": (
        {
            f"pgq_failed_messages_per_second{ORDERS}": "5x60",
            f"pgq_acked_messages_per_second{ORDERS}": "5x60",
        },
        {
            f"pgq_failed_messages_per_second{ORDERS}": "0x60",
            f"pgq_acked_messages_per_second{ORDERS}": "0x60",
        },
    ),
    "PgqLeasesExpire": (
        {f"pgq_lease_expiries_total{ORDERS}": "0+1x60"},
        {f"pgq_lease_expiries_total{ORDERS}": "7x60"},
    ),
    "PgqExpiredLeasesKept": (
        {f"pgq_expired_leases{ORDERS}": "1x60"},
        {f"pgq_expired_leases{ORDERS}": "0x58 1x5"},
    ),
    "PgqLeaseWithoutEnd": (
        {f"pgq_oldest_unending_lease_seconds{ORDERS}": "90000x60"},
        {f"pgq_oldest_unending_lease_seconds{ORDERS}": "3600x60"},
    ),
    "PgqOldSnapshot": (
        {f"pgq_oldest_snapshot_seconds{DB[:-1]}, kind='session'}}": "4000x60"},
        {f"pgq_oldest_snapshot_seconds{DB[:-1]}, kind='session'}}": "60x60"},
    ),
    "PgqOldSlot": (
        {f"pgq_oldest_snapshot_transactions{DB[:-1]}, kind='slot'}}": "6000000x60"},
        {f"pgq_oldest_snapshot_transactions{DB[:-1]}, kind='session'}}": "6000000x60"},
    ),
    "PgqEraOverdue": (
        {f"pgq_era_overdue_seconds{DB[:-1]}, slot='1'}}": "4000x60"},
        {f"pgq_era_overdue_seconds{DB[:-1]}, slot='1'}}": "0x60"},
    ),
    "PgqStagedOrphans": (
        {f"pgq_oldest_staged_seconds{DB}": "20000x60"},
        {f"pgq_oldest_staged_seconds{DB}": "600x60"},
    ),
    "PgqLanesFull": (
        {f"pgq_lanes_full{ORDERS}": "1x90"},
        {f"pgq_lanes_full{ORDERS}": "0x90"},
    ),
    "PgqFilterWasteful": (
        {
            f"pgq_filter_tested_messages_total{ORDERS}": "0+120000x120",
            f"pgq_filter_matched_messages_total{ORDERS}": "0+1x120",
        },
        {
            f"pgq_filter_tested_messages_total{ORDERS}": "0+120000x120",
            f"pgq_filter_matched_messages_total{ORDERS}": "0+60000x120",
        },
    ),
}
MINUTES = {"PgqFilterWasteful": 90, "PgqLanesFull": 80, "PgqPaused": 60}


def test_every_alert_fires_when_it_should_and_only_then(prometheus: Path, tmp_path: Path) -> None:
    assert {rule["alert"] for rule in RULES} == set(CASES)
    tests: list[dict[str, Any]] = []
    for name, (bad, good) in CASES.items():
        at = f"{MINUTES.get(name, 60)}m"
        fires = f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
        for series, samples in ((bad, [{"labels": "{}", "value": 1}]), (good, [])):
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [{"series": s, "values": v} for s, v in series.items()],
                    "promql_expr_test": [{"expr": fires, "eval_time": at, "exp_samples": samples}],
                }
            )
    file = tmp_path / "test.yml"
    content = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert "SUCCESS" in promtool(prometheus, "test", "rules", file)


# What they ask for


def labels_of(metrics: MetricsReader) -> dict[str, set[str]]:
    found = {name: set[str]() for name, _, _ in metrics.names()}
    for metric in metrics.read():
        found[metric.name] |= metric.labels.keys()
    found["pgq_snapshot_holder_seconds"] = {"kind", "name", "role", "application"}
    return found | ADDED_METRICS


def test_every_expression_is_about_metrics_and_labels_that_are_there(
    dsn: str, orders: pgq.PooledClient
) -> None:
    reader = MetricsReader(dsn)
    known = labels_of(reader)
    reader.close()
    used: set[str] = set()
    for expression in EXPRESSIONS:
        names = re.findall(r"\bpgq_\w+", expression)
        assert names, expression
        assert set(names) <= known.keys(), expression
        used |= set(names)
        for name, selected in re.findall(r"\b(pgq_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=", selected)) <= known[name] | ADDED_LABELS, expression
        for grouped in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", expression):
            for name in names:
                assert set(grouped.split(", ")) <= known[name] | ADDED_LABELS, expression
    for panel in PANELS:
        for target in panel["targets"]:
            (name, *_) = re.findall(r"\bpgq_\w+", target["expr"])
            told = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert told <= known[name] | ADDED_LABELS
    for rule in RULES:
        (name, *_) = re.findall(r"\bpgq_\w+", rule["expr"])
        told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert told <= known[name] | ADDED_LABELS
    # Metrics that no panel shows need not exist.
    assert known.keys() - used <= {
        "pgq_info",
        "pgq_in_recovery",
        "pgq_counts_exact",
        "pgq_era",
        "pgq_hidden_snapshots",
        "pgq_unending_leases",
        "pgq_unending_leased_messages",
        "pgq_cancelled_messages_total",
        "pgq_moved_messages_total",
    }


@pytest.fixture
def scraping(dsn: str, orders: pgq.PooledClient, prometheus: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes the test's database and has the rules."""
    exporter = subprocess.Popen(
        [sys.executable, "-m", "pgq", "metrics", "--serve", "--port", "0", "--timeout", "1m"],
        env=os.environ | {"PGQ_DSN": dsn},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert exporter.stderr is not None
    target = urllib.parse.urlsplit(exporter.stderr.readline().strip()).netloc
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    config = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "pgq", "static_configs": [{"targets": [target]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with (tmp_path / "prometheus.log").open("wb") as log:
        server = subprocess.Popen(
            [
                prometheus / "prometheus",
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{address}"
    finally:
        for process in (server, exporter):
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        exporter.stderr.close()


def asked(address: str, path: str, **parameters: str) -> Any:
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"{address}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {error.read().decode()}") from None


def test_prometheus_scrapes_answers_the_dashboard_and_evaluates_the_rules(
    scraping: str, prometheus: Path
) -> None:
    deadline = time.monotonic() + 120
    while True:
        assert time.monotonic() < deadline, "Prometheus has not scraped and evaluated"
        time.sleep(0.5)
        try:
            # Two scrapes make a rate; every rule has been looked at.
            scraped = asked(scraping, "query", query="count_over_time(pgq_up[1m]) >= 2")
            rules = asked(scraping, "rules")["groups"]
        except OSError:
            continue
        known = [rule for group in rules for rule in group["rules"]]
        if scraped["result"] and all(rule["health"] == "ok" for rule in known):
            break
    assert len(known) == len(RULES)
    # There is no holder of an old snapshot, and a filter that has matched nothing has no ratio.
    silent = [query for query in QUERIES if not asked(scraping, "query", query=query)["result"]]
    assert [re.findall(r"pgq_\w+", query)[0] for query in silent] == [
        "pgq_filter_tested_messages_total",
        "pgq_snapshot_holder_seconds",
    ]
    firing = asked(scraping, "query", query='ALERTS{alertname="PgqDown"}')["result"]
    assert firing == []
    (target,) = asked(scraping, "targets")["activeTargets"]
    with urllib.request.urlopen(target["scrapeUrl"], timeout=30) as answer:
        exposed = answer.read().decode()
    promtool(prometheus, "check", "metrics", stdin=exposed)
