"""Schemas that are inferred from rows: what was found is kept, and later runs look at newer batches alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse.events import MIN_POSITION
from lakehouse.lineage import History
from lakehouse.ops.records.gold import RowShape, Sighted, Sightings
from lakehouse.ops.records.silver import Done
from lakehouse.spark.change_log import sightings
from lakehouse.spark.change_log.schema_history import load_history
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from tests.support.lakes import engine, run, shown, write_recording
from tests.support.open_feed import OpenFeed
from tests.support.work import lines_run

NAMES = [f"t{number}" for number in range(6)]


def shape(types: str, first: int, rows: int) -> RowShape:
    return RowShape(types, (), ("id",), (0, first, 0, 0, 0, 0), rows)


def test_shapes_are_merged_in_the_order_of_their_first_rows() -> None:
    known, newer = (shape("a", 5, 2), shape("b", 7, 1)), (shape("b", 3, 4), shape("c", 6, 1))

    found = sightings.merged(known, newer)

    assert found == (shape("b", 3, 5), shape("a", 5, 2), shape("c", 6, 1))
    assert sightings.merged(newer, known) == found


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The queries that look at silver's rows for their shapes."""
    found: list[str] = []
    shapes_in = sightings.shapes_in

    def counted(changes: DataFrame) -> Any:
        found.append(str(changes.semanticHash()))
        return shapes_in(changes)

    monkeypatch.setattr(sightings, "shapes_in", counted)
    yield found


def without_record(log: OpsLog) -> History:
    """The history as a lake tells it in which nothing was kept."""
    done = log.last(Done)
    assert done is not None
    bare = OpsLog(log.spark, log.lake, log.source).load()
    bare.records = [one for one in bare.records if not isinstance(one.record, Sightings)]
    return load_history(bare, done)


def test_every_run_looks_at_new_batches_in_one_query_and_finds_what_all_rows_tell(
    spark: Any, tmp_path: Path, looks: list[str]
) -> None:
    place, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", OpenFeed()

    def publishes() -> int:
        looks.clear()
        run(write_recording(path, feed.messages), place)
        made = len(looks)
        log = OpsLog(spark, Lake(str(place)), "shop").load()
        done = log.last(Done)
        assert done is not None
        assert shapes_of(load_history(log, done)) == shapes_of(without_record(log))
        assert shown(place, tmp_path / "shown") == engine(feed.messages)
        return made

    for number, name in enumerate(NAMES):
        feed.row(10 + number, name, 1, v="one")
    feed.ddl(18, "t5", "ALTER TABLE `shop`.`t5` ADD COLUMN w INT")
    feed.resolved(20)
    assert publishes() == 2  # one for all tables without a statement, and one for the table with one

    feed.row(21, "t3", 2, v="two")
    feed.resolved(30)
    assert publishes() == 1

    feed.row(31, "t4", 3, v="three", w=1)  # a column that no statement adds
    feed.resolved(40)
    assert publishes() == 1

    feed.row(15, "t5", 9, v="late", at="2026-01-01 00:00:00")  # below a statement, as it was asked for before
    feed.row(41, "new", 1, v="one")
    feed.resolved(50)
    assert publishes() == 2


def shapes_of(history: History) -> list[Any]:
    return [
        (
            one.id,
            [(step.position, [(c.name, c.type) for c in step.schema.columns]) for step in one.steps],
        )
        for one in history.lineages
    ]


def test_a_table_is_found_among_many_that_were_kept_without_a_look_at_the_others() -> None:
    """Tables without a CREATE are asked for by each run, each of them."""

    def asked(count: int) -> int:
        names = [("d", f"t{number}") for number in range(count)]
        tables = tuple(
            Sighted(*name, MIN_POSITION, None, (shape("a", number, 1),)) for number, name in enumerate(names)
        )
        nothing: Any = None  # silver is not looked at
        silver = sightings.Silver(nothing, Sightings(batch=1, under="", tables=tables))
        silver.newer = {}
        return lines_run(
            lambda: [silver.shapes(sightings.Span(name, MIN_POSITION, None), 1) for name in names]
        )

    assert asked(400) < 5 * asked(100)
