"""What a retention floor leaves behind, beside rows."""

from pathlib import Path
from typing import Any

from lakehouse.spark.operations.rebuild import rebuild_table
from lakehouse.spark.operations.retention import raise_floor
from lakehouse.spark.pipeline.try_recording import try_recording
from tests.spark.gold.test_new_changes import canal_json, numbered, watermark
from tests.support.lakes import quiet, write_recording


def change(kind: str, at: int, value: str) -> dict[str, Any]:
    types = {"sqlType": {"v": 12}, "mysqlType": {"v": "varchar"}, "pkNames": []}
    return canal_json(kind, "t", at, data=[{"v": value}], **types)


def test_what_changes_below_a_floor_lacked_is_not_forgotten_when_the_table_is_folded_again(
    spark: Any, tmp_path: Path
) -> None:
    create = canal_json("CREATE", "t", 100, isDdl=True, sql="CREATE TABLE `t` (`v` VARCHAR(20))")
    told = [create, change("INSERT", 110, "a"), change("UPDATE", 120, "b"), watermark(200)]
    lake = str(tmp_path / "lake")

    def state(messages: list[dict[str, Any]]) -> tuple[str, str]:
        path = write_recording(tmp_path / "feed.jsonl", numbered(messages))
        (entry,) = try_recording(path, "ticdc-canal-json", {}, lake, "resolved", quiet)["tables"]
        return entry["state"], entry["why"]

    found = state(told)
    assert found[0] == "incomplete"
    assert "which row was before it" in found[1]

    raise_floor(lake, "feed", "200", None, yes=True, why="a test")
    rebuild_table(lake, "d.t", None, yes=True, why="a test")

    assert state([*told, change("INSERT", 210, "c"), watermark(300)]) == found
