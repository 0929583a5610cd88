"""Every Python block of python/SPARK.md is run, in order, and its output is compared."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from harness.paths import ROOT
from harness.spark import Fill

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_runs_and_prints_the_expected_output(
    session: SparkSession, db: psycopg.Connection, dsn: str, fill: Fill, tmp_path: Path
) -> None:
    db.execute("select pgq.create_queue('orders', backoff => '1 hour', max_backoff => '1 hour')")
    fill("archive", 0)
    blocks = BLOCK.findall((ROOT / "python" / "SPARK.md").read_text(encoding="utf-8"))
    assert len(blocks) > 8
    world: dict[str, Any] = {"spark": session, "dsn": dsn, "place": str(tmp_path)}
    for (language, text), (following, output) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, "SPARK.md", "exec"), world)
            expected = output if following == "text" else ""
            assert printed.getvalue().splitlines() == expected.splitlines(), text
