"""Everything that the commands print: events, problems and results, as readable lines or as JSON."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.config.yaml_reader import Problem


def progress(text: str) -> None:
    """Write one line of progress to stderr."""
    from lakehouse.reporting.logs import say

    say(text)


def print_result(result: Any, as_json: bool) -> None:
    """Print a result item by item, as JSON or as readable lines."""
    items: Iterable[Any] = (
        result if isinstance(result, list | tuple | Iterator) else () if result is None else (result,)
    )
    for item in items:
        print(json.dumps(item, default=str) if as_json else result_lines(item), flush=True)


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
            as_object = {"severity": severity, **problem._asdict()}
            print(json.dumps(as_object) if as_json else f"{severity}: {problem}")
    if not as_json:
        print(f"{folder}: {_counted(len(errors), 'error')}, {_counted(len(warnings), 'warning')}")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def event_line(event: dict[str, Any]) -> str:
    """One event of `inspect` as a line: its origin, operation, table, position and images."""
    words = {
        "change": _change,
        "schema_change": _schema_change,
        "watermark": _watermark,
        "dead_letter": _dead_letter,
    }
    return f"{_place(event['origin'])}  {words[event['event']](event)}"


def meaning_lines(answer: dict[str, Any]) -> str:
    """One statement of `ddl`, and below it a line per meaning, edit and effect on gold."""
    lines = [" ".join(str(answer["sql"]).split())]
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
            [f"{name}:", *(f"    {line}" for line in table_lines(value))]
            if is_table
            else [f"{name}: {_cell(value) or 'none'}"]
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
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_cell(inner)}" for name, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _place(origin: dict[str, Any]) -> str:
    if "path" in origin:
        return f"{origin['path']}:{origin['row']}[{origin['index']}]"
    return f"{origin['topic']}/{origin['partition']}@{origin['offset']}[{origin['index']}]"


def _change(event: dict[str, Any]) -> str:
    images = [
        f"{sign} {_image(event[name])}"
        for sign, name in (("-", "before"), ("+", "after"))
        if event[name] is not None
    ]
    flags = f"  ({', '.join(event['flags'])})" if event.get("flags") else ""
    return "  ".join(
        [f"{event['op']} {_table(event)} {json.dumps(event['key'])} at {event['commit_ts']}{flags}", *images]
    )


def _schema_change(event: dict[str, Any]) -> str:
    what = event["ddl"] or f"{len(event.get('columns') or ())} columns"
    return f"{event['kind']} {_table(event)} at {event['commit_ts']}  {what}"


def _watermark(event: dict[str, Any]) -> str:
    return f"watermark {event['resolved_ts'] if event['resolved_ts'] is not None else event['position']}"


def _dead_letter(event: dict[str, Any]) -> str:
    return f"dead letter {event['error']['code']}: {event['error']['message']}"


def _table(event: dict[str, Any]) -> str:
    return ".".join(part for part in (event["database"], event["table"]) if part)


def _image(image: dict[str, Any]) -> str:
    return (
        " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in image.items())
        or "(no columns)"
    )
