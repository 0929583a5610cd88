"""Long random walks with a focus: publishing, groups, names."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from model.driver import GROUPS, WRITERS
from model.machine import Machine
from model.naming import KEYS
from model.promises import DAY
from model.staging import TOKENS
from model.streaming import CONSUMERS, OWNERS


def walk(machine: Machine, chance: random.Random, steps: int) -> None:
    """Take many steps that mostly publish and consume."""

    def header() -> dict[str, Any]:
        return {"k": chance.randrange(3), "z": chance.choice("ab")}

    def which() -> int:
        return chance.choice([0, 0, 1, 2])

    def some() -> tuple[int, int | None, int | None]:
        """Priority, delay, expiry."""
        return (
            chance.choice([0, 0, 0, 5, -1]),
            chance.choice([None] * 8 + [1, 30]),
            chance.choice([None] * 8 + [5, 60]),
        )

    def begin_or_end() -> None:
        open_now = [i for i, session in enumerate(machine.sessions) if session.open]
        number = chance.choice(open_now) if open_now and chance.random() < 0.7 else which()
        machine.begin_or_end(
            number, chance.random() < 0.2, chance.choice(["commit", "commit", "rollback"])
        )

    def settle() -> None:
        if machine.leases:
            how = chance.choice(["ack"] * 5 + ["nack"] * 3 + ["release", "bury", "extend"])
            part = chance.choice([None, chance.randrange(32)])
            machine.settle(which(), chance.randrange(99), part, how, chance.choice([None, 0, 0, 5]))

    def claim_next() -> None:
        if machine.leases:
            machine.claim_next(which(), chance.randrange(9), None, 3)

    def alter() -> None:
        lanes = chance.choice([None, [], ["k"], ["z"], ["k", "z"], ["#k"], ["#z", "k"], ["auto"]])
        paused = chance.choice([None, None, None, True])
        machine.alter(lanes, chance.choice([None, 1, 3, 6]), paused)

    choices: dict[Callable[[], None], float] = {
        lambda: machine.publish(which(), header(), *some(), chance.choice(GROUPS)): 2,
        lambda: machine.publish_batch(
            which(),
            [header() for _ in range(chance.randrange(1, 8))],
            *some(),
            chance.choices(GROUPS, k=2),
            chance.random() < 0.5,
        ): 2,
        lambda: machine.publish_once(
            which(), chance.choice("ab"), chance.choice([None, None, 3, 30])
        ): 1,
        lambda: machine.claim(which(), None, chance.choice([1, 2, 5, 20])): 2,
        lambda: machine.claim(which(), {"k": 0}, chance.choice([1, 2, 20])): 3,
        lambda: machine.claim(which(), {"k": 1, "z": "b"}, chance.choice([1, 20])): 1,
        settle: 5,
        begin_or_end: 2,
        lambda: machine.dead_letters(
            which(),
            chance.choice([None, {"k": 0}]),
            chance.choice([None, 2]),
            chance.random() < 0.8,
        ): 0.5,
        alter: 0.5,
        lambda: machine.operate(
            which(),
            chance.choice(["cancel", "reschedule", "reschedule", "move", "move_back"]),
            chance.choice([{"k": 0}, {"z": "a"}]),
            chance.choice([None, 1]),
            chance.choice([0, 5]),
        ): 1,
        lambda: machine.publish_elsewhere(which(), [header() for _ in range(3)]): 1,
        lambda: machine.alter_filter(chance.choice([None, {"k": 0}, {"z": "a"}])): 0.5,
        lambda: machine.resubscribe({"k": chance.randrange(3)}): 0.3,
        claim_next: 1,
        machine.maintain: 1,
        lambda: machine.wait(chance.choice([1, 1, 3, 11])): 1,
    }
    for step in chance.choices(list(choices), list(choices.values()), k=steps):
        step()
        machine.sound()


def walk_in_groups(machine: Machine, chance: random.Random, steps: int) -> None:
    """Let few messages of two groups fail, return and wait, with many conflicts."""

    def publish() -> None:
        """Publish, mostly in a transaction that stays open while others consume."""
        delay, expiry = chance.choice([None] * 9 + [1]), chance.choice([None] * 5 + [4])
        which = chance.choice([0, 0, 1])
        if which == 0 and not machine.sessions[0].open:
            machine.begin_or_end(0, False, "commit")
        machine.publish(which, {}, 0, delay, expiry, chance.choice("gh"))

    def end() -> None:
        for which, session in enumerate(machine.sessions):
            if session.open:
                machine.begin_or_end(which, False, chance.choice(["commit", "commit", "rollback"]))

    def consume() -> None:
        which, key = chance.choice([1, 1, 1, 2]), chance.choice(KEYS)
        if chance.random() < 0.5:
            machine.claim(which, None, chance.choice([1, 5]))
        else:
            machine.claim_named(which, key, None, chance.choice([3, 20]), 5, True, True)
        if machine.leases:
            how = chance.choice(["ack", "nack", "bury", "bury"])
            part = chance.choice([None, None, chance.randrange(32)])
            machine.settle(which, 0, part, how, chance.choice([0, 0, 2]))

    def dead_letters() -> None:
        n = chance.choice([None, None, None, 1])
        machine.dead_letters(chance.choice([1, 1, 2]), None, n, chance.random() < 0.9)

    def operate() -> None:
        verb = chance.choice(["cancel_some", "cancel_some", "reschedule", "move", "move_back"])
        machine.operate(
            chance.choice([1, 1, 2]), verb, None, chance.randrange(32), chance.choice([0, 0, 2])
        )

    choices: dict[Callable[[], None], float] = {
        publish: 3,
        end: 3,
        consume: 5,
        dead_letters: 1,
        operate: 1.5,
        lambda: machine.begin_or_end(2, False, "rollback"): 0.2,
        machine.maintain: 0.2,
        lambda: machine.wait(chance.choice([1, 3, 11])): 1,
    }
    for step in chance.choices(list(choices), list(choices.values()), k=steps):
        step()
        machine.sound()


def walk_with_names(machine: Machine, chance: random.Random, steps: int) -> None:
    """Named claims, batches of streams and staged messages, by sessions that end badly."""

    def which() -> int:
        return chance.choice([0, 0, 1, 2])

    def headers() -> list[dict[str, Any]]:
        return [{"k": chance.randrange(3)} for _ in range(chance.randrange(1, 5))]

    def wanted() -> tuple[dict[str, Any] | None, int]:
        return chance.choice([None, None, {"k": 0}]), chance.choice([1, 3, 20])

    def end() -> None:
        for number, session in enumerate(machine.sessions):
            if session.open and chance.random() < 0.1:
                machine.terminate(number)
            elif session.open:
                machine.begin_or_end(number, False, chance.choice(["commit", "rollback"]))

    def settle() -> None:
        how = chance.choice(["ack", "ack", "ack", "nack", "release", "extend", "bury"])
        part = chance.choice([None, chance.randrange(32)])
        key = chance.choice(KEYS)
        machine.settle_named(which(), key, chance.randrange(99), part, how, chance.choice([0, 5]))

    def read() -> None:
        if machine.leases:
            machine.read(which(), chance.randrange(9), chance.choice([1, 2, 3]))

    def stream_claim() -> None:
        # Mostly by whom it belongs to.
        consumer = chance.choice(CONSUMERS)
        stream = machine.aside.get(("stream", consumer, 0)) or [0, None, 0]
        owner = stream[1] if stream[1] and chance.random() < 0.8 else chance.choice(OWNERS)
        ahead, lease = chance.choice([0, 1, 1, 1, 2, 2, 3]), chance.choice([None, None, 30])
        runs = chance.random() < 0.5
        machine.stream_claim(which(), consumer, owner, ahead, *wanted(), lease, runs)
        if chance.random() < 0.2:
            machine.stream_finish(which(), consumer, owner, chance.choice([0, 1, 2]))

    def stream_begin() -> None:
        consumer, owner = chance.choice(CONSUMERS), chance.choice(OWNERS)
        timeout, lease = chance.choice([2, 30]), chance.choice([None, 30])
        machine.stream_begin(which(), consumer, owner, timeout, lease)

    def numbers() -> list[int]:
        return chance.sample(TOKENS, chance.choice([1, 1, 2, 3]))

    choices: dict[Callable[[], None], float] = {
        lambda: machine.publish_batch(
            which(), headers(), chance.choice([0, 0, 5]), None, None,
            [chance.choice([None, "g", "h"])], False,
        ): 2,
        lambda: machine.claim_named(
            which(),
            chance.choice(KEYS),
            *wanted(),
            chance.choice([None, 5, 30]),
            chance.random() < 0.4,
            chance.random() < 0.5,
        ): 5,
        settle: 2,
        read: 2,
        stream_begin: 1,
        stream_claim: 3,
        lambda: machine.stream_end(which(), chance.choice(CONSUMERS), chance.choice(OWNERS)): 0.3,
        lambda: machine.stage(
            which(), chance.choice(TOKENS), headers(), chance.choice(GROUPS),
            chance.choice([0, 0, 0, DAY - 5]),
        ): 3,
        lambda: machine.publish_staged(
            which(),
            numbers(),
            chance.choice([None, 0, 0, 1]),
            chance.choice([None, *WRITERS]),
            chance.choice([0, 1, 1, -1]),
        ): 3,
        lambda: machine.discard_staged(which(), numbers()): 0.3,
        lambda: machine.begin_or_end(which(), chance.random() < 0.4, "commit"): 3,
        end: 1.5,
        machine.maintain: 0.5,
        lambda: machine.wait(chance.choice([1, 3, 11])): 1,
    }  # fmt: skip
    for step in chance.choices(list(choices), list(choices.values()), k=steps):
        step()
        machine.sound()
