"""Money moves between three tables in one transaction: its sum is the same at every manifest, whatever
arrives late.
"""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.silver import Done
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.maintain import maintain
from lakehouse.spark.operations.rebuild import rebuild_table
from lakehouse.spark.operations.retention import raise_floor
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.try_recording import try_recording
from lakehouse.spark.readers.show import show_all
from lakehouse.spark.readers.status import reconciliation
from lakehouse.spark.readers.views import open_views
from lakehouse.spark.silver.tables import read_silver
from tests.support.canal_feed import CanalFeed
from tests.support.lakes import write_recording

BANKS = ("a", "b", "c")


def quiet(_: str) -> None:
    pass


def transfers(chance: random.Random, count: int) -> CanalFeed:
    """Three banks in three partitions, two accounts of 100 each; one bank changes its columns on the way."""
    feed = CanalFeed("bank", a=0, b=1, c=2)
    accounts = {(bank, number): 100 for bank in BANKS for number in (1, 2)}
    for bank in BANKS:
        feed.ddl(f"CREATE TABLE {bank} (id INT PRIMARY KEY, balance INT)", bank)
    feed.together(*((bank, {"id": number, "balance": 100}, None) for bank, number in accounts))
    for turn in range(count):
        giver, taker = chance.sample(sorted(accounts), 2)
        moved, rows = chance.randint(1, 50), []
        for account, amount in ((giver, -moved), (taker, moved)):
            before = accounts[account]
            accounts[account] += amount
            rows.append(
                (
                    account[0],
                    {"id": account[1], "balance": accounts[account]},
                    {"id": account[1], "balance": before},
                )
            )
        feed.together(*rows)
        if turn == count // 2:
            feed.ddl("ALTER TABLE b ADD COLUMN note VARCHAR(10) FIRST", "b")
        if chance.random() < 0.4:
            feed.resolved()
    return feed.resolved()


def changes(spark: Any, lake: Path) -> int:
    return int(read_silver(spark, Lake(str(lake)), "bank", "changes").count())


def total(spark: Any, lake: Path, at: str | None = None) -> int:
    frames = open_views(spark, Lake(str(lake)), at=at)
    return sum(row.balance for bank in BANKS for row in frames[f"gold_d__{bank}"].select("balance").collect())


@pytest.fixture(scope="module")
def bank(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A lake that has published three times, and the watermarks of its manifests; each time partitions were
    cut at other places.
    """
    folder = tmp_path_factory.mktemp("bank")
    chance, lake = random.Random(11), folder / "lake"
    feed = transfers(chance, 40)
    for share in (0.4, 0.7, 1.0):
        cuts = {
            bank: min(1.0, share + chance.uniform(-0.15, 0.15)) if share < 1 else 1.0 for bank in range(3)
        }
        sizes = {number: sum(m.partition == number for m in feed.messages) for number in cuts}
        landed = [m for m in feed.messages if m.offset < cuts[m.partition] * sizes[m.partition]]
        try_recording(
            write_recording(folder / "bank.jsonl", landed),
            "ticdc-canal-json",
            {},
            str(lake),
            "resolved",
            quiet,
        )
        assert total(spark, lake) == 600
    log = OpsLog(spark, Lake(str(lake)), "bank").load()
    return lake, [str(list(manifest.watermark)) for manifest in log.all(Manifest)]


def test_the_sum_over_three_tables_is_the_same_at_every_manifest(
    spark: Any, bank: tuple[Path, list[str]]
) -> None:
    lake, moments = bank

    assert len(set(moments)) == 3
    assert [total(spark, lake, at) for at in moments] == [600, 600, 600]
    with pytest.raises(
        LakehouseError,
        match="bank: expected a manifest at or before 2020-01-01T00:00:00Z, the first one is later",
    ):
        open_views(spark, Lake(str(lake)), at="2020-01-01T00:00:00Z")


@pytest.mark.long  # minutes
def test_maintenance_keeps_every_manifest_that_is_to_be_kept_and_every_replay(
    spark: Any, bank: tuple[Path, list[str]], tmp_path: Path
) -> None:
    lake, moments = bank
    shutil.copytree(lake, tmp_path / "lake")
    shutil.copy(lake.parent / "bank.jsonl", tmp_path / "bank.jsonl")
    lake = tmp_path / "lake"

    maintain(str(lake), None, 7 * 86400, quiet)
    assert [total(spark, lake, at) for at in moments] == [600, 600, 600]
    maintain(str(lake), "bank", 0, quiet)
    assert total(spark, lake) == 600
    again = try_recording(tmp_path / "bank.jsonl", "ticdc-canal-json", {}, str(lake), "resolved", quiet)
    assert (again["new_messages"], again["gold"]) == (0, "nothing new")


@pytest.mark.long  # minutes
def test_a_floor_keeps_every_table_and_refuses_what_comes_below_it(spark: Any, tmp_path: Path) -> None:
    feed, lake, path = transfers(random.Random(5), 20), tmp_path / "lake", tmp_path / "bank.jsonl"
    half = feed.messages[len(feed.messages) // 2 :]
    try_recording(write_recording(path, feed.messages), "ticdc-canal-json", {}, str(lake), "resolved", quiet)
    before, at = (
        changes(spark, lake),
        json.loads(next(m.value for m in half if b"WATERMARK" in (m.value or b"")) or b""),
    )
    floor = at["_tidb"]["watermarkTs"]
    expected = {name: tables_shown(lake, tmp_path / "shown", name) for name in (str(floor), None)}

    told = raise_floor(str(lake), "bank", str(floor), None, False, "")
    assert (told["done"], told["keeps_its_log"], changes(spark, lake)) == (False, {}, before)
    assert raise_floor(str(lake), "bank", str(floor), None, True, "a quarter is over")["done"]

    assert changes(spark, lake) == before - told["changes_below"] + 6
    assert {name: tables_shown(lake, tmp_path / "shown", name) for name in expected} == expected
    assert rebuild_table(str(lake), "d.b", None, True)["only_live"] == 0
    with pytest.raises(
        LakehouseError, match=f"--at {floor - 10}: expected a moment at or above silver's floor, .*{floor}"
    ):
        tables_shown(lake, tmp_path / "shown", str(floor - 10))
    # everything again, on new offsets
    repeated = [msgspec.structs.replace(m, offset=m.offset + 1000) for m in feed.messages]
    try_recording(
        write_recording(path, [*feed.messages, *repeated]),
        "ticdc-canal-json",
        {},
        str(lake),
        "resolved",
        quiet,
    )
    done = OpsLog(spark, Lake(str(lake)), "bank").load().last(Done)
    assert done is not None
    counts = done.counts
    assert (counts.below, counts.inserted, reconciliation(counts)) == (told["changes_below"], 0, "closed")
    assert {name: tables_shown(lake, tmp_path / "shown", name) for name in expected} == expected


def tables_shown(lake: Path, folder: Path, at: str | None) -> dict[str, str]:
    shutil.rmtree(folder, ignore_errors=True)
    return {path.name: path.read_text() for path in show_all(str(lake), folder, [at] if at else [])}
