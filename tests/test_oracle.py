"""The differential oracle in its short size, the cases that it has found, and what it must be able to see.

A thousand programs are run by `python -m tests.oracle`: docs/oracle.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from judging import DATA
from oracle.bank import transfers
from oracle.cases import Case, load_case, save_case
from oracle.check import judge
from oracle.command import run, summary
from oracle.database import Database
from oracle.generate import generate

CASES = sorted((DATA / "oracle").glob("*.json"))
PROGRAMS = 20


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    from lakehouse.local.mariadb import start_mariadb

    with start_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield Database(server.port)


def test_gold_is_the_database_at_every_watermark_of_random_programs(database: Database, tmp_path: Path) -> None:
    lines = list(run(database, list(range(PROGRAMS)), tmp_path))

    assert [(line["seed"], line["wrong"]) for line in lines if line["wrong"]] == []
    assert sum(line["watermarks"] for line in lines) > 10 * PROGRAMS, summary(lines)


def test_money_that_is_moved_between_three_tables_is_all_there_at_every_watermark(database: Database) -> None:
    runner, total = transfers(database, seed=1)

    sums = {sum(int(row["cents"]["value"]) for table in state.values() for row in table.rows) for _, state in runner.states[4:]}

    assert sums == {total}
    assert judge(runner).wrong is None


def test_the_oracle_sees_a_lost_row_and_another_type(database: Database) -> None:
    runner = generate(database, 3)
    assert judge(runner).wrong is None
    ts, state = runner.states[-1]
    name, table = next((name, table) for name, table in state.items() if table.rows and not table.unknown)
    fewer = replace(table, rows=table.rows[1:])
    other = replace(table, columns=(replace(table.columns[0], type="geometry"), *table.columns[1:]))

    found = [judge(Case(runner.program, runner.events, [*runner.states[:-1], (ts, {**state, name: t})])).wrong for t in (fewer, other)]

    assert [text.partition(" at ")[0] for text in found if text] == [f"rows of {'.'.join(name)}", f"columns of {'.'.join(name)}"]


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_what_the_oracle_found_once_stays_right(path: Path) -> None:
    case = load_case(path)

    assert [found for again in range(6) if (found := judge(case, again).wrong)] == []


def test_a_case_is_read_as_it_was_kept(database: Database, tmp_path: Path) -> None:
    runner = generate(database, 5)

    save_case(runner, tmp_path / "case.json", "kept")
    case = load_case(tmp_path / "case.json")

    assert case.program == runner.program
    assert case.states == runner.states
    assert case.events == runner.events
