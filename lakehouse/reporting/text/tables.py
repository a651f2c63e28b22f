"""The gold tables of a source with their states, and below them what mends those that are not exact."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse.reporting.text.layout import Part, grid, heading, line, state, styled
from lakehouse.reporting.text.remedies import Step, Steps, Where, of_table
from lakehouse.reporting.text.values import listed, number

# Names of one group of tables with the same reason.
NAMED = 5


class Problem(NamedTuple):
    """What needs somebody: a state (fail, warn, or a table's own), what it is, and what to do."""

    state: str
    text: str
    steps: Steps = ()


@dataclass(frozen=True)
class View:
    """What a source's records do not say of themselves, and people want to read: the order of its positions,
    the lake that commands have to name (None: the default), the time now in seconds, the tables that
    other sources have too, and how lakehouse was called.
    """

    order: str | None = None
    lake: str | None = None
    now: float = 0.0
    shared: frozenset[str] = field(default_factory=frozenset)
    program: str = "lakehouse"

    def where(self, source: str, table: str = "") -> Where:
        """The source, or one of its tables, as commands take it."""
        name = f"{source}:{table}" if table in self.shared else table
        return Where(source, name, self.lake, self.program)


def shared_tables(entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The names of tables that several sources have."""
    names = [table["table"] for entry in entries for table in entry.get("tables", ())]
    return frozenset(name for name in names if names.count(name) > 1)


def step_lines(steps: Sequence[Step], indent: int = 6) -> Iterator[Part]:
    """Commands and what each does, as a shell's comment: a line can be copied as it is."""
    width = max((len(step.command) for step in steps), default=0)
    for step in steps:
        command = styled(step.command.ljust(width), "cyan") if step.command else ""
        what = styled(f"  # {step.what}", "dim") if step.command and step.what else step.what
        yield line(" " * indent, command, what)


def tables_part(tables: Sequence[Mapping[str, Any]], last: str) -> list[Part]:
    """The tables with their states; `last` is the member that is the last column."""
    rows = [(table["table"], state(table["state"]), _text(table[last])) for table in tables]
    return [grid(rows, ("table", "state", last))] if rows else []


def no_tables() -> Iterator[Part]:
    """What is said where gold is published and has no table."""
    yield line()
    yield line(
        "  No table is left: the feed has told of none, or has dropped them all; silver has every change."
    )


def _text(value: Any) -> str:
    return number(value) if isinstance(value, int) else str(value)


def table_problems(tables: Sequence[Mapping[str, Any]], source: str, view: View) -> Iterator[Problem]:
    """Per reason the tables that it keeps from being exact, those that are behind first."""
    groups: dict[tuple[str, str, Steps], list[str]] = {}
    for table in tables:
        if table["state"] not in ("exact", "retired"):
            steps = of_table(dict(table), view.where(source, table["table"]))
            groups.setdefault((table["state"], table["why"] or "", steps), []).append(table["table"])
    for (word, why, steps), names in sorted(groups.items(), key=lambda group: group[0][0]):
        because = f": {why}" if why else ""
        yield Problem(word, f"{listed(names, NAMED)}{because}", steps)


def problem_lines(problems: Sequence[Problem]) -> Iterator[Part]:
    """What needs somebody, each with what to do, which is written once; or a line that nothing does."""
    if not problems:
        yield styled("  Nothing needs attention.", "green")
        return
    yield heading("  needs attention")
    width = max(len(problem.state) for problem in problems)
    written: set[Steps] = set()
    for problem in problems:
        yield line("  ", state(problem.state), " " * (width - len(problem.state) + 2), problem.text)
        if problem.steps not in written:
            yield from step_lines(problem.steps)
        written.add(problem.steps)


def notes(tables: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """What else is to be known of the tables; a note that many have is written once."""
    groups: dict[str, list[str]] = {}
    for table in tables:
        for note in table["notes"] or ():
            groups.setdefault(note, []).append(table["table"])
    if groups:
        yield line()
        yield heading("  notes")
    for note, names in groups.items():
        yield line("  ", f"{listed(names, NAMED)}: {note}")
