"""Every block of extension/monitoring.md is run, in order, and prints what it says."""

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
from test_python_readme import shell
from test_readme import BLOCK, run

from harness import debian
from harness.paths import ROOT
from harness.server import embedded_server
from pgq import embedded

PAGE = ROOT / "extension" / "monitoring.md"


def test_every_block_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    printed, told, corrected, end = "", [], [], 0
    with embedded_server() as server:
        for block in BLOCK.finditer(text):
            language, content = block.groups()
            match language:
                case "text":
                    corrected += [text[end : block.start(2)], printed]
                    end = block.end(2)
                    told.append((content, printed))
                case "sh":
                    printed = shell(server, content, tmp_path)
                case "ini":
                    serve(server, content)
                case "yaml":
                    check_config(content, tmp_path)
                case _:
                    printed = run(server, language, content)
    if os.environ.get("PGQ_TEST_ACCEPT"):
        PAGE.write_text("".join([*corrected, text[end:]]), encoding="utf-8")
        return
    assert told
    for said, was in told:
        assert said == was


def serve(server: embedded.Server, unit: str) -> None:
    """Run the command of a service, and ask it."""
    service = configparser.ConfigParser(strict=False, interpolation=None)
    service.optionxform = str  # type: ignore[assignment,method-assign]
    service.read_string(unit)
    program, *arguments = shlex.split(service["Service"]["ExecStart"])
    assert program.endswith("/pgq")
    process = subprocess.Popen(
        [sys.executable, "-m", "pgq", *re.sub(r"\b9188\b", "0", " ".join(arguments)).split()],
        env=server.environment(),
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
