"""The page's DAG in Airflow itself, with its triggerer and its database: `make test-airflow`."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from harness.paths import ROOT
from harness.wheel import build

pytest.importorskip("airflow", reason="make test-airflow installs it")
pytestmark = pytest.mark.unpooled("the triggerer has connections of its own")

[PAGE] = re.findall(
    r"^```py\n(.*?)^```", (ROOT / "python" / "AIRFLOW.md").read_text(), re.MULTILINE | re.DOTALL
)
# A test that waits for longer has failed, however slow the machine is.
TIMEOUT = 300.0
SETTINGS = {
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    # How soon a triggerer gets the triggers of a dead one.
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "3",
}


class Installed:
    """Airflow with its own directory and SQLite database."""

    def __init__(self, home: Path) -> None:
        self.home = home
        # Airflow finds the provider by the metadata of the package.
        zipfile.ZipFile(build(home / "dist")).extractall(home / "site")
        (home / "dags").mkdir()
        (home / "dags" / "load.py").write_text(PAGE)
        self.environment = os.environ | {
            "AIRFLOW_HOME": str(home),
            "PYTHONPATH": str(home / "site"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        }
        self.environment |= {f"AIRFLOW__{name}": value for name, value in SETTINGS.items()}

    def run(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout

    def query(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.home / "airflow.db")) as conn:
            return conn.execute(statement).fetchall()

    @contextmanager
    def triggerer(self) -> Iterator[subprocess.Popen[bytes]]:
        """A triggerer, killed with -9 at the end."""
        with (self.home / "triggerer.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"],
                env=self.environment, cwd=self.home, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def installed(tmp_path: Path, db: psycopg.Connection) -> Installed:
    """Airflow with the page's DAG, for the queue `files` of the test's database."""
    db.execute("select pgq.create_queue('files', lane_keys => '{asset}', backoff => '0')")
    made = Installed(tmp_path)
    info = db.info
    secret = f":{quote(info.password)}" if info.password else ""
    place = f"{info.user}{secret}@{quote(info.host, safe='')}:{info.port}/{info.dbname}"
    made.run("db", "migrate")
    made.run("connections", "add", "shop", "--conn-uri", f"postgresql://{place}")
    made.run("dags", "reserialize")
    return made


def publish(db: psycopg.Connection, asset: str, *rows: int) -> None:
    db.execute(
        "select pgq.publish('files', jsonb_build_object('rows', i),"
        " jsonb_build_object('asset', %s::text)) from unnest(%s::int[]) i",
        [asset, list(rows)],
    )


def left(db: psycopg.Connection) -> Any:
    """The messages that are not done, with their state."""
    return db.execute(
        "select string_agg(concat_ws(' ', m.headers->>'asset', m.payload->'rows', s.state), ', '"
        " order by m.id) from pgq.message_state s join pgq.message m on m.id = s.id"
    ).fetchall()[0][0]


def eventually(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_messages_become_events_of_assets_and_start_dags(
    installed: Installed, db: psycopg.Connection
) -> None:
    publish(db, "orders", 1, 0, 2)
    publish(db, "prices", 3)
    with installed.triggerer():
        eventually(lambda: left(db) == "orders 0 ready, prices 3 ready")
    # They were acknowledged, so their event is recorded, though the triggerer was killed at once.
    [(asset, extra)] = installed.query(
        "select a.name, e.extra from asset_event e join asset a on a.id = e.asset_id"
    )
    messages = json.loads(extra)["payload"]["messages"]
    assert (asset, [m["payload"] for m in messages]) == ("orders", [{"rows": 1}, {"rows": 2}])
    assert installed.query("select target_dag_id from asset_dag_run_queue") == [("load_orders",)]


def test_every_message_is_recorded_though_the_triggerer_is_killed(
    installed: Installed, db: psycopg.Connection
) -> None:
    # As if a triggerer had crashed after it claimed messages and before it recorded the event.
    publish(db, "orders", *range(1, 6))
    with installed.triggerer() as process:
        eventually(lambda: db.execute("select from pgq.lease").fetchone() is not None)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    # Do not wait for the lease: release the messages of the crashed triggerer.
    db.execute("select pgq.release(lease_id) from pgq.lease")
    publish(db, "orders", 6)
    with installed.triggerer():
        eventually(lambda: left(db) is None)
    recorded = {
        message["payload"]["rows"]
        for (extra,) in installed.query("select extra from asset_event")
        for message in json.loads(extra)["payload"]["messages"]
    }
    assert recorded == {1, 2, 3, 4, 5, 6}
