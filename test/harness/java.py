"""What Spark needs besides Python: a Java runtime, and the JDBC driver of PostgreSQL."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from harness import debian


def home() -> str:
    """Return JAVA_HOME: the machine's own Java, or one unpacked into the cache."""
    if found := os.environ.get("JAVA_HOME"):
        return found
    if found := shutil.which("java"):
        return str(Path(found).resolve().parents[1])
    tree = debian.unpack("java", "openjdk-17-jre-headless")
    runtime = next(tree.glob("usr/lib/jvm/java-17-openjdk-*"))
    # Its settings are links to /etc, which is inside the tree here.
    for link in runtime.rglob("*"):
        if link.is_symlink() and not link.exists():
            target = tree / os.readlink(link).lstrip("/")
            if target.exists():
                link.unlink()
                link.symlink_to(target)
    return str(runtime)


def jdbc_driver() -> Path:
    """Return the jar of PostgreSQL's JDBC driver."""
    return debian.unpack("jdbc", "libpostgresql-jdbc-java") / "usr/share/java/postgresql.jar"
