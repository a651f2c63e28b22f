"""`lakehouse verify SOURCE --sample 10%` as an operator runs it, against a real MariaDB."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ops.records.gold import Manifest
from lakehouse.ops.records.operators import Verified
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.verification import looks
from lakehouse.verification.cells import digest
from lakehouse.verification.rows import key_hash
from tests.cli.test_commands import lakehouse
from tests.oracle.database import Database
from tests.servers.mariadb import MariaDb, start_mariadb
from tests.support.live_feed import BINLOG, FedLake, LiveFeed, created

ROWS = 200
TENTH = f"shop.item  {ROWS} rows, of which 10% looked at"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MariaDb]:
    with start_mariadb(tmp_path / "server", *BINLOG) as running:
        yield running


def row_in_bucket(number: int) -> int:
    """A row that ten buckets have in this one: they are dealt by the key's text."""
    return next(id_ for id_ in range(1, ROWS) if int(digest(str(id_).encode())[:8], 16) % 10 == number)


def test_a_sample_finds_what_differs_in_its_rows_and_says_which_share_it_looked_at(
    spark: Any, server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = created(LiveFeed(Database(server.port), "debezium"))
    told.ddl("item", "CREATE TABLE `item` (`id` int PRIMARY KEY, `v` varchar(20))")
    told.rows(f"INSERT INTO `item` VALUES {', '.join(f'({id_}, {id_})' for id_ in range(ROWS))}")
    lake = FedLake(tmp_path / "shop", told, server.port).run()
    # while the command waits for the feed, something is written and the pipeline runs
    monkeypatch.setattr(looks, "Options", partial(looks.Options, pause=lake.beat))
    log = OpsLog(spark, Lake(str(lake.lake)), "shop")

    def forged(bucket: int, *sample: str) -> tuple[int, str, str]:
        """Exit code, output and key of a run that finds a row of gold changed, where it looks there."""
        id_ = row_in_bucket(bucket)
        gold = f"delta.`{lake.lake}/gold/shop__item`"
        spark.sql(f"UPDATE {gold} SET v = 'forged' WHERE id = {id_}")
        done = lakehouse("verify", "shop", "--tables", "shop.item", *sample, "--configs", str(lake.folder))
        spark.sql(f"UPDATE {gold} SET v = '{id_}' WHERE id = {id_}")
        return done.returncode, re.sub(r"\s{3,}", "  ", done.stdout), key_hash([str(id_)])

    def sampled() -> int:
        """The bucket that the next run looks at."""
        manifest = log.load().last(Manifest)
        assert manifest is not None
        return sum(manifest.watermark) % 10

    missed = forged((sampled() + 5) % 10, "--sample", "10%")
    record = log.load().last(Verified)
    found = forged(sampled(), "--sample", "10%")
    whole = forged((sampled() + 5) % 10)

    assert (missed[0], TENTH in missed[1], "no difference" in missed[1]) == (0, True, True)
    assert record is not None
    assert (record.sample, record.tables[0].different) == (0.1, 0)
    assert (found[0], f"{TENTH}, 1 different" in found[1]) == (1, True)
    assert found[2] in found[1]
    assert (whole[0], "looked at" in whole[1], whole[2] in whole[1]) == (1, False, True)
