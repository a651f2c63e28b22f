"""A table that can't be written is behind, with its error, and the others go on."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.spark.gold import merge
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.table_versions import history_of
from tests.spark.gold.test_new_changes import ddl, insert, numbered, watermark
from tests.support.lakes import quiet, shown, write_recording

LONG = "表" * 60  # 180 bytes in UTF-8: two such names are no folder's


def attempt(folder: Path, told: list[dict[str, Any]]) -> dict[str, Any]:
    path = write_recording(folder / "feed.jsonl", numbered(told))
    return try_recording(path, "ticdc-canal-json", {}, str(folder / "lake"), "resolved", quiet)


def test_a_table_that_cannot_be_written_is_behind_with_its_error_and_the_others_go_on(
    spark: Any, tmp_path: Path
) -> None:
    told = [ddl("a", 100), ddl("b", 101), insert("a", 1, 110), insert("b", 1, 111), watermark(120)]
    assert {entry["state"] for entry in attempt(tmp_path, told)["tables"]} == {"exact"}
    # what can happen to storage: the log of one table can't be read
    log = tmp_path / "lake/gold/d__a/_delta_log"
    (first,) = log.glob("*.json")
    whole = first.read_bytes()
    first.write_bytes(b"{")

    told += [insert("a", 2, 130), insert("b", 2, 131), watermark(140)]
    states = {entry["table"]: (entry["state"], entry["why"]) for entry in attempt(tmp_path, told)["tables"]}
    assert states["d.b"] == ("exact", None)
    assert states["d.a"][0] == "behind"
    assert str(states["d.a"][1]).startswith("its run failed: ")

    for checksum in log.glob(".*.crc"):
        checksum.unlink()
    first.write_bytes(whole)
    spark.catalog.clearCache()
    assert {entry["state"] for entry in attempt(tmp_path, told)["tables"]} == {"exact"}, (
        "without new messages"
    )
    rows = {table: [{"id": n, "v": f"{table}-{n}"} for n in (1, 2)] for table in "ab"}
    assert shown(tmp_path / "lake", tmp_path / "out") == {f"d.{table}": rows[table] for table in "ab"}


def test_a_table_whose_files_somebody_puts_together_meanwhile_is_merged_into_all_the_same(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform does so by itself. The whole table would be folded again by the next run."""
    told = [ddl("a", 100), insert("a", 1, 110), watermark(120)]
    attempt(tmp_path, told)
    merge_frame, tried = merge.merge_frame, list[str]()

    def overtaken(*given: Any, **named: Any) -> merge.Merged:
        tried.append("")
        if len(tried) == 1:
            spark.sql(f"OPTIMIZE delta.`{tmp_path}/lake/gold/d__a`")
            raise RuntimeError("[DELTA_CONCURRENT_DELETE_READ] …")
        return merge_frame(*given, **named)

    monkeypatch.setattr(merge, "merge_frame", overtaken)
    outcome = attempt(tmp_path, [*told, insert("a", 2, 130), watermark(140)])

    assert [(entry["table"], entry["state"]) for entry in outcome["tables"]] == [("d.a", "exact")]
    assert shown(tmp_path / "lake", tmp_path / "out")["d.a"] == [{"id": n, "v": f"a-{n}"} for n in (1, 2)]
    history = history_of(spark, f"delta.`{tmp_path}/lake/gold/d__a`")
    assert [one.operation for one in history] == ["MERGE", "WRITE"]


def test_long_names_and_a_column_named_as_one_of_ours_are_tables_like_others(
    spark: Any, tmp_path: Path
) -> None:
    own = "CREATE TABLE `own` (`id` INT PRIMARY KEY, `_lakehouse_op` VARCHAR(20))"
    types = {
        "sqlType": {"id": 4, "_lakehouse_op": 12},
        "mysqlType": {"id": "int", "_lakehouse_op": "varchar"},
    }
    told = [ddl(LONG, 100), ddl(f"{LONG[:-1]}格", 101), {**ddl("own", 102), "sql": own}]

    def row(number: int, at: int) -> list[dict[str, Any]]:
        data = [{"id": str(number), "_lakehouse_op": "delete"}]
        return [
            {**insert(LONG, number, at), "database": LONG},
            {**insert("own", number, at + 1), "data": data, **types},
        ]

    told[0]["database"] = LONG
    told += [*row(1, 110), watermark(120)]
    attempt(tmp_path, told)
    told += [*row(2, 130), watermark(140)]

    outcome = attempt(tmp_path, told)

    assert {entry["state"] for entry in outcome["tables"]} == {"exact"}
    rows = shown(tmp_path / "lake", tmp_path / "out")
    assert [row["_lakehouse_op"] for row in rows["d.own"]] == ["delete", "delete"]
    assert {len(entry["location"].rpartition("/")[2].encode()) <= 200 for entry in outcome["tables"]} == {
        True
    }


def test_a_table_of_which_statements_alone_tell_has_no_gold_table_until_a_row_comes(
    spark: Any, tmp_path: Path
) -> None:
    altered = {**ddl("b", 101), "sql": "ALTER TABLE `b` ADD COLUMN `w` INT"}
    told = [ddl("a", 100), altered, insert("a", 1, 110), watermark(120)]
    outcome = attempt(tmp_path, told)
    assert ([entry["table"] for entry in outcome["tables"]], outcome["problems"]) == (["d.a"], [])

    outcome = attempt(tmp_path, [*told, insert("b", 1, 130), watermark(140)])

    assert ([entry["table"] for entry in outcome["tables"]], outcome["problems"]) == (["d.a", "d.b"], [])
    assert shown(tmp_path / "lake", tmp_path / "out")["d.b"] == [{"id": 1, "v": "b-1"}]


def test_a_table_whose_first_statement_is_not_understood_is_told(spark: Any, tmp_path: Path) -> None:
    unread = {**ddl("b", 101), "sql": "CREATE TABLE `b` (`id` INT) FROBNICATE"}

    outcome = attempt(tmp_path, [ddl("a", 100), unread, insert("a", 1, 110), watermark(120)])

    assert [entry["table"] for entry in outcome["tables"]] == ["d.a"]
    [problem] = outcome["problems"]
    assert problem.startswith("d.b: held before any column of it is known: character ")
