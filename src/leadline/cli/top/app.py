"""The screen of `leadline top`: head, jobs, incidents, hosts, details of the chosen row. Asks the API."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static
from textual.worker import Worker, WorkerState

from leadline.cli.diagnosis.words import tell
from leadline.cli.output import console
from leadline.cli.top import rows as top_rows
from leadline.cli.top.rows import COLUMNS, HOSTS, INCIDENTS, JOBS, MARKS, SPANS, TABLES, Row
from leadline.model.errors import LeadlineError

Get = Callable[..., dict[str, Any]]
STYLES: Mapping[str, str] = {"good": "", "watch": "yellow", "bad": "bold red", "unknown": "dim", "suppressed": "dim"}
EMPTY: Mapping[str, str] = {
    JOBS: "no job reported a step in this time span; how one does: 'Instrument a PyTorch job' in the docs",
    INCIDENTS: "none in this span",
    HOSTS: "no data from any host yet: leadline agent --server ADDRESS",
}


class Top(App[None]):
    """Jobs, incidents and hosts, as the API tells them."""

    TITLE = "leadline top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; padding: 0 1; }
    .title { height: 1; padding: 0 1; color: $text-muted; text-style: bold; }
    DataTable { height: auto; max-height: 30%; min-height: 2; }
    #detail { height: 1fr; min-height: 4; padding: 0 1; border-top: solid $panel; }
    #match { display: none; height: 3; }
    #match.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("j", "show('jobs')", "jobs"),
        Binding("i", "show('incidents')", "incidents"),
        Binding("h", "show('hosts')", "hosts"),
        Binding("enter", "open", "open", priority=True),
        Binding("o", "order", "sort"),
        Binding("s", "span", "span"),
        Binding("slash", "match", "find", key_display="/"),
        Binding("escape", "all", "all", show=False),
        Binding("p", "pause", "pause"),
        Binding("r", "again", "now"),
    ]

    def __init__(self, get: Get, span: str = "1h", every_s: float = 2.0, cluster: str = "") -> None:
        """`get(path, **params)` asks the API; errors of it are shown, and the next round asks again."""
        super().__init__()
        self._get, self._every_s, self._cluster = get, every_s, cluster
        self.span, self.match, self.paused = span, "", False
        self._orders: dict[str, int] = dict.fromkeys(TABLES, 0)  # 0: by urgency, as it comes; else by that column
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._rows: dict[str, dict[str, Row]] = {table: {} for table in TABLES}
        self._problem = ""

    def compose(self) -> ComposeResult:
        """Head, three tables, details, the box to find in, keys."""
        yield Static("asking", id="head")
        for name in TABLES:
            yield Static(name, classes="title", id=f"{name}-title")
            table: DataTable[Text] = DataTable(id=name, cursor_type="row", zebra_stripes=False)
            for column in ("", *COLUMNS[name]):
                table.add_column(column, key=column or "state")
            yield table
        with VerticalScroll(id="detail"):
            yield Static("", id="told")
        yield Input(placeholder="part of a name; empty shows all", id="match")
        yield Footer()

    def on_mount(self) -> None:
        """Ask now, then every so often."""
        self.query_one(f"#{JOBS}", DataTable).focus()
        self.ask()
        self.set_interval(self._every_s, self._tick)

    def _tick(self) -> None:
        if not self.paused:
            self.ask()

    def ask(self) -> None:
        """Ask for everything once, beside the screen; one round at a time."""
        if not any(each.name == "ask" and each.is_running for each in self.workers):
            self.run_worker(self._ask, name="ask", thread=True, exit_on_error=False)

    def _ask(self) -> dict[str, Mapping[str, Any]]:
        since = {"from": f"-{self.span}", "cluster": self._cluster}
        return {
            "now": self._get("/api/v1/now", **since),
            JOBS: self._get("/api/v1/jobs", **since),
            HOSTS: self._get("/api/v1/fleet", cluster=self._cluster),
        }

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A round is over: show what it brought, or what is wrong."""
        if event.worker.name == "open" and event.state is WorkerState.SUCCESS:
            self.push_screen(Opened(_as_text(event.worker.result or {}, self.size.width - 4)))
        if event.worker.name == "open" and event.state is WorkerState.ERROR:
            self.push_screen(Opened(Text(str(event.worker.error))))
        if event.worker.name != "ask":
            return
        if event.state is WorkerState.SUCCESS:
            self._answers, self._problem = event.worker.result or {}, ""
            self.draw()
        elif event.state is WorkerState.ERROR:
            error = event.worker.error
            known = isinstance(error, LeadlineError)
            self._problem = str(error) if known else f"{type(error).__name__}: {error}"
            self.draw()

    def draw(self) -> None:
        """Show the newest answers; the picture before stays where there is none."""
        self._head()
        if not self._answers:
            return
        found = {
            JOBS: top_rows.jobs(self._answers[JOBS], self.match),
            INCIDENTS: top_rows.incidents(self._answers["now"], self.match),
            HOSTS: top_rows.hosts(self._answers[HOSTS], self.match),
        }
        for name, rows in found.items():
            self._fill(name, top_rows.ordered(rows, self._orders[name]))
        self._tell()

    def _head(self) -> None:
        words = Text()
        if self._answers:
            state, line = top_rows.head(self._answers["now"])
            words.append(f"{MARKS[state]} ", style=STYLES[state])
            words.append(line)
        words.append(f"\nlast {self.span}{', paused' if self.paused else ''}", style="dim")
        if self.match:
            words.append(f"   only what has {self.match!r}: escape shows all", style="dim")
        if self._problem:
            words.append(f"\n■ {self._problem}", style=STYLES["bad"])
        self.query_one("#head", Static).update(words)

    def _fill(self, name: str, rows: list[Row]) -> None:
        """Cells are changed in place where the rows are the same ones, so that the cursor stays."""
        table: DataTable[Text] = self.query_one(f"#{name}", DataTable)
        order = self._orders[name]
        by = f", by {COLUMNS[name][order - 1]}" if order else ""
        nothing = EMPTY[name] if not self.match else "none has that name"
        title = f"{name}  {len(rows)}{by}" if rows else f"{name}: {nothing}"
        self.query_one(f"#{name}-title", Static).update(title)
        before, after = list(self._rows[name]), {row.key: row for row in rows}
        chosen = before[table.cursor_row] if 0 <= table.cursor_row < len(before) else ""
        self._rows[name] = after
        if before == list(after):
            for at, row in enumerate(rows):
                for column, cell in enumerate(_cells(row)):
                    table.update_cell_at((at, column), cell, update_width=True)  # type: ignore[arg-type]
            return
        table.clear()
        for row in rows:
            table.add_row(*_cells(row), key=row.key)
        if chosen in after:
            table.move_cursor(row=list(after).index(chosen))

    def on_data_table_row_highlighted(self, _: DataTable.RowHighlighted) -> None:
        """Another row is chosen."""
        self._tell()

    def _chosen(self) -> tuple[str, Row | None]:
        """The table that has the focus, and its chosen row."""
        name = self.focused.id if isinstance(self.focused, DataTable) and self.focused.id else ""
        rows = list(self._rows.get(name, {}).values())
        at = self.query_one(f"#{name}", DataTable).cursor_row if rows else -1
        return name, rows[at] if 0 <= at < len(rows) else None

    def _tell(self) -> None:
        """Details of the chosen row."""
        _, row = self._chosen()
        self.query_one("#told", Static).update(Text("\n".join(row.details if row else ())))

    def on_descendant_focus(self) -> None:
        """The focus moved to another table."""
        self._tell()

    def action_show(self, name: str) -> None:
        """Focus a table."""
        self.query_one(f"#{name}", DataTable).focus()

    def action_order(self) -> None:
        """Sort the table with the focus by its next column; after the last by urgency again."""
        name, _ = self._chosen()
        if name:
            self._orders[name] = (self._orders[name] + 1) % (len(COLUMNS[name]) + 1)
            self.draw()

    def action_open(self) -> None:
        """All about the chosen row on a screen of its own; in the box to find in, back to the tables."""
        if isinstance(self.focused, Input):
            self.on_input_submitted(None)
            return
        name, row = self._chosen()
        if row is None:
            return
        if name == HOSTS:
            self.push_screen(Opened(Text("\n".join(row.details))))
        else:
            self.run_worker(lambda: self._get("/api/v1/diagnosis", job=row.name, cluster=self._cluster), name="open",
                            thread=True, exclusive=True, exit_on_error=False)  # fmt: skip

    def action_span(self) -> None:
        """The next longer span; after the longest the shortest."""
        at = SPANS.index(self.span) if self.span in SPANS else -1
        self.span = SPANS[(at + 1) % len(SPANS)]
        self._head()
        self.ask()

    def action_pause(self) -> None:
        """Ask no more, or again."""
        self.paused = not self.paused
        self._head()

    def action_again(self) -> None:
        """Ask now."""
        self.ask()

    def action_match(self) -> None:
        """Find by a part of a name."""
        box = self.query_one("#match", Input)
        box.add_class("shown")
        box.focus()

    def action_all(self) -> None:
        """Show all again."""
        self.match = ""
        box = self.query_one("#match", Input)
        box.value = ""
        box.remove_class("shown")
        self.action_show(JOBS)
        self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Each letter narrows."""
        self.match = event.value.strip()
        self.draw()

    def on_input_submitted(self, _: Input.Submitted | None) -> None:
        """Back to the tables, narrowed."""
        self.query_one("#match", Input).remove_class("shown")
        self.action_show(next((name for name in TABLES if self._rows[name]), JOBS))


class Opened(ModalScreen[None]):
    """All that is said of one row; closed by escape."""

    CSS = "Opened { background: $background; } #opened { padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "back"),
        Binding("enter", "dismiss", "back", show=False, priority=True),
        Binding("q", "dismiss", "back", show=False, priority=True),
    ]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text, which scrolls, and the keys."""
        with VerticalScroll(id="opened"):
            yield Static(self._text, id="text")
        yield Footer()


def _as_text(found: Mapping[str, Any], width: int) -> Text:
    """What `leadline diagnose` prints."""
    written = io.StringIO()
    tell(console(into=written, width=width), found)
    return Text.from_ansi(written.getvalue())


def _cells(row: Row) -> list[Text]:
    """The row in the colour of its state: all of a bad one, the mark of others."""
    style = STYLES.get(row.state, "")
    whole = style if row.state in ("bad", "unknown", "suppressed") else ""
    return [Text(MARKS.get(row.state, "?"), style=style), *(Text(cell, style=whole) for cell in row.cells)]
