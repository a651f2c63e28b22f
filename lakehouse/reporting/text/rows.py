"""`lakehouse show` for people: a table's rows as aligned columns, page by page, or one member a line where a
terminal is too narrow; and the changes of silver.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from rich.cells import cell_len, set_cell_size

from lakehouse.events import POSITION_PARTS
from lakehouse.reporting.text.values import instant, origin, place, safe

# Rows that are read before they are written: the widths of the columns are theirs, or of a page before.
PAGE = 500
# Columns of a terminal that a value may take.
CELL = 60
NULL = "NULL"
GAP = "  "
Row = Mapping[str, Any]


def row_lines(rows: Iterable[Row], width: int | None = None) -> Iterator[str]:
    """Rows below their columns' names; `width` is that of the terminal, None where nothing is cut."""
    found = iter(rows)
    names: list[str] = []
    widths: list[int] = []
    count = 0
    while page := list(islice(found, PAGE)):
        new = [name for name in dict.fromkeys(chain.from_iterable(page)) if name not in names]
        names, widths = names + new, widths + [0] * len(new)
        cells = [[_cell(row[name], width) if name in row else "" for name in names] for row in page]
        texts = [list(map(safe, names)), *cells]
        widths = [max(known, *(cell_len(text[i]) for text in texts)) for i, known in enumerate(widths)]
        if width is not None and sum(widths) + len(GAP) * (len(widths) - 1) > width:
            yield from _one_below_the_other(names, page, count)
        else:
            right = [_is_number(row.get(name) for row in page) for name in names]
            if new:
                yield _line(texts[0], widths, right)
                yield GAP.join("-" * length for length in widths)
            yield from (_line(text, widths, right) for text in cells)
        count += len(page)
    yield f"({count:,} {'row' if count == 1 else 'rows'})"


def _one_below_the_other(names: Sequence[str], rows: Sequence[Row], count: int) -> Iterator[str]:
    """Each row as lines of a name and a value, which is not cut: a terminal wraps it."""
    length = max(cell_len(safe(name)) for name in names)
    for index, row in enumerate(rows, count + 1):
        yield f"-- {index} --"
        for name in names:
            if name in row:
                yield f"{set_cell_size(safe(name), length)}{GAP}{_cell(row[name], None)}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = (
        " " * (width - cell_len(cell)) + cell if is_right else cell + " " * (width - cell_len(cell))
        for cell, width, is_right in zip(cells, widths, right, strict=True)
    )
    return GAP.join(placed).rstrip()


def _cell(value: Any, width: int | None) -> str:
    if value is None:
        return NULL
    text = safe(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if width is None or cell_len(text) <= CELL:
        return text
    return set_cell_size(text, CELL - 1).rstrip() + "…"


def _is_number(values: Iterable[Any]) -> bool:
    """Whether a column has numbers, and nothing else but NULL."""
    told = [value for value in values if value is not None]
    return bool(told) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in told
    )


def change_rows(changes: Iterable[Row], order: str | None = None) -> Iterator[Row]:
    """Changes of silver as rows for people: when, what, the key, the values, and where the bytes are."""
    for change in changes:
        position = [change["position"].get(part, 0) for part in POSITION_PARTS]
        at = place(position, order) if "commit_ts" not in change else instant(change["commit_ts"])
        yield {
            "at": at,
            "op": change["op"],
            "key": change.get("key", "[]"),
            "values": difference(_image(change, "before"), _image(change, "after")),
            "from": origin(change["origin"]) if change.get("origin") else "",
        }


def difference(before: Row | None, after: Row | None) -> str:
    """The row that came or went; of a row that changed, the columns that did. --json has whole images."""
    if before is None or after is None:
        whole = after if before is None else before
        return " ".join(f"{name}={_json(value)}" for name, value in (whole or {}).items())
    changed = [name for name in dict.fromkeys([*before, *after]) if _told(before, name) != _told(after, name)]
    return (
        " ".join(f"{name}={_told(before, name)}→{_told(after, name)}" for name in changed)
        or "(no column changed)"
    )


def _image(change: Row, name: str) -> Row | None:
    image: Row | None = json.loads(change[name]) if change.get(name) else None
    return image


def _told(image: Row, name: str) -> str:
    return _json(image[name]) if name in image else "(not sent)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
