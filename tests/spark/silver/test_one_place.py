"""Rows of one transaction with one place in the binlog, and no number in it: MariaDB 11.4 writes no places
into row events unless it is told to, and a connector no transaction metadata.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.events import Message
from lakehouse.spark import limits
from lakehouse.spark.pipeline.try_recording import try_recording
from tests.support.lakes import quiet, silver_rows, write_recording


def told(table: str, *rows: tuple[str, int | None, int | None, int]) -> list[Message]:
    """(op, value before, value after, place) of key 1."""
    messages = []
    for offset, (op, old, new, place) in enumerate(rows):
        before, after = (None if value is None else {"id": 1, "v": value} for value in (old, new))
        source = {"db": "d", "table": table, "server_id": 1, "file": "b.000001", "pos": place, "row": 0}
        value = {
            "op": op,
            "before": before,
            "after": after,
            "source": {**source, "ts_ms": place, "snapshot": "false", "gtid": f"0-1-{place}"},
        }
        messages.append(Message(f"s.d.{table}", 0, offset, b'{"id": 1}', json.dumps(value).encode()))
    return messages


@pytest.mark.parametrize("driver_reads", (limits.SILVER_BATCH_RECORDS, 0))
def test_a_table_that_has_lost_one_of_two_changes_at_one_place_is_not_exact(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, driver_reads: int
) -> None:
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", driver_reads)
    path = write_recording(
        tmp_path / "one.jsonl",
        [
            *told("gone", ("c", None, 1, 10), ("d", 1, None, 10)),
            *told("anew", ("c", None, 1, 20), ("d", 1, None, 30), ("c", None, 2, 30)),
            *told("twice", ("c", None, 1, 40), ("u", 1, 2, 50), ("u", 2, 3, 50)),
            *told("apart", ("c", None, 1, 60), ("u", 1, 2, 70), ("d", 2, None, 80)),
        ],
    )

    result = try_recording(path, "debezium", {}, str(tmp_path / "lake"), "eventual", quiet)

    states = {one["table"]: one["state"] for one in result["tables"]}
    assert states == {**dict.fromkeys(("d.gone", "d.anew", "d.twice"), "incomplete"), "d.apart": "exact"}
    letters = silver_rows(spark, tmp_path / "lake", "one", "dead_letters")
    assert [row["code"] for row in letters] == ["conflict"] * 3
