"""The distribution: a wheel that carries the extension and works in an empty environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import psycopg
import pytest

from harness.paths import ROOT
from harness.server import Server
from harness.wheel import build
from pgq import __version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_carries_the_extension(wheel: Path) -> None:
    assert wheel.name.startswith(f"pgq_client-{__version__}-")
    names = set(zipfile.ZipFile(wheel).namelist())
    for file in ("pgq.control", f"pgq--{__version__}.sql", "pgq_pgmq.control"):
        assert f"pgq/extension/{file}" in names
    assert "pgq/py.typed" in names
    assert {"pgq/dashboard/static/index.html", "pgq/dashboard/static/page.js"} <= names
    points = zipfile.ZipFile(wheel).read(f"pgq_client-{__version__}.dist-info/entry_points.txt")
    assert "pgq = pgq.cli:main" in points.decode()


def test_the_package_without_extras_has_few_dependencies(wheel: Path) -> None:
    text = zipfile.ZipFile(wheel).read(f"pgq_client-{__version__}.dist-info/METADATA").decode()
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, re.MULTILINE)
    assert sorted(needed) == ["psycopg", "psycopg-pool", "tenacity"]
    extras = set(re.findall(r"^Provides-Extra: (\w+)$", text, re.MULTILINE))
    assert {"airflow", "binary", "breaker", "celery", "cli", "spark"} <= extras


def test_the_wheel_finds_the_extension_it_carries(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
        "import pgq._shared.extension_files as files;"
        "print(files.extension_parent(), files.extension_version())"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(tmp_path / "pgq"), __version__]


@pytest.mark.parametrize("source", ["checkout", "wheel"])
def test_pip_installs_the_package(
    source: str, tmp_path: Path, server: Server, request: pytest.FixtureRequest
) -> None:
    place = ROOT / "python" if source == "checkout" else request.getfixturevalue("wheel")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", f"{place}[binary]"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    dsn = server.create_database(f"pgq_pip_{os.getpid()}")
    try:
        done = subprocess.run(
            [tmp_path / "venv" / "bin" / "pgq", "install", "--plain", "--json", "--dsn", dsn],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["action"] == "created"
    finally:
        server.drop_database(f"pgq_pip_{os.getpid()}")


def test_the_wheel_in_an_empty_environment_installs_pgq_into_a_server(
    wheel: Path, tmp_path: Path, server: Server
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(site)
    # What pip would fetch is here already; of pgq itself nothing is.
    needed = ("psycopg", "psycopg_binary", "psycopg_pool", "tenacity")
    for name in (*needed, "typing_extensions.py"):
        (site / name).symlink_to(Path(psycopg.__file__).parents[1] / name)
    for libraries in Path(psycopg.__file__).parents[1].glob("psycopg_binary.libs"):
        (site / libraries.name).symlink_to(libraries)
    dsn = server.create_database(f"pgq_wheel_{os.getpid()}")
    try:
        done = subprocess.run(
            [python, "-I", "-m", "pgq", "install", "--plain", "--json", "--dsn", dsn],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["action"] == "created"
        program = (
            "import sys, pgq\n"
            "with pgq.connect(sys.argv[1]) as client:\n"
            "    client.create_queue('orders')\n"
            "    client.publish('orders', 1)\n"
            "    print(client.breaker.state, [m.payload for m in client.claim('orders')])\n"
            "try:\n"
            "    pgq.CircuitBreaker()\n"
            "except ModuleNotFoundError as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run(
            [python, "-I", "-c", program, dsn], capture_output=True, text=True, check=False
        )
        assert done.stdout.split("\n")[0] == "closed [1]", done.stderr
        assert "pgq-client[breaker]" in done.stdout
        done = subprocess.run(
            [python, "-I", "-m", "pgq", "stats", "--dsn", dsn],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.splitlines()[2].startswith("orders "), done.stderr
    finally:
        server.drop_database(f"pgq_wheel_{os.getpid()}")
