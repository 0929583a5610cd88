"""Every public function and class describes its parameters and has an example."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import pgq


def public() -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes, and the methods of clients."""
    for name in pgq.__all__:
        found = getattr(pgq, name)
        if inspect.isfunction(found) or (
            inspect.isclass(found) and not issubclass(found, BaseException)
        ):
            yield name, found
    for client in (pgq.PooledClient, pgq.AsyncPooledClient):
        for name, method in inspect.getmembers(client, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{client.__name__}.{name}", method


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(PUBLIC[name]) or ""), name


@pytest.mark.parametrize("name", [n for n, found in PUBLIC.items() if inspect.isfunction(found)])
def test_a_docstring_names_the_parameters_of_a_function(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    parameters = set(inspect.signature(PUBLIC[name]).parameters) - {"self"}
    missing = {one for one in parameters if f":param {one}:" not in text and f"`{one}`" not in text}
    assert not missing, f"{name}: {missing}"


def test_there_is_something_to_test() -> None:
    assert len(PUBLIC) > 150
