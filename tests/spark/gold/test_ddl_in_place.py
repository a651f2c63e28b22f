"""DDL in place: a large table's columns change by Delta's metadata, or in one pass over its rows, and the
table is what a fold of its whole log gives, its schema included.
"""

from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ops.records.gold import Manifest
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.table_versions import history_of
from tests.support.killable import Killed, killing
from tests.support.lakes import engine, run, shown, write_recording
from tests.support.open_feed import OpenFeed

CREATE = "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20) COMMENT 'a name', w INT)"
ADD, DROP, RENAME, CHANGE, WRITE = "ADD COLUMNS", "DROP COLUMNS", "RENAME COLUMN", "CHANGE COLUMN", "WRITE"
# statement → the operations of Delta that it comes to
IN_PLACE: dict[str, list[str]] = {
    "ADD COLUMN x INT": [ADD],
    "ADD COLUMN x INT COMMENT 'it''s' FIRST, ADD COLUMN `a.b` TEXT AFTER id": [ADD, ADD, CHANGE, CHANGE],
    "ADD COLUMN x INT NOT NULL": [WRITE],
    "ADD COLUMN x VARCHAR(20) DEFAULT 'it''s `\\\\` é' AFTER id, DROP COLUMN w": [WRITE],
    "ADD COLUMN x DECIMAL(6,3) DEFAULT 1.5, ADD y DATETIME(3) DEFAULT '2020-02-29 01:02:03.5'": [WRITE],
    "ADD COLUMN x DATETIME DEFAULT '1000-01-01 00:00:00', ADD y DATE DEFAULT '0001-01-02'": [WRITE],
    "ADD COLUMN x VARBINARY(9) DEFAULT X'00ff', RENAME COLUMN v TO u": [WRITE],
    "DROP COLUMN w": [DROP],
    "DROP COLUMN w, ADD COLUMN W BIGINT": [DROP, ADD],
    "RENAME COLUMN w TO x": [RENAME],
    "CHANGE COLUMN w x BIGINT FIRST": [RENAME, CHANGE, CHANGE],
    "MODIFY COLUMN w BIGINT": [CHANGE],
    "MODIFY COLUMN v VARCHAR(40) COMMENT 'a longer name'": [CHANGE],
    "MODIFY COLUMN v VARCHAR(40)": [CHANGE],
    "MODIFY COLUMN w INT COMMENT '' AFTER id": [CHANGE],
    "ADD INDEX (w)": [],
}
FOLDED = [
    "MODIFY COLUMN v VARCHAR(3)",
    "MODIFY COLUMN w VARCHAR(20)",
    "MODIFY COLUMN w INT NOT NULL",
    "RENAME COLUMN v TO w, RENAME COLUMN w TO v",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
    "ADD COLUMN x DATETIME DEFAULT CURRENT_TIMESTAMP",
]


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is large."""
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 0)


@pytest.fixture
def _in_jobs(_large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every window is large too: Spark folds it."""
    monkeypatch.setattr(limits, "GOLD_WINDOW_CHANGES", 0)
    monkeypatch.setattr(limits, "GOLD_GROUP_CHANGES", 0)


def told(feed: OpenFeed, tables: dict[str, str]) -> OpenFeed:
    """Tables of two rows, each with the rest of its CREATE."""
    for table, rest in tables.items():
        feed.ddl(1, table, CREATE.replace("`t`", f"`{table}`").replace(", w INT", f", w INT{rest}"))
        feed.row(2, table, 1, v="one", w=1)
        feed.row(2, table, 2, v="two", w=None)
    feed.resolved(3)
    return feed


def changed(feed: OpenFeed, statements: dict[str, str]) -> OpenFeed:
    """The feed with changes of each table, its statement, and a change behind it that tells of the key
    alone.
    """
    for table, statement in statements.items():
        feed.row(4, table, 3, v="three", w=3)
        feed.row(5, table, 1, v="1", w=-1)
        feed.ddl(6, table, f"ALTER TABLE `shop`.`{table}` {statement}")
        feed.row(7, table, 2, "d")
    feed.resolved(8)
    return feed


def operations(spark: Any, lake: Path, table: str) -> list[str]:
    ref = Lake(str(lake)).ref("gold", f"shop__{table}")
    told = [row.operation for row in reversed(history_of(spark, ref))]
    return [WRITE if operation.startswith("CREATE OR REPLACE") else operation for operation in told]


def schema_of(spark: Any, lake: Path, table: str) -> list[tuple[str, str, str]]:
    fields = Lake(str(lake)).read(spark, "gold", f"shop__{table}").schema.fields
    return [(f.name, f.dataType.simpleString(), f.metadata.get("comment", "")) for f in fields]


def states(spark: Any, lake: Path) -> dict[str, tuple[str, str | None]]:
    manifest = OpsLog(spark, Lake(str(lake)), "shop").load().last(Manifest)
    assert manifest is not None
    return {entry.table: (entry.state, entry.why) for entry in manifest.tables}


