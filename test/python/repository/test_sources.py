"""Rules for the SQL sources that the catalog cannot show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.paths import ROOT

FUNCTION = re.compile(
    r"^create or replace (function|procedure) (pgq\.\"?\w+\"?).*?^(?:as \$\$|begin atomic|return )",
    re.MULTILINE | re.DOTALL,
)
# Chapter 99 closes all functions to PUBLIC at once.
SOURCES = [path for path in sorted((ROOT / "sql").glob("[2-9]*/*.sql")) if "99_" not in str(path)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_source_file_is_whole(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("-- "), "a file begins with its contract"
    created = re.findall(r"^create or replace (?:function|procedure|view) ", text, re.MULTILINE)
    assert created, "a file makes something"
    heads = list(FUNCTION.finditer(text))
    for head in heads:
        if head[1] == "function":
            volatility = re.findall(r"\b(?:volatile|stable|immutable)\b", head[0])
            assert len(volatility) == 1, f"{head[2]} states its volatility"
        assert f"comment on {head[1]} {head[2]}(" in text, f"{head[2]} is described here"
    for view in re.findall(r"^create or replace view (pgq\.\w+)", text, re.MULTILINE):
        assert f"comment on view {view} is" in text
        assert f"revoke all on table {view} from public" in text
