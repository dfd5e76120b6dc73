"""The behaviour of a value for a program: the outcome of an expression, in terms that both modules share."""

import ast
import copy
import datetime as dt
import importlib
import json
import os
import re
import typing
from pathlib import Path

HERE = Path(__file__).parent

# Modules of classes: eclipse-zenoh names `builtins` for most of its own.
MODULES = re.compile(r"\b(builtins|zwire\.errors|zwire\.zenoh|zenoh)\.(handlers\.|ext\.|shm\.)?(?=[A-Z])")
ADDRESS = re.compile(r" at 0x[0-9a-f]+|Py\(0x[0-9a-f]+\)")
NODE = re.compile(r"\b[0-9a-f]{24,32}\b")


def plain(text):
    """The text without parts that differ from run to run, and without names of modules."""
    return NODE.sub("ID", ADDRESS.sub("", MODULES.sub("", text)))


def names(zenoh, path):
    """The names available to expressions."""
    return {
        **{name: value for name, value in vars(zenoh).items() if isinstance(value, type)},
        "zenoh": zenoh,
        "handlers": zenoh.handlers,
        "ext": importlib.import_module(f"{zenoh.__name__}.ext"),
        "FILE": path,
        "copy": copy,
        "datetime": dt,
        "json": json,
        "os": os,
        "pathlib": importlib.import_module("pathlib"),
        "typing": typing,
    }


class Raised:
    """An exception; compared by its class or base classes."""

    def __init__(self, error, zenoh):
        self.name = "ZError" if isinstance(error, zenoh.ZError) else type(error).__name__
        self.classes = {cls.__name__ for cls in type(error).__mro__} | {self.name}
        self.message = str(error)

    def __str__(self):
        return f"raises {self.name}"


class Seen:
    """A value: its type, its `repr` and its `str`."""

    def __init__(self, value):
        self.type, self.repr, self.str = type(value).__name__, plain(repr(value)), plain(str(value))

    def __str__(self):
        return self.repr


def attempt(zenoh, run):
    """The outcome of a function: the peer raises panics that are no `Exception`."""
    try:
        return Seen(run())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Raised(error, zenoh)


def outcome(code, zenoh, path):
    """The outcome of the last expression of some statements."""
    tree = ast.parse(code)
    scope = names(zenoh, path)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else ast.parse("None").body[0]

    def run():
        exec(compile(tree, code, "exec"), scope)
        return eval(compile(ast.Expression(last.value), code, "eval"), scope)

    return attempt(zenoh, run)


def same(theirs, ours):
    """Whether a program sees a difference."""
    if isinstance(theirs, Raised) or isinstance(ours, Raised):
        return isinstance(theirs, Raised) and isinstance(ours, Raised) and theirs.name in ours.classes
    return (theirs.type, theirs.repr, theirs.str) == (ours.type, ours.repr, ours.str)


def topics():
    """The expressions of `values.txt` by topic."""
    found = {}
    for line in (HERE / "values.txt").read_text().splitlines():
        if line.startswith("# "):
            found[line[2:]] = lines = []
        elif line:
            lines.append(line)
    return found
