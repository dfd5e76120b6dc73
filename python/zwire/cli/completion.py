"""Prints a script by which a shell completes commands, options, and values of options with a choice.

The script is made from the commands themselves, so print it again after an update.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from zwire.cli import COMMANDS, _options, _parser

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  source <(zwire completion bash)
      for this shell; in ~/.bashrc for each
  zwire completion zsh > ~/.zfunc/_zwire
      with ~/.zfunc in fpath
  zwire completion fish > ~/.config/fish/completions/zwire.fish
"""

_FILES = {"FILE", "DIR", "FILE.pcap", "OUT", "SOURCE", "PATH"}
"""Names of values that are paths."""


class Option(NamedTuple):
    """An option of a command."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...]
    is_file: bool
    takes_value: bool


class Command(NamedTuple):
    """A command, or a subcommand: its words, options, and words that it accepts behind."""

    words: tuple[str, ...]
    summary: str
    options: tuple[Option, ...]
    values: tuple[str, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", choices=list(_SHELLS), metavar="SHELL", help=", ".join(_SHELLS))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    _options.show(*_SHELLS[args.shell](commands()))
    return 0


def commands() -> list[Command]:
    """Return every command with its options."""
    found = []
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"zwire.cli.{name}")
        known = getattr(module, "SUBCOMMANDS", None)
        if known is None:
            found.append(_command((name,), summary))
            continue
        found.append(Command((name,), summary, (), tuple(known)))
        found += [_command((name, each), text) for each, text in known.items()]
    return found


def _command(words: tuple[str, ...], summary: str) -> Command:
    parser = _parser.made(words)
    options: list[Option] = []
    values: list[str] = []
    for action in parser.actions():
        choices = tuple(str(choice) for choice in action.choices or ())
        if not action.option_strings:
            values += choices
            continue
        names = tuple(action.option_strings)
        text = (action.help or "").replace("%%", "%").partition(";")[0]
        is_file = action.metavar in _FILES
        options.append(Option(names, text, choices, is_file, action.nargs != 0))
    return Command(words, summary, tuple(options), tuple(values))


def _bash(known: list[Command]) -> list[str]:
    first = [command for command in known if len(command.words) == 1]
    groups = " ".join(command.words[0] for command in first if not command.options)
    lines = [
        "# Completion of zwire for bash, made by `zwire completion bash`.",
        "_zwire() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
        "    local path=${COMP_WORDS[1]} words=",
        "    COMPREPLY=()",
        "    if ((COMP_CWORD == 1)); then",
        f"        words={_quoted(' '.join(command.words[0] for command in first) + ' --help --version')}",
        "    else",
        f'        if [[ {_quoted(f" {groups} ")} == *" $path "* ]] && ((COMP_CWORD > 2)); then',
        '            path="$path ${COMP_WORDS[2]}"',
        "        fi",
        '        case "$path $before" in',
    ]
    for command in known:
        path = " ".join(command.words)
        for option in command.options:
            cases = "|".join(_quoted(f"{path} {name}") for name in option.names)
            if option.is_file:
                lines.append(f'            {cases}) COMPREPLY=($(compgen -f -- "$current")); return;;')
            elif option.values:
                values = _quoted(" ".join(option.values))
                lines.append(
                    f'            {cases}) COMPREPLY=($(compgen -W {values} -- "$current")); return;;'
                )
    lines += ["        esac", '        case "$path" in']
    for command in known:
        words = [name for option in command.options for name in option.names]
        words += command.values
        lines.append(f"            {_quoted(' '.join(command.words))}) words={_quoted(' '.join(words))};;")
    return [
        *lines,
        "        esac",
        "    fi",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o default -F _zwire zwire",
    ]


def _zsh(known: list[Command]) -> list[str]:
    first = [command for command in known if len(command.words) == 1]
    groups = " ".join(command.words[0] for command in first if not command.options)
    lines = [
        "#compdef zwire",
        "# Completion of zwire for zsh, made by `zwire completion zsh`.",
        "_zwire() {",
        "    local -a found",
        "    local path_=$words[2] before=$words[CURRENT-1]",
        "    if ((CURRENT == 2)); then",
        "        found=(",
        *(f"            {_described(command.words[0], command.summary)}" for command in first),
        "        )",
        "        _describe command found",
        "        return",
        "    fi",
        f'    if [[ {_quoted(f" {groups} ")} == *" $path_ "* ]] && ((CURRENT > 3)); then',
        '        path_="$path_ $words[3]"',
        "    fi",
        '    case "$path_ $before" in',
    ]
    for command in known:
        path = " ".join(command.words)
        for option in command.options:
            cases = "|".join(_quoted(f"{path} {name}") for name in option.names)
            if option.is_file:
                lines.append(f"        ({cases}) _files; return;;")
            elif option.values:
                lines.append(
                    f"        ({cases}) compadd -- {' '.join(map(_quoted, option.values))}; return;;"
                )
    lines += ["    esac", '    case "$path_" in']
    summaries = {command.words: command.summary for command in known}
    for command in known:
        described = [_described(name, option.help) for option in command.options for name in option.names]
        described += [
            _described(value, summaries.get((*command.words, value), "")) for value in command.values
        ]
        lines.append(f"        ({_quoted(' '.join(command.words))}) found=({' '.join(described)});;")
    return [
        *lines,
        "    esac",
        "    _describe -o option found",
        "    _files",
        "}",
        'if [ "$funcstack[1]" = "_zwire" ]; then _zwire "$@"; else compdef _zwire zwire; fi',
    ]


def _fish(known: list[Command]) -> list[str]:
    lines = ["# Completion of zwire for fish, made by `zwire completion fish`."]
    for command in known:
        if len(command.words) == 1:
            where = "__fish_use_subcommand"
        else:
            names = " ".join(
                other.words[1]
                for other in known
                if len(other.words) > 1 and other.words[0] == command.words[0]
            )
            where = (
                f"__fish_seen_subcommand_from {command.words[0]}; and not __fish_seen_subcommand_from {names}"
            )
        lines.append(
            f"complete -c zwire -f -n {_quoted(where)} -a {_quoted(command.words[-1])}"
            f" -d {_quoted(command.summary)}"
        )
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.words)
        for option in command.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
            )
            takes = f" -x -a {_quoted(' '.join(option.values))}" if option.values else ""
            takes = takes or (" -r -F" if option.is_file else " -x" if option.takes_value else "")
            lines.append(f"complete -c zwire -n {_quoted(seen)} {names}{takes} -d {_quoted(option.help)}")
        if command.values and command.options:
            values = _quoted(" ".join(command.values))
            lines.append(f"complete -c zwire -f -n {_quoted(seen)} -a {values}")
    return lines


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def _quoted(text: str) -> str:
    # The shells quote a single quote in different ways; no word of a command has one, and texts do without.
    return "'" + text.replace("'", "") + "'"


def _described(word: str, text: str) -> str:
    return _quoted(
        f"{word}:{text}".replace("\\", "\\\\") if not text or ":" not in text else f"{word}:{text}"
    )
