"""The modes of a gold table in a real lake, against the engine in plain Python."""

import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.load import load
from lakehouse.events import Message
from lakehouse.gold.options import ColumnOptions, GoldOptions
from lakehouse.spark import limits
from lakehouse.spark.lake import Lake
from lakehouse.spark.pipeline.run import run
from tests.support.arrivals import Feed
from tests.support.engine import TSO, Memory
from tests.support.feeds import TiCDC
from tests.support.lakes import in_order, quiet, shown, write_recording
from tests.support.source_model import History

Said = dict[tuple[str, str], GoldOptions]
MASKED = {"a": ColumnOptions(hash="sha256"), "b": ColumnOptions(rename="bee")}
WORDS = {
    "d.t": "gold: {mode: history}",
    "d.u": "gold: {mode: append}",
    "d.v": "gold: {deletes: soft}",
    "d.w": "gold: {mode: history}\ncolumns: {a: {hash: sha256}, b: {rename: bee}}",
}
SAID: Said = {
    ("d", "t"): GoldOptions(mode="history"),
    ("d", "u"): GoldOptions(mode="append"),
    ("d", "v"): GoldOptions(deletes="soft"),
    ("d", "w"): GoldOptions(mode="history", columns=MASKED),
}


def run_all(folder: Path, format_: str, recording: Path, tables: dict[str, str]) -> dict[str, Any]:
    """One run of a lake in `folder`, by a configuration of these tables."""
    configs = folder / "configs"
    shutil.rmtree(configs, ignore_errors=True)
    for kind in ("sources", "tables"):
        (configs / kind).mkdir(parents=True)
    source = (
        f"format: {format_}\nrecording: {recording}\nlake: {folder / 'lake'}\ntime_zone: UTC\ntables: auto\n"
    )
    (configs / "sources" / "s.yml").write_text(source)
    for name, text in tables.items():
        (configs / "tables" / f"{name}.yml").write_text(f"source: s\n{text}\n")
    return run(load(configs), ("bronze", "silver", "gold"), True, (), None, quiet)[0]


def expected(
    told: Iterable[Message], said: Said, format_: str = "ticdc-open"
) -> dict[str, list[dict[str, Any]]]:
    silver = Memory(format_).add(told)
    return in_order(silver.tables(silver.watermark, said, TSO))


@pytest.fixture(scope="module")
def arrived() -> list[Message]:
    """A history of several tables, with keys that change, DDL of all kinds, and a replay."""
    chance, history = random.Random(4), History(32, 60)
    return Feed(history.events, chance, 2, "table").restart(at_resolved=True).arrival(chance)


