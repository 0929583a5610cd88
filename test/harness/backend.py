"""The server of the Python tests: a DSN, Docker or embedded, in this order.

A backend asked for by name in PGQ_TEST_BACKEND fails when it is missing; it is never skipped.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from harness.paths import ROOT
from harness.server import RunningServer, Server, embedded_server


class MissingBackend(RuntimeError):
    """The backend cannot be used here; the message says why."""


def choose() -> AbstractContextManager[Server]:
    """Return the server to test on; it runs while the context lasts."""
    name = os.environ.get("PGQ_TEST_BACKEND", "")
    dsn = os.environ.get("PGQ_TEST_DSN", "")
    if name not in ("", "dsn", "docker", "embedded"):
        raise MissingBackend(f"PGQ_TEST_BACKEND={name}: it may be dsn, docker or embedded")
    if name == "dsn" and not dsn:
        raise MissingBackend("PGQ_TEST_BACKEND=dsn needs PGQ_TEST_DSN")
    if dsn and name in ("", "dsn"):
        return nullcontext(RunningServer(dsn))
    if name == "docker" or (name == "" and not _why_no_docker()):
        return _container()
    return embedded_server()


def _image() -> str:
    return os.environ.get("PGQ_TEST_IMAGE", "postgres:18")


def _why_no_docker() -> str:
    """Return why Docker cannot be used, or nothing if it can."""
    try:
        import docker
        import testcontainers.community.postgres  # noqa: F401
    except ImportError as error:
        return f"testcontainers is not installed: {error}"
    with warnings.catch_warnings():
        # The library forgets to close the socket of an engine that does not answer.
        warnings.simplefilter("ignore", ResourceWarning)
        why = _why_no_image(docker)
        gc.collect()
    return why


def _why_no_image(docker: Any) -> str:
    try:
        with contextlib.closing(docker.from_env()) as engine:
            engine.images.get(_image())
    except (docker.errors.DockerException, OSError) as error:
        return f"no Docker engine with the image {_image()}: {error}"
    return ""


@contextmanager
def _container() -> Iterator[Server]:
    """Run PostgreSQL in Docker with the extension's files in it."""
    if why := _why_no_docker():
        raise MissingBackend(why)
    from testcontainers.community.postgres import PostgresContainer

    with PostgresContainer(_image(), driver=None) as postgres:
        _put_extension(postgres.get_wrapped_container())
        yield RunningServer(postgres.get_connection_url())


def _put_extension(container: Any) -> None:
    """Copy the extension's files to where the container's server looks for them."""
    code, share = container.exec_run(["pg_config", "--sharedir"])
    if code != 0:
        return  # the plain script does without files
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(ROOT / "extension", arcname="extension")
    container.put_archive(share.decode().strip(), archive.getvalue())
