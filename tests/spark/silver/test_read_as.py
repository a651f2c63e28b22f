"""A source's silver has one reading of its bytes: other options of the decoder are refused, not mixed in."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import rebuild_silver
from lakehouse.spark.pipeline.try_recording import try_recording
from tests.support.lakes import quiet

T = 470_000_000_000_000_000
SHANGHAI = {"time_zone": "Asia/Shanghai"}


def canal(commit_ts: int, **told: Any) -> str:
    plain = {
        "id": 0,
        "database": "d",
        "table": "t",
        "pkNames": ["id"],
        "es": 1,
        "ts": 1,
        "sql": "",
        "data": None,
    }
    body = {**plain, "isDdl": False, "old": None, "_tidb": {"commitTs": commit_ts}, **told}
    return json.dumps(body)


def row(commit_ts: int, number: int) -> str:
    return canal(
        commit_ts,
        type="INSERT",
        sqlType={"id": 4, "at": 93},
        mysqlType={"id": "int", "at": "timestamp"},
        data=[{"id": str(number), "at": "2026-01-01 12:00:00"}],
    )


def watermark(ts: int) -> str:
    return canal(ts, type="TIDB_WATERMARK", _tidb={"watermarkTs": ts})


def write(path: Path, values: list[str]) -> Path:
    encoded = [b64encode(value.encode()).decode() for value in values]
    lines = [{"topic": "d", "partition": 0, "offset": n, "value_b64": text} for n, text in enumerate(encoded)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_another_zone_is_refused_until_silver_is_decoded_again(spark: Any, tmp_path: Path) -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP)"
    first = [canal(T, type="CREATE", isDdl=True, sql=create), row(T + 1, 1), watermark(T + 2)]
    lake = Lake(str(tmp_path / "lake"))

    def again(values: list[str], options: dict[str, str]) -> None:
        path = write(tmp_path / "d.jsonl", values)
        try_recording(path, "ticdc-canal-json", options, lake.root, "resolved", quiet)

    def instants() -> list[str]:
        rows = lake.read(spark, "gold", "d__t").orderBy("id").selectExpr("cast(at as string)").collect()
        return [found[0] for found in rows]

    again(first, {})
    assert instants() == ["2026-01-01 12:00:00"]
    assert not rebuild_silver(lake.root, "d", yes=False)["switched"]  # its silver is begun in the former zone
    grown = [*first, row(T + 3, 2), watermark(T + 4)]
    with pytest.raises(
        LakehouseError,
        match=(
            r"^d: expected the decoder's options that silver was decoded with, got others "
            r"\(time_zone was 'UTC', is 'Asia/Shanghai'\); set them back, or decode everything again: "
            r"`lakehouse rebuild silver d --yes`$"
        ),
    ):
        again(grown, SHANGHAI)
    assert instants() == ["2026-01-01 12:00:00"]

    rebuild_silver(lake.root, "d", yes=True)
    again(grown, SHANGHAI)

    assert instants() == ["2026-01-01 04:00:00"] * 2
