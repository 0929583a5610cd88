"""Write pgq/_sync, the modules for threads, from pgq/_async, those for asyncio.

python python/unasync.py             write them
python python/unasync.py --check     name those that are stale, or have no original
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
    "asynccontextmanager": "contextmanager",
    "put_nowait": "put",
    # Modules of pgq
    "_async": "_sync",
    "aio": "threads",
}


def originals() -> list[Path]:
    """Return the modules for asyncio."""
    return sorted((PACKAGE / "_async").glob("*.py"))


def twin(original: Path) -> Path:
    """Return the path of the module for threads."""
    return PACKAGE / "_sync" / original.name


def written(original: Path) -> str:
    """Return what the module for threads has to be."""
    text = original.read_text(encoding="utf-8")
    text = re.sub(r"\basync (def|with|for)\b", r"\1", text)
    text = re.sub(r"\bawait\s+", "", text)
    text = re.sub(r"\bAwaitable\[(\w+)\]", r"\1", text)
    text = re.sub(r"\bAwaitable, ", "", text)
    for word, other in NAMES.items():
        text = re.sub(rf"\b{word}\b", other, text)
    text = re.sub(r"\b(\w+)_async\b", r"\1", text)
    text = re.sub(r"\bAsync([A-Z]\w+)", r"\1", text)
    text = text.replace("for asyncio", "for threads")
    name = str(twin(original))
    for command in (["check", "--select", "I,RUF022", "--fix"], ["format"]):
        text = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "-q",
                "--config",
                str(CONFIG),
                "--stdin-filename",
                name,
                "-",
            ],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return HEADER.format(original=f"_async/{original.name}") + text


def stale() -> list[str]:
    """Return the names of the modules for threads that are not what their originals say."""
    wanted = {twin(original).name: original for original in originals()}
    found = {path.name: path for path in (PACKAGE / "_sync").glob("*.py")}
    return sorted(
        name
        for name in wanted.keys() | found.keys()
        if name not in wanted
        or name not in found
        or found[name].read_text(encoding="utf-8") != written(wanted[name])
    )


def main() -> int:
    if "--check" in sys.argv[1:]:
        found = stale()
        for name in found:
            print(f"_sync/{name} is stale: run python python/unasync.py", file=sys.stderr)
        return 1 if found else 0
    (PACKAGE / "_sync").mkdir(exist_ok=True)
    for name in stale():
        original = PACKAGE / "_async" / name
        if original.exists():
            twin(original).write_text(written(original), encoding="utf-8")
        else:
            (PACKAGE / "_sync" / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
