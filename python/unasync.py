"""Write the modules for threads from those for asyncio.

python python/unasync.py             write them
python python/unasync.py --check     name those that are not what their originals say
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "pgq"
CONFIG = PACKAGE.parents[1] / "pyproject.toml"

HEADER = "# Written by unasync.py from {original}: change that one.\n\n"
NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "AsyncIterator": "Iterator",
    "Awaitable": "",
    "_aio": "_threads",
    "asynccontextmanager": "contextmanager",
    "put_nowait": "put",
}


def originals() -> list[Path]:
    """Return the modules that have a twin."""
    return sorted(PACKAGE.glob("*_async.py"))


def twin(original: Path) -> Path:
    """Return the path of the module for threads."""
    return original.with_name(original.name.replace("_async.py", ".py"))


def written(original: Path) -> str:
    """Return what the module for threads has to be."""
    text = original.read_text(encoding="utf-8")
    text = re.sub(r"\basync (def|with|for)\b", r"\1", text)
    text = re.sub(r"\bawait\s+", "", text)
    text = re.sub(r"\bAwaitable\[(\w+)\]", r"\1", text)
    text = re.sub(r"\bAwaitable, ", "", text)
    for word, other in NAMES.items():
        if other:
            text = re.sub(rf"\b{word}\b", other, text)
    text = re.sub(r"\b(\w+)_async\b", r"\1", text)
    text = re.sub(r"\bAsync([A-Z]\w+)", r"\1", text)
    text = text.replace("for asyncio", "for threads")
    name = str(twin(original))
    for command in (["check", "--select", "I", "--fix"], ["format"]):
        text = subprocess.run(
            [
                *(sys.executable, "-m", "ruff", *command, "-q", "--config", str(CONFIG)),
                *("--stdin-filename", name, "-"),
            ],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return HEADER.format(original=original.name) + text


def stale() -> list[str]:
    """Return the names of the modules that are not what their originals say."""
    return [
        twin(original).name
        for original in originals()
        if not twin(original).exists()
        or twin(original).read_text(encoding="utf-8") != written(original)
    ]


def main() -> int:
    if "--check" in sys.argv[1:]:
        found = stale()
        for name in found:
            print(f"{name} is stale: run python python/unasync.py", file=sys.stderr)
        return 1 if found else 0
    for original in originals():
        twin(original).write_text(written(original), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
