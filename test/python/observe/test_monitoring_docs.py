"""The services in extension/monitoring.md; its other blocks run with all pages."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from harness import debian, pages
from harness.paths import ROOT

PAGE = ROOT / "extension" / "monitoring.md"


def block(language: str) -> str:
    """Return the page's only block of a language."""
    (found,) = [b[2] for b in pages.blocks(PAGE.read_text(encoding="utf-8")) if b[1] == language]
    return found


def test_the_service_answers(dsn: str) -> None:
    serve(dsn, block("ini"))


def test_prometheus_accepts_the_configuration(tmp_path: Path) -> None:
    check_config(block("yaml"), tmp_path)


def serve(dsn: str, unit: str) -> None:
    """Run the command of a service, and ask it."""
    service = configparser.ConfigParser(strict=False, interpolation=None)
    service.optionxform = str  # type: ignore[assignment,method-assign]
    service.read_string(unit)
    program, *arguments = shlex.split(service["Service"]["ExecStart"])
    assert program.endswith("/pgq")
    where = {
        "database" if name == "dbname" else name: str(value)
        for name, value in conninfo_to_dict(dsn).items()
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pgq", *re.sub(r"\b9188\b", "0", " ".join(arguments)).split()],
        env=os.environ | {f"PG{name.upper()}": value for name, value in where.items()},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        address = process.stderr.readline().strip()
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert "pgq_up 1.0" in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def check_config(config: str, directory: Path) -> None:
    """Let Prometheus read the configuration, beside the rules that it names."""
    promtool = debian.unpack("prometheus", "prometheus") / "usr" / "bin" / "promtool"
    (directory / "alerts.yml").write_bytes((PAGE.parent / "monitoring/alerts.yml").read_bytes())
    (directory / "prometheus.yml").write_text(config, encoding="utf-8")
    done = subprocess.run(
        [promtool, "check", "config", directory / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert yaml.safe_load(config)["scrape_configs"]


@pytest.mark.parametrize("name", ["monitoring/alerts.yml", "monitoring/grafana.json"])
def test_what_the_page_points_to_is_there(name: str) -> None:
    assert f"({name})" in PAGE.read_text(encoding="utf-8")
    assert (PAGE.parent / name).is_file()
