"""``pgq completion``: scripts that let a shell complete commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pgq.cli._command import Commands, Options, Parser
from pgq.cli._output import Output

__all__ = ["add"]

# $found is the command typed so far: the words that are commands, without options and arguments.
_BASH = """\
_pgq() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD - 1]}}"
    local found="pgq" words="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$found ${{COMP_WORDS[i]}}" in
            {paths}) found="$found ${{COMP_WORDS[i]}}" ;;
        esac
    done
    case "$found $before" in
{values}
    *) case "$found" in
{words}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _pgq pgq
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "completion",
        completion,
        "print a script that completes commands and options in a shell",
        """
        pgq completion bash > ~/.local/share/bash-completion/completions/pgq
        pgq completion zsh >> ~/.zshrc
        pgq completion fish > ~/.config/fish/completions/pgq.fish
        """,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(root=commands.parser)


def completion(options: Options, out: Output) -> None:
    """Print the script."""
    every = dict(_every(options.root))
    if options.shell == "fish":
        print("\n".join(_fish(every)))
    else:
        print((_ZSH if options.shell == "zsh" else "") + _bash(every), end="")


def _every(parser: Parser) -> Iterator[tuple[str, Parser]]:
    """Return all parsers by their paths, such as pgq dlq list."""
    yield parser.prog, parser
    for inner in (parser.commands or {}).values():
        yield from _every(inner)


def _arguments(parser: Parser) -> Iterator[argparse.Action]:
    """Return the options and arguments; argparse has no public way to list them."""
    inner = argparse._SubParsersAction  # noqa: SLF001
    return (a for a in parser._actions if not isinstance(a, inner))  # noqa: SLF001


def _bash(every: dict[str, Parser]) -> str:
    words, values = [], []
    for path, parser in every.items():
        mine = list(parser.commands or ())
        for action in _arguments(parser):
            choices = [str(choice) for choice in action.choices or ()]
            mine += action.option_strings or choices
            for option in action.option_strings if choices else ():
                values.append(f'    "{path} {option}") words="{" ".join(choices)}" ;;')
        words.append(f'        "{path}") words="{" ".join(mine)}" ;;')
    paths = " | ".join(f'"{path}"' for path in every if " " in path)
    return _BASH.format(paths=paths, values="\n".join(values), words="\n".join(words))


def _fish(every: dict[str, Parser]) -> Iterator[str]:
    for path, parser in every.items():
        seen = [f"__fish_seen_subcommand_from {word}" for word in path.split()[1:]]
        here = "; and ".join(seen)
        commands = parser.commands or {}
        if commands:
            inner = f"not __fish_seen_subcommand_from {' '.join(commands)}"
            here = "; and ".join([*seen, inner])
        for name, command in commands.items():
            text = (command.description or "").rstrip(".")
            yield f"complete -c pgq -f -n {_quoted(here)} -a {name} -d {_quoted(text)}"
        for action in _arguments(parser):
            choices = " ".join(str(choice) for choice in action.choices or ())
            line = f"complete -c pgq -n {_quoted(here)}"
            for option in action.option_strings:
                line += f" -l {option[2:]}" if option.startswith("--") else f" -s {option[1:]}"
            if choices:
                line += f" -x -a {_quoted(choices)}"
            if action.option_strings or choices:
                yield f"{line} -d {_quoted(action.help or '')}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
