"""Tables, colours and headings, drawn by rich: aligned and coloured on a terminal; plain, unwrapped and
without trailing blanks anywhere else. NO_COLOR, FORCE_COLOR and TERM=dumb are respected.
"""

import io
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lakehouse.reporting.text.values import safe

Part = Text | Table | Padding
Cell = Text | str
# No line of a file is so wide: rich would wrap it.
UNWRAPPED = 100_000
STATES = {
    "exact": "green",
    "ok": "green",
    "incomplete": "yellow",
    "warn": "yellow",
    "behind": "bold red",
    "fail": "bold red",
    "open": "yellow",
    "retired": "dim",
    "closed": "dim",
}


def line(*cells: Cell) -> Text:
    """One line of plain and styled pieces."""
    return Text().join([cell if isinstance(cell, Text) else Text(safe(cell)) for cell in cells])


def styled(text: str, style: str) -> Text:
    """A piece of text in a style of rich."""
    return Text(safe(text), style=style)


def heading(text: str) -> Text:
    """The name of what follows."""
    return styled(text, "bold")


def state(word: str) -> Text:
    """A state in its colour."""
    return styled(word, STATES.get(word, ""))


def grid(
    rows: Iterable[Sequence[Cell]],
    header: Sequence[str] = (),
    numbers: Sequence[int] = (),
    indent: int = 2,
) -> Part:
    """Aligned columns below their names, those in `numbers` to the right. Columns without a value are left
    out.
    """
    cells = list(rows)
    width = len(header) or max((len(row) for row in cells), default=0)
    shown = [column for column in range(width) if any(len(row[column]) for row in cells)]
    table = Table(box=None, show_header=bool(header), pad_edge=False, padding=(0, 2, 0, 0))
    for column in shown:
        name = header[column] if header else ""
        justify = "right" if column in numbers else "left"
        table.add_column(name, header_style="bold", justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in cells:
        table.add_row(*[line(row[column]) for column in shown])
    return Padding(table, (0, 0, 0, indent), expand=False)


def drawn(parts: Iterable[Part], width: int = UNWRAPPED, colours: bool = False) -> str:
    """The parts below each other as text of at most `width` columns."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colours, color_system="standard" if colours else None
    )
    _print(console, parts)
    return "".join(f"{one.rstrip()}\n" for one in out.getvalue().splitlines())


def write(parts: Iterable[Part], out: TextIO) -> None:
    """Print the parts as the file can show them."""
    console = Console(file=out)
    if console.is_terminal:
        _print(console, parts)
    else:
        out.write(drawn(parts))
    out.flush()


def _print(console: Console, parts: Iterable[Part]) -> None:
    for part in parts:
        # A terminal wraps a line by itself, so that a command can be copied from it as one line.
        soft = isinstance(part, Text)
        console.print(part, soft_wrap=soft, highlight=False, markup=False, emoji=False)
