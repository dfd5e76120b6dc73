"""Reading of a command line: options and words in any order, and one line about each mistake."""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
from typing import TYPE_CHECKING, Any, NoReturn

from zwire.cli import COMMANDS, _log, _options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

_OPTION = re.compile(r"argument (?P<names>\S+): (?P<problem>.*)", re.DOTALL)
_MISSING = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """A parser that takes words on both sides of options, and no abbreviated options."""

    def __init__(self, name: str, summary: str, text: str | None, epilog: str, **more: Any) -> None:  # noqa: ANN401
        super().__init__(
            prog=name,
            description=f"{summary[0].upper()}{summary[1:]}.\n\n{text or ''}".rstrip(),
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=30, width=100
            ),
            **more,
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Read the arguments; exit with code 2 at a mistake."""
        args, left = self.parse_known_intermixed_args(arguments)
        for word in left:
            # A value behind `=` may be a secret, as other words may be.
            option = word.partition("=")[0]
            if option.startswith("-") and option != "--":
                self.error(f"no option {option}{nearest(option, self._option_string_actions)}")
        if left:
            words = " ".join(str(action.metavar or action.dest.upper()) for action in self._words())
            takes = f"takes {words}" if words else "takes options only"
            many = "1 argument" if len(left) == 1 else f"{len(left)} arguments"
            self.error(f"{many} too many: it {takes}; a value with spaces needs quotes")
        return args

    def actions(self) -> list[argparse.Action]:
        """Return the arguments and options in the order in which they were added."""
        return list(self._actions)

    def _words(self) -> list[argparse.Action]:
        return [action for action in self._actions if not action.option_strings]

    def error(self, message: str) -> NoReturn:
        """Report a mistake in one line, and exit."""
        if found := _OPTION.fullmatch(message):
            # The long name of an option; a word needs none, because it is in the message.
            name = found["names"].rpartition("/")[2]
            problem = found["problem"].replace("expected one argument", "a value is missing")
            message = f"{name}: {problem}" if name.startswith("-") else problem
        elif message.startswith(_MISSING):
            message = f"{message.removeprefix(_MISSING).upper()} is missing; {self.prog} --help has examples"
        raise SystemExit(_options.refuse(self.prog.removeprefix("zwire").strip(), message, 2))

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - of any type
        # An empty list: no words where any number of them may stand.
        if action.choices is not None and value not in action.choices and value != []:
            known = [str(choice) for choice in action.choices]
            listed = f"{known[0]} to {known[-1]}" if isinstance(action.choices, range) else ", ".join(known)
            problem = f"expected one of {listed}, not {value!r}{nearest(str(value), known)}"
            raise argparse.ArgumentError(action, problem)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a question with the known word that is most like a wrong one, or an empty text."""
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def overview(commands: Mapping[str, str]) -> str:
    """Return the lines of a help text that list commands with their purposes."""
    width = max(map(len, commands)) + 2
    return "\n".join(f"    {name:{width}}{summary}" for name, summary in commands.items())


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command line; ``command`` is the name of the command, ``run`` its function."""
    word, *rest = arguments
    if word not in COMMANDS:
        _unknown("", word, COMMANDS)
    name, summary = word, COMMANDS[word]
    group = module = importlib.import_module(f"zwire.cli.{word}")
    if known := getattr(module, "SUBCOMMANDS", None):
        if not rest or rest[0] in {"-h", "--help"}:
            _options.show(*_group_help(word, module.__doc__ or "", known, module.EPILOG).split("\n"))
            raise SystemExit(0)
        word, *rest = rest
        if word not in known:
            _unknown(name, word, known)
        module = importlib.import_module(f"zwire.cli.{name}_{word}")
        name, summary = f"{name} {word}", known[word]
    parser = _made(name, summary, module, group)
    return argparse.Namespace(**vars(parser.parse(rest)), command=name, run=module.run)


def made(words: Sequence[str]) -> Parser:
    """Return the parser of a command, or of a command and its subcommand."""
    group = importlib.import_module(f"zwire.cli.{words[0]}")
    module = importlib.import_module(f"zwire.cli.{'_'.join(words)}")
    known = COMMANDS if len(words) == 1 else group.SUBCOMMANDS
    return _made(" ".join(words), known[words[-1]], module, group)


def _made(name: str, summary: str, module: ModuleType, group: ModuleType) -> Parser:
    parser = Parser(f"zwire {name}", summary, module.__doc__, module.EPILOG)
    module.configure(parser)
    if module is not group:
        group.configure(parser)
    _log.add_log(parser)
    return parser


def _unknown(group: str, word: str, known: Mapping[str, str]) -> NoReturn:
    """Refuse a word that is no command; only its name is loaded."""
    option = word.partition("=")[0]
    if option.startswith("-"):
        what = f"no option {option} before a command"
        hint = nearest(option, ["--help", *([] if group else ["--version"])])
    else:
        what, hint = f"no command {word!r}", nearest(word, known)
    hint = hint or f"; there are {', '.join(known)}"
    raise SystemExit(_options.refuse(group, f"{what}{hint}", 2))


def _group_help(name: str, text: str, known: Mapping[str, str], epilog: str) -> str:
    listed = overview(known)
    return (
        f"usage: zwire {name} SUBCOMMAND ...\n\n{text.strip()}\n\nsubcommands:\n{listed}\n\n"
        f"{epilog}\nzwire {name} SUBCOMMAND --help explains one."
    )
