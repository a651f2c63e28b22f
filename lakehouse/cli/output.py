"""Output of the commands: events, problems and results, as readable lines or as JSON."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.reporting.logs import LAST, coloured, has_colours, say
from lakehouse.reporting.text.values import (
    LEAST_TSO,
    counted,
    hex_lines,
    instant,
    is_position,
    origin,
    place,
    shown_size,
    statement,
)

if TYPE_CHECKING:
    from lakehouse.config.yaml_reader import Problem
    from lakehouse.reporting.text.layout import Part


def progress(text: str) -> None:
    """Write one line of progress to stderr."""
    say(text)


def working() -> AbstractContextManager[None]:
    """Signs of life on stderr while a command works, with how far its Spark jobs are."""
    from lakehouse.reporting.heartbeat import heartbeat
    from lakehouse.spark.job_progress import JobProgress

    return heartbeat(how_far=JobProgress())


def print_result(result: Any, as_json: bool, then: str | None = None) -> None:
    """Print a result item by item, as JSON or as readable lines, of which the last is the command to run
    `then`.
    """
    items: Iterable[Any] = (
        result if isinstance(result, list | tuple | Iterator) else () if result is None else (result,)
    )
    for item in items:
        LAST.wipe()
        print(json.dumps(item, default=str) if as_json else result_lines(item), flush=True)
    if then is not None and not as_json:
        print(f"next: {then}", flush=True)


def print_as(items: Iterable[Any], as_json: bool, render: "Callable[[list[Any]], Iterable[Part]]") -> None:
    """Print all items: as JSON, or as what `render` makes of them for people."""
    if as_json:
        return print_result(items, as_json=True)
    return print_parts(render(list(items)))


def print_parts(parts: "Iterable[Part]") -> None:
    """Print tables and lines to stdout, as it can show them."""
    from lakehouse.reporting.text.layout import write

    shown = list(parts)
    LAST.wipe()
    write(shown, sys.stdout)


def print_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as a table; a terminal's width decides its shape."""
    from lakehouse.reporting.text.rows import row_lines

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in row_lines(rows, width):
        print(line)


def print_all(items: Iterable[Any], as_text: Callable[[Any], str]) -> None:
    """Print each item on its own line."""
    for item in items:
        print(as_text(item))


def print_problems(
    folder: Path, errors: "Sequence[Problem]", warnings: "Sequence[Problem]", as_json: bool
) -> None:
    """Print the problems of a configuration, errors first, and as text also how many there are."""
    for severity, problems in (("error", errors), ("warning", warnings)):
        for problem in problems:
            if as_json:
                print(json.dumps({"severity": severity, **problem._asdict()}))
            elif has_colours(sys.stdout):
                print(coloured(f"{severity}: ", str(problem), severity))
            else:
                print(f"{severity}: {problem}")
    if not as_json:
        print(f"{folder}: {counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}")


def event_line(event: dict[str, Any]) -> str:
    """One event of `inspect` as a line: its origin, operation, table, position and images."""
    words = {
        "change": _change,
        "schema_change": _schema_change,
        "watermark": _watermark,
        "dead_letter": _dead_letter,
    }
    return f"{origin(event['origin'])}  {words[event['event']](event)}"


def meaning_lines(answer: dict[str, Any]) -> str:
    """One statement of `ddl`, and below it a line per meaning, edit and effect on gold."""
    lines = [statement(str(answer["sql"]))]
    for meaning in answer["expect"]:
        lines.append(f"    {meaning['kind']}{_details(meaning, ('kind', 'edits'))}")
        lines += [f"        {edit['edit']}{_details(edit, ('edit',))}" for edit in meaning.get("edits", ())]
    for outcome in answer.get("outlook", ()):
        lines.append(f"    -> {outcome['gold']}{_reason(outcome)}")
        lines += [
            f"        {edit['edit']}: {edit['gold']}{_reason(edit)}" for edit in outcome.get("edits", ())
        ]
    return "\n".join(lines)


def _reason(outcome: dict[str, Any]) -> str:
    return f" ({'; '.join(outcome['why'])})" if outcome.get("why") else ""


def _details(item: dict[str, Any], apart: tuple[str, ...]) -> str:
    words = (
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in item.items()
        if name not in apart
    )
    return "".join(f" {word}" for word in words)


def result_lines(item: Any) -> str:
    """A command's result as `name: value` lines; a list of objects is a table below its name, an empty value
    is `none`.
    """
    if not isinstance(item, dict):
        return str(item)
    lines = []
    for name, value in item.items():
        is_table = (
            isinstance(value, list | tuple) and bool(value) and all(isinstance(row, dict) for row in value)
        )
        lines += (
            [f"{name.replace('_', ' ')}:", *(f"    {line}" for line in table_lines(value))]
            if is_table
            else [f"{name.replace('_', ' ')}: {_cell(value) or 'none'}"]
        )
    return "\n".join(lines)


def table_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as aligned columns below their names; columns without a value are left out."""
    names = [name for name in rows[0] if any(_cell(row.get(name)) for row in rows)]
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _cell(value: Any) -> str:
    if value is None or value in ([], ()):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_position(value):
        return place(value)
    if isinstance(value, int) and value >= LEAST_TSO:
        return instant(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_cell(inner)}" for name, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _change(event: dict[str, Any]) -> str:
    images = [
        f"{sign} {_image(event[name])}"
        for sign, name in (("-", "before"), ("+", "after"))
        if event[name] is not None
    ]
    flags = f"  ({', '.join(event['flags'])})" if event.get("flags") else ""
    return "  ".join(
        [f"{event['op']} {_table(event)} {json.dumps(event['key'])} at {_at(event)}{flags}", *images]
    )


def _schema_change(event: dict[str, Any]) -> str:
    columns = event.get("columns")
    what = statement(event["ddl"]) or ("" if columns is None else counted(len(columns), "column"))
    return f"{event['kind']} {_table(event)} at {_at(event)}  {what}".rstrip()


def _watermark(event: dict[str, Any]) -> str:
    if event["resolved_ts"] is not None:
        return f"watermark {instant(event['resolved_ts'])}"
    return f"watermark {place(event['position'])}"


def _at(event: dict[str, Any]) -> str:
    """When an event was committed; where its message does not say, its position."""
    return place(event["position"]) if event["commit_ts"] is None else instant(event["commit_ts"])


def _dead_letter(event: dict[str, Any]) -> str:
    lines = [f"dead letter {event['error']['code']}: {event['error']['message']}"]
    for name, (beginning, length) in event.get("bytes", {}).items():
        lines += [f"    {name}, {shown_size(len(beginning), length)}"]
        lines += [f"        {one}" for one in hex_lines(beginning)]
    return "\n".join(lines)


def _table(event: dict[str, Any]) -> str:
    return ".".join(part for part in (event["database"], event["table"]) if part)


def _image(image: dict[str, Any]) -> str:
    return (
        " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in image.items())
        or "(no columns)"
    )
