"""The blocks of DJANGO.md as a project: its migration, its tasks, its worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from harness.paths import ROOT
from harness.server import Server

pytestmark = pytest.mark.unpooled("Django has connections of its own")

PAGE = (ROOT / "python" / "DJANGO.md").read_text(encoding="utf-8")
SETTINGS, TASKS, ENQUEUE, RESULTS = re.findall(
    r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
)
[SHOWN] = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
WORK = ["-m", "django", "pgqworker"]
# A test that waits for longer has failed, however slow the machine is.
TIMEOUT = 300


def appears(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} does not appear"
        time.sleep(0.02)


class Project:
    """A Django project with its own directory and database."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        (directory / "settings.py").write_text(SETTINGS)
        (directory / "shop").mkdir()
        (directory / "shop" / "__init__.py").touch()
        tasks = TASKS + (
            "\n\n@task\ndef note(path, seconds):\n    import time\n\n"
            "    open(path + '.begun', 'a').write('x')\n"
            "    time.sleep(seconds)\n    open(path, 'a').write('x')\n"
        )
        if sys.version_info < (3, 12):  # which Django 6 needs
            tasks = tasks.replace("django.tasks", "django_tasks")
        (directory / "shop" / "tasks.py").write_text(tasks)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, errors
        return output


@pytest.fixture
def project(server: Server, tmp_path: Path) -> Project:
    pytest.importorskip("django.tasks" if sys.version_info >= (3, 12) else "django_tasks")
    name = f"pgq_django_{os.getpid()}"
    server.drop_database(name)
    server.create_database(name)
    environment = server.environment(name) | {
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": f"{tmp_path}:{ROOT / 'python' / 'src'}",
    }
    made = Project(tmp_path, environment)
    made.run("-m", "django", "migrate", "-v0")
    assert "No changes" in made.run("-m", "django", "makemigrations", "--check", "pgq")
    return made


SETUP = "import django\ndjango.setup()\n"


def test_the_page_says_what_happens(project: Project) -> None:
    code = f"""{SETUP}{ENQUEUE}
from django.core.management import call_command
import time
call_command("pgqworker", drain=True)
while True:  # a retry waits for its backoff
    flaky.refresh()
    if flaky.is_finished:
        break
    time.sleep(0.1)
    call_command("pgqworker", queue=["mail"], drain=True)
{RESULTS}"""
    assert project.run("-c", code) == SHOWN


def test_a_task_runs_though_its_worker_is_killed(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "done"
    project.run("-c", f"{SETUP}from shop.tasks import note\nnote.enqueue({str(path)!r}, 1.0)")
    worker = project.start(*WORK)
    begun = tmp_path / "done.begun"
    appears(begun)
    worker.kill()
    worker.communicate()
    assert not path.exists()
    # Do not wait for the lease: release the messages of the crashed worker.
    with psycopg.connect(dbname(project), autocommit=True) as conn:
        conn.execute("select pgq.release(lease_id) from pgq.lease")
    worker = project.start(*WORK)
    appears(path)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=TIMEOUT)
    assert worker.returncode == 0
    assert begun.read_text() == "xx"


def test_what_is_enqueued_is_part_of_the_transaction(project: Project) -> None:
    code = f"""{SETUP}
import psycopg
from django.db import transaction
from shop.tasks import add
other = psycopg.connect("", autocommit=True)
def waiting():
    return other.execute("select coalesce(sum(size), 0) from pgq.ready").fetchone()[0]
try:
    with transaction.atomic():
        add.enqueue(1, 1)
        raise ValueError
except ValueError:
    print(waiting())
with transaction.atomic():
    add.enqueue(1, 2)
    print(waiting())
print(waiting())
"""
    assert project.run("-c", code).split() == ["0", "0", "1"]


def test_failures_and_wrong_tasks_are_reported(project: Project) -> None:
    code = f"""{SETUP}
from django.core.management import call_command
from django.db import connection
from shop.tasks import add
result = add.enqueue(1, "x")
for _ in range(3):
    call_command("pgqworker", queue=["default"], drain=True)
    with connection.cursor() as cursor:
        cursor.execute("update pgq.scheduled set due_at = now()")
result.refresh()
print(result.status, result.attempts, [e.exception_class.__name__ for e in result.errors])
for wrong in (lambda: add.using(queue_name="elsewhere"), lambda: add.get_result("missing")):
    try:
        wrong()
    except Exception as error:
        print(type(error).__name__.removesuffix("Error"))
"""
    assert project.run("-c", code).split("\n") == [
        "FAILED 3 ['TypeError', 'TypeError', 'TypeError']",
        "InvalidTask",
        "TaskResultDoesNotExist",
        "",
    ]


def dbname(project: Project) -> str:
    words = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGDATABASE": "dbname"}
    words["PGPASSWORD"] = "password"
    settings = project.environment
    return make_conninfo(
        "", **{ours: settings[name] for name, ours in words.items() if name in settings}
    )


def test_priorities_and_times_are_those_of_the_message(project: Project) -> None:
    code = f"""{SETUP}
import datetime
import psycopg
from shop.tasks import add
later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
add.enqueue(1, 2)
add.using(priority=7).enqueue(1, 2)
add.using(run_after=later).enqueue(1, 2)
with psycopg.connect("", autocommit=True) as other:
    print(other.execute(
        "select m.priority, s.state from pgq.message m join pgq.message_state s using (id)"
        " order by m.id").fetchall())
"""
    output = project.run("-c", code)
    assert output == "[(0, 'ready'), (7, 'ready'), (0, 'delayed')]\n"