def test_a_feed_that_grows_gives_in_every_mode_what_the_engine_tells(
    spark: Any, tmp_path: Path, arrived: list[Message]
) -> None:
    for part in (0.6, 1.0):
        landed = arrived[: int(len(arrived) * part)]
        run_all(tmp_path, "ticdc-open", write_recording(tmp_path / "r.jsonl", landed), WORDS)

        assert shown(tmp_path / "lake", tmp_path / "live") == expected(landed, SAID), part
    told = Memory("ticdc-open").add(arrived)
    at = sorted(change.position[1] for change in told.changes.values())[len(told.changes) // 2]
    assert shown(tmp_path / "lake", tmp_path / "then", at) == in_order(
        told.tables((0, at, 2, 0, 0, 0), SAID, TSO)
    )


@pytest.mark.long  # a minute and more
def test_large_tables_are_told_in_jobs_as_small_ones_on_the_driver(
    spark: Any, tmp_path: Path, arrived: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GOLD_TABLE_CHANGES", 5)

    for part in (0.85, 1.0):
        landed = arrived[: int(len(arrived) * part)]
        run_all(tmp_path, "ticdc-open", write_recording(tmp_path / "r.jsonl", landed), WORDS)

        assert shown(tmp_path / "lake", tmp_path / "live") == expected(landed, SAID), part


def shop() -> TiCDC:
    """A table of four rows, of which one is deleted."""
    feed = TiCDC().ddl(1 << 18, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `a` VARCHAR(20), `b` VARCHAR(20))")
    for number in range(4):
        feed.insert((2 + number) << 18, id=number, a=f"a{number}", b="x")
    return resolved(feed.row(9 << 18, "DELETE", {"id": 3, "a": "a3", "b": "x"}), 10)


def resolved(feed: TiCDC, tick: int) -> TiCDC:
    return feed.put(
        tick << 18, {"type": "TIDB_WATERMARK", "isDdl": False, "_tidb": {"watermarkTs": tick << 18}}
    )


def detail(spark: Any, folder: Path) -> tuple[list[str], list[str]]:
    row = spark.sql(f"DESCRIBE DETAIL {Lake(str(folder / 'lake')).ref('gold', 'd__t')}").first()
    return list(row.partitionColumns), list(row.clusteringColumns or [])


@pytest.mark.long  # a minute and more
def test_another_mode_or_layout_is_built_anew_and_goes_on(spark: Any, tmp_path: Path) -> None:
    feed = shop()
    steps: list[tuple[str, GoldOptions, tuple[list[str], list[str]]]] = [
        ("gold: {mode: append, partition_by: [b]}", GoldOptions(mode="append"), (["b"], [])),
        ("gold: {mode: history, cluster_by: [id]}", GoldOptions(mode="history"), ([], ["id"])),
        ("gold: {mode: upsert}", GoldOptions(), ([], [])),
        ("gold: {deletes: soft, partition_by: [b]}", GoldOptions(deletes="soft"), (["b"], [])),
    ]

    for number, (text, options, layout) in enumerate(steps):
        for more in range(2):
            tick = 20 + 4 * number + 2 * more
            resolved(
                feed.row(tick << 18, "UPDATE", {"id": more, "a": f"b{tick}", "b": "y"}, {"a": "?", "b": "x"}),
                tick + 1,
            )
            path = write_recording(tmp_path / "r.jsonl", feed.messages)
            run_all(tmp_path, "ticdc-canal-json", path, {"d.t": text})

            assert shown(tmp_path / "lake", tmp_path / "live") == expected(
                feed.messages, {("d", "t"): options}, "ticdc-canal-json"
            ), text
        assert detail(spark, tmp_path) == layout, text


@pytest.mark.long  # a minute and more
def test_computed_columns_and_a_yaml_that_does_not_fit(spark: Any, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "r.jsonl", shop().messages)
    place = Lake(str(tmp_path / "lake"))

    hidden = run_all(tmp_path, "ticdc-canal-json", path, {"d.t": "columns: {id: {exclude: true}}"})
    unknown = run_all(tmp_path, "ticdc-canal-json", path, {"d.t": "columns: {c: {computed: lower(nothing)}}"})
    good = run_all(
        tmp_path,
        "ticdc-canal-json",
        path,
        {"d.t": "columns: {c: {computed: 'concat(a, b)'}, z: {rename: y}}"},
    )
    rows = place.read(spark, "gold", "d__t").orderBy("id").collect()
    live = shown(tmp_path / "lake", tmp_path / "live")
    wrong = run_all(tmp_path, "ticdc-canal-json", path, {"d.t": "gold: {partition_by: [nothing]}"})

    assert (hidden["tables"], unknown["tables"]) == ([], [])
    assert [row.asDict() for row in rows] == [
        {"id": n, "a": f"a{n}", "b": "x", "c": f"a{n}x"} for n in range(3)
    ]
    assert live["d.t"] == [{"id": n, "a": f"a{n}", "b": "x", "c": f"a{n}x"} for n in range(3)]
    assert good["tables"][0]["notes"] == ["columns.z: the table has no such column"]
    assert (wrong["tables"][0]["state"], wrong["tables"][0]["why"]) == (
        "behind",
        "held by its YAML: gold.partition_by: the gold table has no column nothing",
    )


def united(feed: TiCDC) -> list[dict[str, Any]]:
    """The tables d.o_* as one: with the columns of all, in the order of the first."""
    tables = {
        name: rows
        for name, rows in expected(feed.messages, {}, "ticdc-canal-json").items()
        if name.startswith("d.o_")
    }
    names = list(dict.fromkeys(name for rows in tables.values() for row in rows for name in row))
    return in_order(
        {
            "": [
                {n: row.get(n) for n in names} | {"_shard": table}
                for table, rows in tables.items()
                for row in rows
            ]
        }
    )[""]


@pytest.mark.long  # a minute and more
def test_shards_are_one_table_through_moves_collisions_ddl_and_drops(spark: Any, tmp_path: Path) -> None:
    feed = TiCDC()
    for number in range(3):
        table = f"o_{number}"
        feed.ddl(
            (1 + number) << 18, f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY, `a` VARCHAR(20))", table=table
        )
        feed.row((5 + number) << 18, "INSERT", {"id": number, "a": "x"}, table=table)
    feed.ddl(9 << 18, "CREATE TABLE `other` (`id` INT PRIMARY KEY)", table="other")
    steps = [
        lambda at: feed,
        # a row moves: it is in both for a while, then gone from the first
        lambda at: feed.row(at, "INSERT", {"id": 0, "a": "moved"}, table="o_1"),
        lambda at: feed.row(at, "DELETE", {"id": 0, "a": "x"}, table="o_0"),
        lambda at: feed.ddl(at, "ALTER TABLE `o_2` ADD COLUMN `b` INT DEFAULT 7", table="o_2"),
        lambda at: feed.ddl(at, "DROP TABLE `o_2`", table="o_2"),
    ]
    told: list[tuple[list[str], str]] = []
    for number, step in enumerate(steps):
        resolved(step((20 + 2 * number) << 18), 21 + 2 * number)
        path = write_recording(tmp_path / "r.jsonl", feed.messages)
        came = run_all(tmp_path, "ticdc-canal-json", path, {"d.orders": "tables: d.o_*"})

        live = shown(tmp_path / "lake", tmp_path / "live")
        assert live["d.orders"] == united(feed), number
        assert sorted(live) == ["d.orders", "d.other"]
        entry = next(table for table in came["tables"] if table["table"] == "d.orders")
        told.append((entry["notes"], entry["state"]))

    assert told == [
        ([], "exact"),
        (["1 keys are in more than one shard: _shard tells their rows apart"], "exact"),
        ([], "exact"),
        (["d.o_0, d.o_1: no column b, which other shards have"], "exact"),
        ([], "exact"),
    ]
