"""The differential oracle in its short size, the cases that it has found, and what it must be able to see.

A thousand programs are run by `python -m tests.oracle`: docs/oracle.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracle.bank import transfers
from tests.oracle.cases import Case, load_case, save_case
from tests.oracle.command import run, summary
from tests.oracle.database import Column, Database, Table
from tests.oracle.formats import FORMATS, OPEN, carried, formats_of, judge_in
from tests.oracle.generate import generate
from tests.oracle.losses import lost
from tests.oracle.program import Program
from tests.oracle.runner import Runner
from tests.support.paths import DATA

CASES = sorted((DATA / "oracle").glob("*.json"))
PROGRAMS = 20
SEEN = 3


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    from tests.servers.mariadb import start_mariadb

    with start_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield Database(server.port)


def test_gold_is_the_database_at_every_watermark_of_random_programs_in_every_format(
    database: Database, tmp_path: Path
) -> None:
    lines = list(run(database, list(range(PROGRAMS)), tmp_path))

    assert [(line["seed"], line["wrong"]) for line in lines if line["wrong"]] == []
    assert [
        name for name in FORMATS if sum(line["formats"][name]["watermarks"] for line in lines) < 10 * PROGRAMS
    ] == [], summary(lines)


def test_money_that_is_moved_between_three_tables_is_all_there_at_every_watermark(database: Database) -> None:
    runner, total = transfers(database, seed=1)

    sums = {
        sum(int(row["cents"]["value"]) for table in state.values() for row in table.rows)
        for _, state in runner.states[4:]
    }

    assert sums == {total}
    assert {name: wrong for name in FORMATS if (wrong := judge_in(runner, name).wrong)} == {}


@pytest.mark.parametrize("format", FORMATS)
def test_the_oracle_sees_a_lost_row_and_another_type(database: Database, format: str) -> None:
    runner = generate(database, SEEN)
    assert (judged := judge_in(runner, format)).wrong is judged.cut is None
    ts, state = runner.states[-1]
    name, table = next((name, table) for name, table in state.items() if table.rows and not table.unknown)
    fewer = replace(table, rows=table.rows[1:])
    other = replace(table, columns=(replace(table.columns[0], type="geometry"), *table.columns[1:]))

    cases = [
        Case(runner.program, runner.events, [*runner.states[:-1], (ts, {**state, name: wrong})])
        for wrong in (fewer, other)
    ]
    found = [judge_in(case, format).wrong for case in cases]

    assert [text.partition(" at ")[0] for text in found if text] == [
        f"rows of {'.'.join(name)}",
        f"columns of {'.'.join(name)}",
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_the_oracle_sees_a_row_that_the_feed_does_not_send(database: Database, format: str) -> None:
    runner = generate(database, SEEN)
    last = max(
        number
        for number, event in enumerate(runner.events)
        if event["kind"] == "row" and "before" not in event
    )

    judged = judge_in(
        Case(runner.program, runner.events[:last] + runner.events[last + 1 :], runner.states), format
    )

    assert judged.wrong is not None
    assert judged.wrong.startswith("rows of ")


def test_a_history_is_cut_before_what_a_format_can_not_carry(database: Database) -> None:
    runner = Runner(database, Program(1, strict=False))
    runner.step(
        {"ddl": "CREATE TABLE `t` (`id` int NOT NULL, `d` date, PRIMARY KEY (`id`))", "table": ["d", "t"]}
    )
    for values in ("1, '2024-02-29'", "2, '0000-00-00'", "3, NULL"):
        runner.step({"rows": [f"INSERT INTO `t` (`id`, `d`) VALUES ({values})"]})

    told = {name: judge_in(runner, name) for name in ("debezium", "ticdc-debezium", "tencent-dts")}

    assert {name: (judged.cut, judged.wrong) for name, judged in told.items()} == {
        "debezium": ("a zero or partial date", None),
        "ticdc-debezium": ("a zero or partial date", None),
        "tencent-dts": (None, None),
    }
    events, states, _ = carried(runner, "debezium")
    assert ([event["kind"] for event in events], len(states)) == (["ddl", "row"], 3)


@pytest.mark.parametrize(
    ("format", "type_", "charset", "value"),
    [
        ("ticdc-debezium", "decimal(20,4)", None, "1234567890123456.7891"),
        ("ticdc-debezium", "datetime", None, "2024-00-00 00:00:00"),
        ("debezium", "year", None, "0000"),
        ("canal", "varchar(5)", "latin1", "é"),
        ("canal-protobuf", "text", "latin1", "é"),
    ],
)
def test_what_a_producer_loses_is_known_by_format(
    format: str, type_: str, charset: str | None, value: str
) -> None:
    table = Table((Column("v", type_, False, charset, None),), (), ())
    event = {"kind": "row", "of": table, "after": {"v": {"type": type_, "value": value}}}

    assert lost(format, event) is not None
    assert lost("tencent-dts", event) is None
    assert lost(format, {**event, "after": {"v": {"type": type_, "value": None}}}) is None


def test_text_in_utf_8_is_no_loss_of_canal_s_whatever_it_holds() -> None:
    table = Table((Column("v", "varchar(5)", False, "utf8mb4", None),), (), ())
    event = {"kind": "row", "of": table, "after": {"v": {"type": "varchar(5)", "value": "\ufffd"}}}

    assert lost("canal", event) is None


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_what_the_oracle_found_once_stays_right(path: Path) -> None:
    case = load_case(path)

    told = {
        (name, again): judge_in(case, name, again).wrong
        for name in formats_of(case.program.server)
        for again in range(6 if name == OPEN else 2)
    }

    assert {which: wrong for which, wrong in told.items() if wrong} == {}


def test_a_case_is_read_as_it_was_kept(database: Database, tmp_path: Path) -> None:
    runner = generate(database, 5)

    save_case(runner, tmp_path / "case.json", "kept")
    case = load_case(tmp_path / "case.json")

    assert case.program == runner.program
    assert case.states == runner.states
    assert case.events == runner.events
