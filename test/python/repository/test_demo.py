"""The demonstration runs to its end."""

from __future__ import annotations

import pytest

from pgq import demo


def test_the_demo_shows_one_message_from_publish_to_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert demo.main() == 0
    told = capsys.readouterr().out
    for step in ("publish", "claim", "ack", "nack", "dead_letter", "replay"):
        assert f"pgq.{step}" in told
    assert "bank still not reachable" in told
