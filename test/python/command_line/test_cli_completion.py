"""What shells complete."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pgq import cli
from pgq.cli import completion


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["pgq", "unsu"], ["unsubscribe"]),
        (["pgq", "dlq", ""], ["list", "show", "replay", "discard", "-h", "--help"]),
        (["pgq", "dlq", "list", "--by"], ["--by-cause"]),
        (["pgq", "--json", "purge", "orders", "--dry"], ["--dry-run"]),
        (["pgq", "create", "orders", "--on-dead", ""], ["release", "block"]),
        (["pgq", "grant", "orders", "shop", "c"], ["consume"]),
        (["pgq", "purge", "--no-such"], []),
    ],
)
def test_bash_completes(
    typed: list[str], completed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = " ".join(f"'{word}'" for word in typed)
    asked = f'COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _pgq; echo "${{COMPREPLY[*]}}"'
    done = subprocess.run(
        ["bash", "-c", script("bash", capsys) + asked],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == completed
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_sound(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n"], input=script(shell, capsys), text=True, check=True)


def test_every_command_and_option_is_completed(capsys: pytest.CaptureFixture[str]) -> None:
    bash, fish = script("bash", capsys), script("fish", capsys)
    every = dict(completion._every(cli.parser()))
    assert {"pgq", "pgq peek", "pgq dlq list"} <= set(every)
    for path, parser in every.items():
        (line,) = [line for line in bash.splitlines() if line.startswith(f'        "{path}") ')]
        offered = line.split('words="')[1].split('"')[0].split()
        for option in parser._option_string_actions:
            assert option in offered
            dashless = option.lstrip("-")
            assert f" -l {dashless} " in fish or f" -s {dashless} " in fish
    for name in every["pgq"].commands or {}:
        assert f" -a {name} -d " in fish
