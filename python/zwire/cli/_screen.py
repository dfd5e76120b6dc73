"""The screen of ``zwire top``, by textual."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from zwire._text import printable
from zwire.cli import _board
from zwire.cli.top import cells, summary
from zwire.errors import SessionClosed

if TYPE_CHECKING:
    from collections.abc import Callable

_ROWS = 500
"""Rows that a table has: further ones are found by typing."""

_WIDTH = 60
"""Characters of a cell."""


class Top(App[None]):
    """Tables of a board, with a text that filters and sorts them."""

    CSS = """
    #summary { height: 1; background: $primary; color: $text; }
    #filter { height: 3; }
    TabbedContent, DataTable { height: 1fr; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "show('keys')", "Keys", priority=True),
        Binding("f2", "show('publishers')", "Publishers", priority=True),
        Binding("f3", "show('links')", "Links", priority=True),
        Binding("f4", "show('drops')", "Drops", priority=True),
        Binding("escape", "clear", "Clear", priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("down", "scroll(1)", show=False, priority=True),
        Binding("up", "scroll(-1)", show=False, priority=True),
        Binding("pagedown", "scroll(20)", show=False, priority=True),
        Binding("pageup", "scroll(-20)", show=False, priority=True),
    ]

    def __init__(self, board: _board.Board, *, interval: float, text: str = "", view: str = "keys") -> None:
        super().__init__()
        self.board = board
        self.interval = interval
        self.text = text
        self.view = view
        self.look: dict[str, Any] | None = None
        self._over = threading.Event()
        # Two threads: a node that answers late must not make samples look late.
        self._threads = [
            threading.Thread(target=self._until_over, args=(work,), name="zwire-top", daemon=True)
            for work in (self._count_once, self._ask_once)
        ]

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Static("waiting for the first look", id="summary", markup=False)
        yield Input(self.text, placeholder="type to filter; >rate sorts by a column", id="filter")
        with TabbedContent(initial=self.view):
            for view in _board.VIEWS:
                with TabPane(view, id=view):
                    yield DataTable(id=f"table-{view}", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin."""
        for view, columns in _board.VIEWS.items():
            self._table(view).add_columns(*(column.name for column in columns))
            self._table(view).can_focus = False
        self.query_one("#filter", Input).focus()
        for thread in self._threads:
            thread.start()
        self.set_interval(self.interval, self._look_again)

    def on_unmount(self) -> None:
        """End the threads."""
        self._over.set()
        for thread in self._threads:
            thread.join(2.0)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter and sort at once."""
        self.text = event.value
        self._draw()

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Draw the table that is shown now."""
        self.view = event.pane.id or self.view
        self._draw()

    def action_show(self, view: str) -> None:
        """Change to another table."""
        self.query_one(TabbedContent).active = view

    def action_interrupt(self) -> None:
        """End with the exit code of Ctrl-C."""
        self.exit(return_code=130)

    def action_clear(self) -> None:
        """Clear the text."""
        self.query_one("#filter", Input).value = ""

    def action_scroll(self, rows: int) -> None:
        """Move the cursor of the table: the text keeps the focus."""
        table = self._table(self.view)
        table.move_cursor(row=max(0, min(table.row_count - 1, table.cursor_row + rows)))

    def _table(self, view: str) -> DataTable[Text]:
        return self.query_one(f"#table-{view}", DataTable)

    def _until_over(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(SessionClosed):
            while not self._over.is_set():
                work()

    def _count_once(self) -> None:
        self.board.count(min(0.5, self.interval))

    def _ask_once(self) -> None:
        self.board.ask(1.0)
        self._over.wait(self.interval)

    def _look_again(self) -> None:
        self.look = self.board.snapshot()
        self.query_one("#summary", Static).update(printable(summary(self.look)))
        self._draw()

    def _draw(self) -> None:
        if self.look is None:
            return
        table = self._table(self.view)
        row = table.cursor_row
        table.clear()
        for each in _board.chosen(self.look[self.view], self.text, self.view)[:_ROWS]:
            # As a `Text`, so that brackets in keys of other nodes are no markup.
            table.add_row(*(Text(printable(cell)[:_WIDTH]) for cell in cells(each, self.view)))
        if table.row_count:
            table.move_cursor(row=min(row, table.row_count - 1))
