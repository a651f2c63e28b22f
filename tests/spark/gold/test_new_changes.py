"""Gold looks at silver once for all small tables, when they are made and when a large window is merged into
them.
"""

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import functions as F

from lakehouse.events import Message
from lakehouse.spark import limits
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, collect_changes, few_changes
from lakehouse.spark.gold import new_changes
from lakehouse.spark.gold import table as gold_table
from lakehouse.spark.gold.results import Size, TableResult
from lakehouse.spark.pipeline.try_recording import try_recording
from tests.support.arrivals import Feed
from tests.support.lakes import engine, quiet, run, shown, write_recording
from tests.support.source_model import History


def test_small_tables_are_read_together(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, lake = (
        Feed(History(2, 60).events, random.Random(1), 1, "table").arrival(random.Random(2)),
        tmp_path / "lake",
    )
    read_group = new_changes.read_group
    groups: list[int] = []
    alone: list[str] = []

    def noted(works: Sequence[new_changes.TableWork]) -> list[new_changes.Read]:
        groups.append(len(works))
        return read_group(works)

    monkeypatch.setattr(new_changes, "read_group", noted)

    def noted_alone(frame: Any) -> Any:
        alone.append("a table")
        return collect_changes(frame)

    monkeypatch.setattr(gold_table, "collect_changes", noted_alone)
    monkeypatch.setattr(limits, "GOLD_WINDOW_CHANGES", 0)
    by_run: list[list[int]] = []
    for part in (0.5, 1.0):
        landed = told[: int(len(told) * part)]
        run(write_recording(tmp_path / "feed.jsonl", landed), lake)
        assert shown(lake, tmp_path / "shown") == engine(landed)
        by_run.append(groups[sum(map(len, by_run)) :])

    # at first one group of all tables; then one of those that are folded whole, and one of those that are
    # merged into
    assert len(by_run[0]) == 1
    assert by_run[0][0] > 2
    assert all(len(groups) <= 2 for groups in by_run)
    assert alone == []


def test_few_changes_of_many_bytes_do_not_come_to_the_driver(spark: Any) -> None:
    rows = [
        {
            "database": "d",
            "table": "t",
            "op": "upsert",
            "position": Row(epoch=0, p1=number),
            "after": "x" * 9_000,
        }
        for number in range(20)
    ]
    position = "position struct<epoch:int,p1:int>"
    known = spark.createDataFrame(rows, f"database string, table string, op string, {position}, after string")
    others = {name: F.lit(None).cast("string") for name in FOLD_COLUMNS if name not in known.columns}
    frame = known.withColumns(others)

    def held(rows: int, size: int) -> int | None:
        table = few_changes(frame, rows, size)
        return None if table is None else table.num_rows

    assert held(20, 180_000) == 20
    assert held(19, 180_000) is None
    assert held(20, 179_999) is None
    assert few_changes(frame.where("false"), 20, 1) is not None
    came: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        to_arrow = type(frame).toArrow

        def weighed(self: Any) -> pa.Table:
            table = to_arrow(self)
            came.append(table.nbytes)
            return table

        patch.setattr(type(frame), "toArrow", weighed)
        assert held(20, 100) is None
    assert len(came) == 1
    assert came[0] < 9_000


def test_a_read_group_holds_what_fits_and_at_least_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GOLD_GROUP_CHANGES", 10)
    monkeypatch.setattr(limits, "GOLD_GROUP_BYTES", 100)
    one, other = object(), object()
    sizes = [(one, 4, 1), (one, 6, 1), (one, 1, 1), (one, 20, 1), (one, 1, 90), (other, 1, 1), (one, 1, 20)]
    works = [
        new_changes.TableWork((), frame, Size(rows, size), lambda _: TableResult(None))  # type: ignore[arg-type]
        for frame, rows, size in sizes
    ]

    found = [[number for number, _ in group] for group in new_changes.read_groups(enumerate(works))]

    assert sorted(found) == [[0, 1], [2], [3], [4], [5], [6]]


# few letters, so that names share prefixes and a name is both a database and a table
names = st.text("ab1é", max_size=3)


@given(st.lists(st.tuples(names, names), max_size=200))
def test_rows_read_together_are_dealt_out_by_their_own_name(rows: list[tuple[str, str]]) -> None:
    expected: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, name in enumerate(rows):
        expected[name].append(number)
    columns = {
        "database": [name[0] for name in rows],
        "table": [name[1] for name in rows],
        "number": [*range(len(rows))],
    }
    table = pa.table(
        columns, pa.schema({"database": pa.string(), "table": pa.string(), "number": pa.int64()})
    )

    found = new_changes.rows_by_name(table)

    assert {name: sorted(part["number"].to_pylist()) for name, part in found.items()} == expected
    assert all(
        {*zip(part["database"].to_pylist(), part["table"].to_pylist(), strict=True)} == {name}
        for name, part in found.items()
    )


def test_sixty_small_tables_have_all_their_rows(spark: Any, tmp_path: Path) -> None:
    """pyarrow's group_by gives its groups in no order that may be relied on: tables once got each other's
    rows.
    """
    tables = [f"t{number}" for number in range(60)]
    told = [ddl(table, at) for at, table in enumerate(tables, 100)]
    told += [insert(table, row, 1000 + 60 * row + at) for row in range(10) for at, table in enumerate(tables)]
    path = write_recording(tmp_path / "feed.jsonl", numbered([*told, watermark(2000)]))

    outcome = try_recording(path, "ticdc-canal-json", {}, str(tmp_path / "lake"), "resolved", quiet)

    assert {entry["state"] for entry in outcome["tables"]} == {"exact"}
    expected = {
        f"d.{table}": [{"id": row, "v": f"{table}-{row}"} for row in range(10)] for table in sorted(tables)
    }
    assert shown(tmp_path / "lake", tmp_path / "out") == expected


def ddl(table: str, at: int) -> dict[str, Any]:
    statement = f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY, `v` VARCHAR(20))"
    return canal_json("CREATE", table, at, isDdl=True, sql=statement)


def insert(table: str, row: int, at: int) -> dict[str, Any]:
    types = {"sqlType": {"id": 4, "v": 12}, "mysqlType": {"id": "int", "v": "varchar"}, "pkNames": ["id"]}
    return canal_json("INSERT", table, at, data=[{"id": str(row), "v": f"{table}-{row}"}], **types)


def watermark(at: int) -> dict[str, Any]:
    return canal_json("TIDB_WATERMARK", "", at) | {"database": "", "_tidb": {"watermarkTs": at}}


def canal_json(kind: str, table: str, at: int, **members: Any) -> dict[str, Any]:
    head = {
        "id": 0,
        "database": "d",
        "table": table,
        "pkNames": None,
        "isDdl": False,
        "type": kind,
        "es": at,
        "ts": at,
        "sql": "",
    }
    return {
        **head,
        "data": None,
        "old": None,
        "sqlType": None,
        "mysqlType": None,
        "_tidb": {"commitTs": at},
        **members,
    }


def numbered(values: Sequence[dict[str, Any]]) -> list[Message]:
    return [
        Message("feed", 0, number, None, json.dumps(value).encode()) for number, value in enumerate(values)
    ]