STATEMENTS = {f"t{number}": text for number, text in enumerate([*IN_PLACE, *FOLDED])}
# of each kind of work one
FEW = {table: STATEMENTS[table] for table in ("t3", "t10", "t16")}


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose tables were folded once, with all of their changes, by the driver."""
    folder = tmp_path_factory.mktemp("folded")
    feed = changed(told(OpenFeed(), dict.fromkeys(STATEMENTS, "")), STATEMENTS)
    run(write_recording(folder / "shop.jsonl", feed.messages), folder / "lake")
    return folder / "lake"


@pytest.mark.usefixtures("_large")
def test_a_changed_table_is_what_a_fold_of_its_log_gives(spark: Any, tmp_path: Path, folded: Path) -> None:
    changed_as_folded(spark, tmp_path, folded, STATEMENTS)


@pytest.mark.usefixtures("_in_jobs")
def test_a_table_that_is_changed_in_jobs_is_what_a_fold_gives(
    spark: Any, tmp_path: Path, folded: Path
) -> None:
    changed_as_folded(spark, tmp_path, folded, FEW)


def changed_as_folded(spark: Any, folder: Path, folded: Path, statements: dict[str, str]) -> None:
    lake, path = folder / "lake", folder / "shop.jsonl"
    feed = told(OpenFeed(), dict.fromkeys(statements, ""))
    run(write_recording(path, feed.messages), lake)
    before = {table: len(operations(spark, lake, table)) for table in statements}
    run(write_recording(path, changed(feed, statements).messages), lake)

    assert shown(lake, folder / "shown") == engine(feed.messages)
    of_a_fold = states(spark, folded)
    assert states(spark, lake) == {table: of_a_fold[table] for table in statements}
    for table, statement in statements.items():
        assert schema_of(spark, lake, table) == schema_of(spark, folded, table), statement
        done = operations(spark, lake, table)[before[table] :]
        if statement in IN_PLACE:
            assert done == [*IN_PLACE[statement], "MERGE"], statement
        else:
            assert not {ADD, DROP, RENAME, CHANGE, "MERGE"} & set(done), statement


@pytest.mark.usefixtures("_large")
def test_a_value_that_the_former_type_could_not_hold_goes_along_or_is_looked_at_again(
    spark: Any, tmp_path: Path
) -> None:
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", OpenFeed()
    statements = {"kept": "RENAME COLUMN at TO since", "wider": "MODIFY COLUMN at DATETIME COMMENT 'wide'"}
    for table in statements:
        feed.ddl(1, table, f"CREATE TABLE `shop`.`{table}` (id INT PRIMARY KEY, w INT, at DATETIME)")
        feed.row(2, table, 1, w=1, at="0000-00-00 00:00:00")
        feed.row(2, table, 2, w=2, at="2020-02-03 04:05:06")
    feed.resolved(3)
    run(write_recording(path, feed.messages), lake)
    for table, statement in statements.items():
        feed.ddl(4, table, f"ALTER TABLE `shop`.`{table}` {statement}")
        feed.row(5, table, 2, "d")
    feed.resolved(6)
    run(write_recording(path, feed.messages), lake)

    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
    assert [name for name, *_ in schema_of(spark, lake, "kept")] == ["id", "w", "since", "_raw_since"]
    assert operations(spark, lake, "kept")[-3:] == [RENAME, RENAME, "MERGE"]


@pytest.mark.usefixtures("_large")
def test_a_new_column_has_nothing_of_a_dropped_one_of_its_name(spark: Any, tmp_path: Path) -> None:
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, at DATETIME)")
    feed.row(2, "t", 1, at="0000-00-00 00:00:00")
    feed.row(2, "t", 2, at="2020-02-03 04:05:06")
    feed.resolved(3)
    run(write_recording(path, feed.messages), lake)
    feed.ddl(4, "t", "ALTER TABLE `shop`.`t` DROP COLUMN at")
    feed.ddl(5, "t", "ALTER TABLE `shop`.`t` ADD COLUMN at DATETIME DEFAULT '2021-01-01 00:00:00'")
    feed.row(6, "t", 2, "d")
    feed.resolved(7)
    run(write_recording(path, feed.messages), lake)

    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
    assert operations(spark, lake, "t")[-2:] == [WRITE, "MERGE"]
    assert [name for name, *_ in schema_of(spark, lake, "t")] == ["id", "at"]


@pytest.mark.usefixtures("_in_jobs")
def test_a_table_that_is_changed_twice_is_the_source(spark: Any, tmp_path: Path) -> None:
    lake, path, feed = tmp_path / "lake", tmp_path / "shop.jsonl", told(OpenFeed(), {"t": ""})
    run(write_recording(path, feed.messages), lake)
    changed(feed, {"t": "ADD COLUMN x INT DEFAULT 7, RENAME COLUMN w TO y"})
    run(write_recording(path, feed.messages), lake)
    feed.ddl(9, "t", "ALTER TABLE `shop`.`t` RENAME COLUMN x TO w, DROP COLUMN v")
    feed.row(10, "t", 3, w=8)
    feed.resolved(11)
    run(write_recording(path, feed.messages), lake)

    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
    assert [name for name, *_ in schema_of(spark, lake, "t")] == ["id", "y", "w"]


def test_a_run_that_dies_in_the_middle_of_a_change_is_done_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 0)
    statements = {"t": "DROP COLUMN w, RENAME COLUMN v TO u", "u": "ADD COLUMN x INT DEFAULT 7"}
    lake, path = tmp_path / "lake", tmp_path / "shop.jsonl"
    feed = told(OpenFeed(), dict.fromkeys(statements, ""))
    run(write_recording(path, feed.messages), lake)
    write_recording(path, changed(feed, statements).messages)
    for name in ("ALTER gold/shop__t", "gold shop__u"):
        with killing(type(spark), partial(eq, name)) as writes, pytest.raises(Killed):
            run(path, lake)
        assert writes.dead
    run(path, lake)

    assert shown(lake, tmp_path / "shown") == engine(feed.messages)
    assert set(states(spark, lake).values()) == {("exact", None)}
