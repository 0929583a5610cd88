"""Random operations on three connections keep the promises that model/ states."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from conftest import Connect
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from model.limits import walk_with_limits
from model.machine import Machine
from model.walks import walk, walk_in_groups, walk_with_names

pytestmark = pytest.mark.unpooled("its sessions have settings of their own")

EXAMPLES = int(os.environ.get("PGQ_EXAMPLES", "15"))
STEPS = int(os.environ.get("PGQ_STEPS", "40"))
WALKS = int(os.environ.get("PGQ_WALKS", "5"))


def test_random_operations_keep_the_promises(connect: Connect) -> None:
    machine = type("Random", (Machine,), {})
    machine.prepare(connect)  # type: ignore[attr-defined]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def walker(connect: Connect, take: Callable[[Machine, random.Random, int], None]) -> int:
    """Run random walks; return how many filters have stored a scan cursor."""
    walker = type("Walker", (Machine,), {})
    walker.prepare(connect)  # type: ignore[attr-defined]
    remembered = 0
    first = int(os.environ.get("PGQ_SEED", "0"))
    for seed in range(first, first + WALKS):
        print(f"PGQ_SEED={seed}")  # shown by pytest when the walk fails
        chance = random.Random(seed)
        machine = walker()
        machine.begin(
            chance.choice([[], [], ["k"]]),
            chance.randrange(1, 5),
            chance.choice(["dead_letter", "discard"]),
            chance.choice(["release", "block"]),
            fair=chance.choice([False, False, True]),
            dedup=chance.choice(["keep", "replace", "postpone"]),
        )
        take(machine, chance, 200)
        remembered += machine.observer.execute("select from pgq.filter_scan").rowcount
        machine.teardown()
    return remembered


def test_long_walks_in_groups_keep_the_promises(connect: Connect) -> None:
    walker(connect, walk_in_groups)


def test_long_walks_with_names_keep_the_promises(connect: Connect) -> None:
    walker(connect, walk_with_names)


def test_long_walks_keep_the_promises(connect: Connect) -> None:
    remembered = walker(connect, walk)
    assert remembered or WALKS < 5, "no filter has remembered anything"


def test_limits_and_schedules_keep_their_promises(connect: Connect) -> None:
    first = int(os.environ.get("PGQ_SEED", "0"))
    walk_with_limits(connect, range(first, first + WALKS), 150)
