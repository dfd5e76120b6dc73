"""The stub of the compiled module is what `make stub` writes, and the generator rejects wrong inputs."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "stub.py"

spec = importlib.util.spec_from_file_location("stub", SCRIPT)
stub = importlib.util.module_from_spec(spec)
sys.modules["stub"] = stub
spec.loader.exec_module(stub)

SHARED = '''
class Arguments:
    key: Key | str
    """The key."""
    limit: int | None = None
    """Most items."""

class Raises:
    Closed: Exception
    """The session is closed."""
'''
USED = "def f(key, *, limit) -> None:\n    '''Do.\n\n    Args:\n\n    Raises: Closed\n    '''\n"


def formatted(text):
    return stub.formatted(textwrap.dedent(text)).lstrip("\n")


@pytest.fixture
def generated(tmp_path):
    """Function that returns the stub of a text, without its first line and `__all__`."""

    def generate(text, shared=""):
        (tmp_path / "_a.pyi.in").write_text(shared)
        (tmp_path / "b.pyi.in").write_text(textwrap.dedent(text))
        head, _, rest = stub.generated(tmp_path).partition("]\n")
        assert head.startswith(f"{stub.FIRST_LINE}\n__all__ = [\n")
        return rest.lstrip("\n")

    return generate


def test_the_stub_is_what_its_inputs_make():
    assert stub.OUTPUT.read_text() == stub.generated(), "run `make stub`, and commit what it writes"


def test_variables_are_properties_and_classes_are_final(generated):
    assert generated('''
        class A:
            """A class."""
            # A comment.
            constants(X, Y)
            name: str | None
            """The name."""
            size: int
            __hash__: ClassVar[None]  # type: ignore[assignment]
        @disjoint_base
        class B(A): ...
    ''') == formatted('''
        @final
        class A:
            """A class."""

            X: ClassVar[A]
            Y: ClassVar[A]
            @property
            def name(self) -> str | None:
                """The name."""

            @property
            def size(self) -> int: ...
            __hash__: ClassVar[None]  # type: ignore[assignment]

        @disjoint_base
        class B(A): ...
    ''')


def test_templates_take_expressions_and_texts(generated):
    assert generated('''
        @template
        def receives(Item, noun, nouns="{noun}s"):
            last: Item
            """The last of the {nouns}, for {others}."""
            def recv(self: Class[Item]) -> Item:
                """Wait for a {noun}."""
            def __iter__(self) -> Iterator[Item]: ...
        @template
        def both(Item, noun="query"):
            receives(list[Item], noun, nouns="queries")
        class A:
            receives(int, "number")
            def recv(self) -> bool: ...
        class B:
            both(str)
    ''') == formatted('''
        @final
        class A:
            @property
            def last(self) -> int:
                """The last of the numbers, for {others}."""

            def __iter__(self) -> Iterator[int]: ...
            def recv(self) -> bool: ...

        @final
        class B:
            @property
            def last(self) -> list[str]:
                """The last of the queries, for {others}."""

            def recv(self: B[list[str]]) -> list[str]:
                """Wait for a query."""

            def __iter__(self) -> Iterator[list[str]]: ...
    ''')


def test_parameters_and_errors_have_type_default_and_text_from_the_tables(generated):
    made = generated(
        '''
        class A:
            def find(self, key, start: int = 0, limit=2, /, *args: int, end: bool) -> None:
                """Find items.

                Args:
                    start: The first of them.
                    end: Found very-very-very-very-very-very-very-very
                        very-very-very-very-very-very-very-very-very-very
                        late.

                Returns:
                    Nothing,
                    at all.

                Raises: Closed
                    KeyError: None.

                The end.
                """
        ''',
        SHARED,
    )
    assert made == formatted('''
        @final
        class A:
            def find(
                self, key: Key | str, start: int = 0, limit: int | None = 2, /, *args: int, end: bool
            ) -> None:
                """Find items.

                Args:
                    key: The key.
                    start: The first of them.
                    limit: Most items.
                    end: Found very-very-very-very-very-very-very-very
                        very-very-very-very-very-very-very-very-very-very late.

                Returns:
                    Nothing, at all.

                Raises:
                    Closed: The session is closed.
                    KeyError: None.

                The end.
                """
    ''')


def test_handlers_make_three_overloads(generated):
    assert generated('''
        def listen(key: str, handler: Handlers[Item], *, wait: bool = False) -> Listener[Handler[Item]]:
            """Listen."""
        class A(Generic[_H]):
            def get(self, handler: Handlers[Item]) -> Handler[Item]: ...
    ''') == formatted('''
        @overload
        def listen(
            key: str, handler: _RustHandler[Item] | None = None, *, wait: bool = False
        ) -> Listener[Handler[Item]]:
            """Listen."""

        @overload
        def listen(key: str, handler: _PythonHandler[Item, _H], *, wait: bool = False) -> Listener[_H]: ...
        @overload
        def listen(key: str, handler: _PythonCallback[Item], *, wait: bool = False) -> Listener[None]: ...
        @final
        class A(Generic[_H]):
            @overload
            def get(self, handler: _RustHandler[Item] | None = None) -> Handler[Item]: ...
            @overload
            def get(self, handler: _PythonHandler[Item, _T]) -> _T: ...
            @overload
            def get(self, handler: _PythonCallback[Item]) -> None: ...
    ''')


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def g(other) -> None: ...", "b.pyi.in:1: other has no type here or in class Arguments"),
        ("def g(a: int) -> None:\n    '''D.\n\n    Args:\n    '''", "b.pyi.in:1: a has no text in Args"),
        ("def g() -> None:\n    '''D.\n\n    Args:\n        a: A.\n    '''", "Args describes a, which is no"),
        ("def g() -> None:\n    '''D.\n\n    Raises: Open\n    '''", "class Raises has no text for Open"),
        ("def g() -> None:\n    '''D.\n\n    Raises:\n      A: B.\n    '''", "entry of another form: A: B."),
        ("class A:\n    closes()", "b.pyi.in:2: no template closes"),
        ("@template\ndef t(a): ...\nclass A:\n    t()", "b.pyi.in:4: template t needs a"),
        ("@template\ndef t(a): ...\nclass A:\n    t(1, b=2)", "b.pyi.in:4: template t has the parameters a"),
        ("@template\ndef t(a): ...\n", "no class uses t"),
        ("class Arguments:\n    other: int", "no class uses other"),
        ("def g(:", "invalid syntax"),
    ],
)
def test_wrong_inputs_are_named(generated, text, error):
    with pytest.raises((stub.StubError, SyntaxError)) as raised:
        generated(text, SHARED + USED)
    assert error in str(raised.value)


def test_a_folder_without_inputs_is_an_error(tmp_path):
    with pytest.raises(stub.StubError, match=r"no \*\.pyi\.in in"):
        stub.generated(tmp_path)
