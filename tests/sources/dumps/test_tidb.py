"""Dumps that Dumpling writes of a real TiDB, at a TSO of its own, joined to what a feed tells.

The server is one that runs: see tests/support/tidb_feed.py.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.events import Message
from lakehouse.sources.database import DatabaseSettings
from lakehouse.sources.dumps.files import LocalDump
from lakehouse.sources.dumps.read import find_dump
from lakehouse.sources.dumps.records import Tso
from lakehouse.sources.dumps.snapshot import Found, place_in, snapshot_messages
from tests.oracle.check import Judged, compare, place
from tests.oracle.values import TYPES, literals
from tests.support.engine import Memory
from tests.support.live_feed import created
from tests.support.tidb_feed import DATABASE, TidbFeed, tidb_settings

WAYS = {
    "sql": ("--consistency=snapshot",),
    "split": ("--consistency=snapshot", "--rows=3", "--filesize=1KiB", "--compress=gzip"),
    "csv": ("--consistency=snapshot", "--filetype=csv", "--compress=zstd"),
}
ZONE = {"time_zone": "Etc/GMT-8"}

pytestmark = pytest.mark.skipif(shutil.which("dumpling") is None, reason="Dumpling is not installed")


@pytest.fixture(scope="module")
def settings() -> DatabaseSettings:
    return tidb_settings()


def dumped(settings: DatabaseSettings, path: Path, way: str) -> list[Message]:
    """The records of a dump, of the moment that its metadata tells."""
    where = (f"--host={settings.host}", f"--port={settings.port}", "--user=root", f"--output={path}")
    what = (f"--database={DATABASE}", "--status-addr=127.0.0.1:0", *WAYS[way])
    done = subprocess.run(["dumpling", *where, *what], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    dump = replace(find_dump(LocalDump(path)), zone="+00:00")
    assert isinstance(dump.place, Tso)
    return list(snapshot_messages(dump, place_in("ticdc-open", "tidb", dump.place, "s"), Found()))


@pytest.mark.parametrize("way", WAYS)
def test_every_type_is_what_the_feed_tells(settings: DatabaseSettings, tmp_path: Path, way: str) -> None:
    more = {
        "vector": ("'[1,2.5,-1e-10]'", "'[]'", "'[3.4028234e38]'"),
        "varchar(20) CHARACTER SET gbk": ("'中文'", "''"),
        "enum('中','文') CHARACTER SET gbk": ("'中'",),
        "text CHARACTER SET utf8": ("'中'", "'\\\\N'", "'\\0\\'\\\"\\n\\r\\Z\\\\'"),
    }
    told = TidbFeed(settings)
    kinds = {**{kind: literals(kind, strict=False) for kind in TYPES}, **more}
    columns = ", ".join(f"`c{number}` {kind}" for number, kind in enumerate(kinds))
    told.ddl("wide", f"CREATE TABLE `wide` (`id` int PRIMARY KEY, {columns})")
    for id_ in range(max(map(len, kinds.values()))):
        values = ", ".join(some[id_ % len(some)] for some in kinds.values())
        told.rows(f"INSERT INTO `wide` VALUES ({id_}, {values})")
    told.rows("INSERT INTO `wide` (`id`) VALUES (-1)")

    dump = dumped(settings, tmp_path / "dump", way)

    streamed, both = (Memory("ticdc-open", ZONE, row_ids=True) for _ in range(2))
    last = place(1 << 62)
    (by_feed,) = streamed.add(told.messages()).tables(last).values()
    (by_both,) = both.add(told.messages()).add(dump).tables(last).values()
    assert not both.dead
    assert len(by_feed) == len(by_both) > 10
    differ = {
        name
        for one, other in zip(by_feed, by_both, strict=True)
        for name, cell in one.items()
        if cell != other[name]
    }
    (lineage,) = both.lineages().live(last).values()
    # 1e100 is the highest FLOAT, of which TiDB prints six digits
    cut = f"c{list(kinds).index('float')}"
    assert differ == {cut}
    reason = f"column {cut}: the dump has six digits of each FLOAT"
    assert (lineage.incomplete_at(last) or ("", ""))[1] == reason


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_before_the_feed_and_statements_behind_the_dump_join(
    settings: DatabaseSettings, tmp_path: Path, way: str
) -> None:
    told = TidbFeed(settings)
    created(told)
    told.ddl(
        "item", "CREATE TABLE `item` (`id` int PRIMARY KEY, `v` varchar(20), `w` int AS (id + 1) VIRTUAL)"
    )
    told.ddl("bag", "CREATE TABLE `bag` (`a` int, `b` varchar(20))")
    told.unsaid("INSERT INTO item (id, v) VALUES (1, 'old'), (2, 'old')", "INSERT INTO bag VALUES (1, 'a')")
    told.unsaid("INSERT INTO bag VALUES (1, 'a')", "INSERT INTO beat VALUES ()")
    told.rows("UPDATE item SET v = 'new' WHERE id = 2")

    dump = dumped(settings, tmp_path / "dump", way)

    told.ddl("item", "ALTER TABLE `item` ADD COLUMN `n` int DEFAULT 7, DROP COLUMN `w`")
    told.ddl("bag", "ALTER TABLE `bag` CHANGE `b` `c` varchar(30)")
    told.rows("INSERT INTO item VALUES (3, 'later', 1)", "DELETE FROM item WHERE id = 1")
    told.rows("DELETE FROM bag LIMIT 1")
    silver = Memory("ticdc-open", ZONE, row_ids=True).add(told.messages()).add(dump)
    ts, state = told.runner.states[-1]
    compare(silver, place(ts), state, Judged())
    lineages = silver.lineages().live(place(ts)).values()
    assert [one.incomplete_at(place(ts)) for one in lineages] == [None, None, None]
