"""A change that a feed never delivered makes its table incomplete, in every mode and size; where it comes
late, the table is exact again (docs/continuity.md).
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.spark import limits
from lakehouse.spark.operations.audit import audit
from lakehouse.spark.operations.rebuild import rebuild_table
from lakehouse.spark.pipeline.run import run
from tests.support.feeds import TiCDC
from tests.support.lakes import quiet, shown, write_recording

MODES = {
    "upsert": "{}",
    "soft": "{deletes: soft}",
    "history": "{mode: history}",
    "append": "{mode: append}",
}
WAYS: dict[str, dict[str, int]] = {
    "whole on the driver": {},
    "in jobs": {"GOLD_TABLE_CHANGES": 1, "GOLD_WINDOW_CHANGES": 0},
}


class Lossy:
    """A feed of one table per mode. `lost` of an update is sent late."""

    def __init__(self, folder: Path, *modes: str) -> None:
        self.folder, self.feed, self.tables = folder, TiCDC(), modes or tuple(MODES)
        for name in ("sources", "tables"):
            (folder / "configs" / name).mkdir(parents=True)
        source = f"format: ticdc-canal-json\nrecording: {folder / 'feed.jsonl'}\nlake: {folder / 'lake'}\n"
        source += "time_zone: UTC\ntables: auto\noptions: {tidb_extension: 'true'}\n"
        (folder / "configs/sources/s.yml").write_text(source)
        for table in self.tables:
            (folder / f"configs/tables/d.{table}.yml").write_text(f"source: s\ngold: {MODES[table]}\n")

    def each(self, at: int, kind: str, new: str, old: str | None = None) -> None:
        for table in self.tables:
            before = None if old is None else {"id": 1, "v": old}
            self.feed.row(at, kind, {"id": 1, "v": new}, before, table=table)

    def watermark(self, at: int) -> None:
        self.feed.put(
            at, {"type": "TIDB_WATERMARK", "database": "", "table": "", "_tidb": {"watermarkTs": at}}
        )

    def run(self) -> dict[str, tuple[str, str | None]]:
        """Each table's state and reason."""
        write_recording(self.folder / "feed.jsonl", self.feed.messages)
        came = run(load(self.folder / "configs"), ("bronze", "silver", "gold"), True, (), None, quiet)[0]
        return {entry["table"].removeprefix("d."): (entry["state"], entry["why"]) for entry in came["tables"]}

    def audited(self) -> list[str]:
        """What the audit of the lake finds."""
        [entry] = audit(str(self.folder / "lake"), "s", quiet)
        return sorted(entry["findings"])


@pytest.mark.parametrize("way", WAYS)
def test_a_lost_update_makes_its_table_incomplete_until_it_comes(
    spark: Any, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(limits, name, value)
    lake = Lossy(tmp_path)
    for table in MODES:
        lake.feed.ddl(1, f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))", table=table)
    lake.each(2, "INSERT", "a")
    lake.each(4, "UPDATE", "c", "b")
    lake.watermark(10)
    found = lake.run()

    for state, why in found.values():
        assert state == "incomplete" and why is not None
        assert "(1, the first: an old image that is not the row before it: key 080a9ed42855" in why
        assert "at 0.4.1 after 0.2.1)" in why

    lake.each(3, "UPDATE", "b", "a")  # late
    lake.watermark(20)
    lake.each(30, "UPDATE", "d", "c")
    lake.watermark(40)
    # nothing is lacking any more; that a watermark was wrong is said until the next one
    assert all((why or "").startswith("changes came after a watermark") for _, why in lake.run().values())
    assert shown(tmp_path / "lake", tmp_path / "out")["d.upsert"] == [{"id": 1, "v": "d"}]


def test_the_first_change_of_a_run_is_held_against_the_row_that_gold_has(spark: Any, tmp_path: Path) -> None:
    lake = Lossy(tmp_path)
    for table in MODES:
        lake.feed.ddl(1, f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))", table=table)
    lake.each(2, "INSERT", "a")
    lake.watermark(10)
    assert set(lake.run().values()) == {("exact", None)}

    lake.each(12, "UPDATE", "b", "a")
    lake.watermark(20)
    assert set(lake.run().values()) == {("exact", None)}

    for table in MODES:  # whose insert is lost
        lake.feed.row(22, "UPDATE", {"id": 2, "v": "y"}, {"id": 2, "v": "x"}, table=table)
        lake.feed.row(24, "INSERT", {"id": 3, "v": "z"}, table=table)
    lake.watermark(30)
    for state, why in lake.run().values():
        assert state == "incomplete" and why is not None
        assert "(1, the first: an update or delete of a row that is not there: key" in why
        assert "at 0.22.1 after 0.20.2)" in why


def test_what_a_run_did_not_hold_against_gold_is_told_by_the_audit(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lossy(tmp_path, "upsert")
    lake.feed.ddl(1, "CREATE TABLE upsert (id INT PRIMARY KEY, v VARCHAR(9))", table="upsert")
    lake.each(2, "INSERT", "a")
    lake.watermark(10)
    assert set(lake.run().values()) == {("exact", None)}
    assert lake.audited() == []

    # more than the driver holds: the first change of a row is not held against the row that gold has
    for name, value in WAYS["in jobs"].items():
        monkeypatch.setattr(limits, name, value)
    lake.each(12, "UPDATE", "c", "b")
    lake.each(14, "UPDATE", "d", "c")
    lake.watermark(20)
    assert set(lake.run().values()) == {("exact", None)}

    [found] = lake.audited()
    assert found.startswith("gold d__upsert: changes do not fit the rows before them")
    assert "(1, the first: an old image that is not the row before it" in found

    rebuilt = rebuild_table(str(tmp_path / "lake"), "d.upsert", None, True, "an update is lost")
    assert len(rebuilt["lacking"]) == 1 and rebuilt["replaced"] is True
    assert {state for state, _ in lake.run().values()} == {"incomplete"}
    assert lake.audited() == []


def test_a_table_merged_of_shards_is_held_against_itself_by_the_audit(spark: Any, tmp_path: Path) -> None:
    """Its runs do not hold what is new against the rows that gold has."""
    lake = Lossy(tmp_path, "upsert")
    (tmp_path / "configs/tables/d.upsert.yml").rename(tmp_path / "configs/tables/d.all.yml")
    (tmp_path / "configs/tables/d.all.yml").write_text("source: s\ntables: d.o_*\n")
    for table in ("o_1", "o_2"):
        lake.feed.ddl(1, f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9))", table=table)
        lake.feed.row(2, "INSERT", {"id": 1, "v": "a"}, table=table)
    lake.watermark(10)
    assert set(lake.run().values()) == {("exact", None)}
    assert lake.audited() == []

    lake.feed.row(12, "UPDATE", {"id": 1, "v": "c"}, {"id": 1, "v": "b"}, table="o_2")
    lake.watermark(20)
    assert set(lake.run().values()) == {("exact", None)}

    [found] = lake.audited()
    assert "(1, the first: an old image that is not the row before it" in found
