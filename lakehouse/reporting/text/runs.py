"""The outcome of `run`, `try` and `demo`, and what `plan` foresees, for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.reporting.text.layout import Part, grid, heading, line, styled
from lakehouse.reporting.text.problems import feed_problems
from lakehouse.reporting.text.remedies import Step
from lakehouse.reporting.text.rows import Row, row_lines
from lakehouse.reporting.text.tables import (
    View,
    no_tables,
    notes,
    problem_lines,
    step_lines,
    table_problems,
    tables_part,
)
from lakehouse.reporting.text.values import counted, listed, number, place, safe, statement

Entry = Mapping[str, Any]
# Lines of a list that is part of another result; the rest is counted.
LINES = 20
# Columns of a statement: with its number it fits on a narrow terminal.
STATEMENT = 70


def outcome_parts(outcome: Entry, view: View) -> Iterator[Part]:
    """What a run has done with a source, its tables, and what needs somebody."""
    landed, batches = outcome["new_messages"], outcome["silver_batches"]
    done = f"{counted(landed, 'new message')}, {counted(batches, 'silver batch')}"
    yield line(styled(outcome["source"], "bold"), f"  {done}; gold: {_gold(outcome, view)}")
    if outcome["tables"]:
        yield line()
        yield from tables_part(outcome["tables"], "location")
    elif any(outcome["watermark"] or ()):
        yield from no_tables()
    problems = [*feed_problems(outcome, view), *table_problems(outcome["tables"], outcome["source"], view)]
    if problems or outcome["tables"]:
        yield line()
        yield from problem_lines(problems)
    yield from notes(outcome["tables"])
    yield line()


def _gold(outcome: Entry, view: View) -> str:
    if outcome["watermark"] is None or not any(outcome["watermark"]):
        return "nothing published yet"
    at = place(outcome["watermark"], view.order)
    return f"published up to {at}" if outcome["gold"] == "published" else f"nothing new, published up to {at}"


def ddl_lines(statements: Sequence[str | None]) -> Iterator[Part]:
    """Statements, one per line and shortened."""
    for index, sql in enumerate(statements[:LINES], 1):
        yield line(f"  {index:>4}  {statement(sql, STATEMENT) or 'a schema record'}")
    if len(statements) > LINES:
        yield line(f"        and {counted(len(statements) - LINES, 'statement')} more")


def demo_parts(
    outcome: Entry, view: View, tables: Mapping[str, Sequence[Row]], report: str
) -> Iterator[Part]:
    """The outcome of the demo: what it published, the rows that came out, and what to try next."""
    yield from outcome_parts(outcome, view)
    layers = ", ".join(f"{layer} {number(count)}" for layer, count in outcome["rows"].items())
    yield line(f"  Published to Kafka: {number(outcome['published'])}. Rows by layer: {layers}.")
    yield line()
    yield heading(f"  {counted(len(outcome['ddl_applied']), 'statement')} in the feed")
    yield from ddl_lines(outcome["ddl_applied"])
    yield line()
    for name, rows in tables.items():
        yield heading(name)
        yield from (line(text) for text in row_lines(rows))
        yield line()
    yield line(styled("Report", "bold"), f"  {report} (one HTML page: open it in a browser)")
    yield line()
    yield heading("Try next")
    yield from _next(outcome, view)


def _next(outcome: Entry, view: View) -> Iterator[Part]:
    where = view.where(outcome["source"], outcome["tables"][0]["table"] if outcome["tables"] else "")
    steps = [
        Step(
            where.command("show", "TABLE", "--layer", "silver"), "every change of a table, as silver keeps it"
        ),
        Step(
            where.command("schema", "history", "TABLE"), "its DDL statements, and what each did to its rows"
        ),
        Step(where.command("status", "--history", "5"), "how far the source is, and its last runs"),
        Step(where.command("ui"), "all of it as a page in the browser"),
    ]
    yield from step_lines(steps, indent=2)


def _older(entry: Entry) -> str:
    """The tables that may have had rows before their feed began."""
    names = entry.get("tables_older_than_the_feed", ())
    ways = f"`lakehouse snapshot {entry['source']}`, or `lakehouse import` from a dump"
    brings = f"{ways}, brings rows from before the feed"
    return f"{listed(names, LINES)}: {brings}" if names else ""


SETTINGS_CHANGED = (
    "YAMLs, expectations or decisions differ from the last run's: gold takes them up, and folds again "
    "what they change"
)


def plan_parts(entries: Sequence[Entry]) -> list[Part]:
    """What a run would do, source by source."""
    return [part for entry in entries for part in _plan(entry)]


def _plan(entry: Entry) -> Iterator[Part]:
    yield heading(entry["source"])
    changes, statements = entry.get("gold_would_apply", {}), entry.get("ddl_would_apply", ())
    applied = f"{counted(sum(changes.values()), 'change')} of {counted(len(changes), 'table')}"
    applied += f", {counted(len(statements), 'DDL statement')}"
    new = entry.get("tables_to_create", ())
    facts = [
        ("bronze", _landing(entry)),
        ("silver", _decoding(entry["silver_would_read"])),
        ("gold", applied if changes or statements else "nothing new"),
        ("settings", SETTINGS_CHANGED if entry.get("settings_changed") else ""),
        ("new tables", listed(new, LINES) if new else ""),
        ("no YAML", _unconfigured(entry)),
        ("older tables", _older(entry)),
    ]
    yield grid([fact for fact in facts if fact[1]])
    if changes:
        yield line()
        yield grid([(table, number(count)) for table, count in changes.items()], ("table", "changes"), (1,))
    if statements:
        yield line()
        yield heading("  DDL statements")
        yield from ddl_lines(statements)
    yield line()


def _landing(entry: Entry) -> str:
    if "broker" in entry:
        return safe(entry["broker"])
    if "lag_messages" not in entry:
        return "all of the input that is new"
    return f"{counted(entry['lag_messages'], 'message')} of the topic that silver has not done"


def _decoding(ranges: Sequence[Mapping[str, Any]]) -> str:
    if not ranges:
        return "nothing is landed that it has not done"
    places = [f"{one['topic']}/{one['partition']}@{one['first']}-{one['last']}" for one in ranges]
    records = sum(one["last"] - one["first"] + 1 for one in ranges)
    return f"at most {counted(records, 'record')}: {listed(places, LINES)}"


def _unconfigured(entry: Entry) -> str:
    names = entry.get("tables_no_longer_configured", ())
    return f"{listed(names, LINES)}: their data stays until it is removed by hand" if names else ""
