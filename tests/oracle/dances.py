"""Online schema changes as the tools do them: a shadow table, rows copied while others are written, and a
swap of names.
"""

from collections.abc import Iterator

from tests.oracle.database import Name, Table, quoted, word
from tests.oracle.program import Step
from tests.oracle.runner import Runner
from tests.oracle.shaping import Shaper
from tests.oracle.writing import Writer


def gh_ost(runner: Runner, name: Name, shaper: Shaper, writer: Writer) -> Iterator[Step]:
    """gh-ost: CREATE LIKE, ALTER, chunks, binlog events applied, one RENAME of both."""
    ghost, gone = (name[0], f"_{name[1]}_gho"), (name[0], f"_{name[1]}_del")
    yield {"ddl": f"DROP TABLE IF EXISTS {quoted(gone)}", "table": list(gone)}
    yield {
        "ddl": f"CREATE TABLE {quoted(ghost)} LIKE {quoted(name)}",
        "table": list(ghost),
        "like": [list(name), list(ghost)],
    }
    yield from _changed(runner, ghost, shaper)
    if ghost in runner.tables:
        yield {"rows": [_copy("INSERT IGNORE", runner, name, ghost) + " LIMIT 2"]}
        for _ in range(2):
            yield _mirrored(runner, name, ghost, writer)
        yield {"rows": [_copy("REPLACE", runner, name, ghost)]}
        yield shaper.rename([(name, gone), (ghost, name)])
        yield {"ddl": f"DROP TABLE IF EXISTS {quoted(gone)}", "table": list(gone)}


def pt_osc(runner: Runner, name: Name, shaper: Shaper, writer: Writer) -> Iterator[Step]:
    """pt-online-schema-change: triggers keep the shadow equal in the very transactions, then one RENAME, and
    the old table is dropped.
    """
    new, old = (name[0], f"_{name[1]}_new"), (name[0], f"_{name[1]}_old")
    yield {
        "ddl": f"CREATE TABLE {quoted(new)} LIKE {quoted(name)}",
        "table": list(new),
        "like": [list(name), list(new)],
    }
    yield from _changed(runner, new, shaper)
    if new in runner.tables:
        for _ in range(3):
            yield _mirrored(runner, name, new, writer)
        yield {"rows": [_copy("REPLACE", runner, name, new)]}
        yield shaper.rename([(name, old), (new, name)])
        yield shaper.drop([old])


def _changed(runner: Runner, ghost: Name, shaper: Shaper) -> Iterator[Step]:
    if ghost in runner.tables:
        step = shaper.alter(ghost, runner.tables[ghost])
        if step:
            yield step


def _mirrored(runner: Runner, name: Name, ghost: Name, writer: Writer) -> Step:
    """A write to the table, and to its shadow what came of it, in one transaction."""
    first = writer.statement(name, runner.tables[name])
    return {"rows": [first, f"DELETE FROM {quoted(ghost)}", _copy("REPLACE", runner, name, ghost)]}


def _copy(verb: str, runner: Runner, name: Name, ghost: Name) -> str:
    names = ", ".join(word(text) for text in shared(runner.tables[name], runner.tables[ghost]))
    return f"{verb} INTO {quoted(ghost)} ({names}) SELECT {names} FROM {quoted(name)}"


def shared(one: Table, other: Table) -> list[str]:
    """The columns that both have and that can be written."""
    names = {column.name for column in other.columns if not column.generated}
    return [column.name for column in one.columns if column.name in names and not column.generated] or [
        one.columns[0].name
    ]
