"""A standalone cluster: a master and two workers with the wheel, each with its own address."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from harness import java, wheel
from harness.object_storage import CREDENTIALS, ObjectStorage
from harness.spark import build, fill, prepare, server, spark

__all__ = ["cluster", "fill", "server", "session", "spark", "storage"]


@pytest.fixture(scope="session")
def storage() -> Iterator[ObjectStorage]:
    """A server of the S3 protocol."""
    with ObjectStorage() as storage:
        yield storage


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the master."""
    prepare()
    home = Path(pyspark.__file__).parent
    scratch = tmp_path_factory.mktemp("cluster")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    zipfile.ZipFile(wheel.build(scratch)).extractall(scratch / "site")
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "400m",
        "PYTHONPATH": str(scratch / "site"),
    }
    address = f"spark://127.0.0.1:{port}"
    commands = [
        ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        *(
            [
                "worker.Worker",
                "--host",
                f"127.0.0.{number}",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(scratch / str(number)),
                address,
            ]
            for number in (2, 3)
        ),
    ]
    with ExitStack() as stack:
        for name, *arguments in commands:
            log = stack.enter_context((scratch / f"{name}.log").open("a"))
            process = subprocess.Popen(
                [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            time.sleep(3)
        yield address


@pytest.fixture(scope="session")
def session(cluster: str, storage: ObjectStorage) -> Iterator[SparkSession]:
    s3a = java.S3A_SETTINGS | {
        "endpoint": storage.endpoint,
        "path.style.access": "true",
        "access.key": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "secret.key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    settings = {
        "spark.jars": ",".join(map(str, java.s3a_jars())),
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.4",
        "spark.speculation.minTaskRuntime": "500ms",
    }
    session = build(cluster, **settings)
    yield session
    session.stop()
