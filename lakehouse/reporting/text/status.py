"""`lakehouse status` for people: where each source and table is, and what to do about what stops it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.reporting.text.layout import Cell, Part, grid, heading, line, styled
from lakehouse.reporting.text.problems import source_problems
from lakehouse.reporting.text.tables import View, no_tables, notes, problem_lines, table_problems, tables_part
from lakehouse.reporting.text.values import ago, counted, duration, millis_of, number, place, tso_of

Entry = Mapping[str, Any]
# Partitions of which the lag is told one by one.
PARTITIONS = 6


def status_parts(entries: Sequence[Entry], views: Mapping[str, View]) -> list[Part]:
    """All sources, one below the other."""
    if not entries:
        return [line("No source has run yet: `lakehouse init` describes one, `lakehouse run all` runs it.")]
    return [part for entry in entries for part in _source(entry, views[entry["source"]])]


def _source(entry: Entry, view: View) -> Iterator[Part]:
    yield heading(entry["source"])
    yield grid(_facts(entry, view))
    tables = entry.get("tables", ())
    if tables:
        yield line()
        yield from tables_part(tables, "version")
    elif entry.get("gold_watermark"):
        yield from no_tables()
    yield line()
    yield from problem_lines([*source_problems(entry, view), *table_problems(tables, entry["source"], view)])
    yield from notes(tables)
    if entry.get("runs"):
        yield line()
        yield from _runs(entry["runs"])
    yield line()


def _facts(entry: Entry, view: View) -> Iterator[tuple[Cell, Cell]]:
    """The source's key figures by name."""
    if "watermark" in entry:
        yield "watermark", _watermark(entry, view)
        yield "gold", _gold(entry, view)
    if "lag_messages" in entry:
        yield "lag", _lag(entry)
    if "last_run" in entry:
        yield "last run", ago(view.now - millis_of(entry["last_run"]) / 1000)
    if "dead_letters" in entry:
        letters = counted(entry["dead_letters"], "dead letter")
        yield "silver", f"batch {number(entry['last_silver_batch'])}, {letters}"
    if "verified" in entry:
        yield "verified", _verified(entry["verified"], view)
    if entry.get("topics_without_tables"):
        yield "no tables in", ", ".join(entry["topics_without_tables"])


def _watermark(entry: Entry, view: View) -> str:
    position = entry["watermark"]
    if position is None:
        return "none yet"
    tso = tso_of(position)
    age = entry.get("lag_seconds", None if tso is None else view.now - (tso >> 18) / 1000)
    old = "" if age is None else f", {ago(age)}"
    held = f", held by {entry['held_by']}" if entry["held_by"] else ""
    return place(position, view.order) + old + held


def _gold(entry: Entry, view: View) -> str:
    gold, watermark = entry["gold_watermark"], entry["watermark"]
    if gold is None or not any(gold):
        return "nothing published yet"
    if entry["consistency"] == "eventual":
        return f"all that has arrived, up to {place(gold, view.order)} (consistency: eventual)"
    if gold == watermark:
        return "published up to the watermark"
    return f"published up to {place(gold, view.order)}{_behind(gold, watermark)}"


def _behind(gold: Sequence[int], watermark: Sequence[int] | None) -> str:
    """How far gold is behind the watermark, in the source's time."""
    ends = (tso_of(gold), tso_of(watermark) if watermark else None)
    if ends[0] is None or ends[1] is None or ends[1] <= ends[0]:
        return ""
    return f", {duration(((ends[1] >> 18) - (ends[0] >> 18)) / 1000)} behind it"


def _lag(entry: Entry) -> str:
    lagging = {name: count for name, count in entry.get("lag_by_partition", {}).items() if count}
    shown = sorted(lagging.items(), key=lambda item: -item[1])[:PARTITIONS]
    more = f", and {number(len(lagging) - len(shown))} partitions more" if len(lagging) > len(shown) else ""
    where = f" ({', '.join(f'{name}: {number(count)}' for name, count in shown)}{more})" if shown else ""
    return f"{counted(entry['lag_messages'], 'message')} to read{where}"


def _verified(found: Mapping[str, Any], view: View) -> str:
    """The last comparison with the source's server."""
    differing = len(found["different"])
    outcome = f"{counted(differing, 'table')} with differences" if differing else "no difference"
    unknown = sum(found["undecided"].values())
    outcome += f", {counted(unknown, 'row')} undecided" if unknown else ""
    return f"{counted(found['tables'], 'table')}, {ago(view.now - found['at'] / 1000)}: {outcome}"


def _runs(runs: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """The last runs, newest first."""
    yield heading("  last runs")
    rows = [
        (
            run["begun"],
            duration(run["seconds"]),
            ", ".join(run["layers"]),
            number(run["landed"]),
            number(run["batches"]),
            "published" if run["published"] else "",
            styled("ok", "green") if run["outcome"] == "ok" else styled(run["outcome"], "bold red"),
        )
        for run in runs
    ]
    names = ("begun", "took", "layers", "landed", "batches", "gold", "outcome")
    yield grid(rows, names, numbers=(1, 3, 4))
