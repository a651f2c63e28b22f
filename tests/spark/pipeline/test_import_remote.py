"""`lakehouse import` of a dump in an object store, as an operator runs it, held against the database that it
came from.
"""

import gzip
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Manifest
from lakehouse.sources.dumps.read import find_dump
from lakehouse.sources.dumps.snapshot import Found, checked
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.import_dump import RemoteDump
from lakehouse.spark.verification import looks
from tests.cli.test_commands import lakehouse
from tests.oracle.database import Database
from tests.servers.mariadb import MariaDb, run_program, start_mariadb
from tests.support.live_feed import BINLOG, FedLake, LiveFeed, created

ITEM = """CREATE TABLE `item` (`id` int PRIMARY KEY, `v` varchar(20), `w` decimal(10,2), `b` blob,
  `t` datetime(3))"""
BAG = "CREATE TABLE `bag` (`a` int, `b` varchar(20))"


def by_mariadb_dump(server: MariaDb, folder: Path) -> None:
    """One file, packed."""
    words = ("--master-data=2", "--single-transaction", "--databases", "shop")
    folder.mkdir()
    (folder / "shop.sql.gz").write_bytes(gzip.compress(run_program("mariadb-dump", server, *words)))


def by_mydumper(server: MariaDb, folder: Path) -> None:
    """A folder of files, packed. Of one thread: those of 0.10 may wait for each other for ever."""
    where = ("--host=127.0.0.1", f"--port={server.port}", "--user=root", f"--outputdir={folder}")
    words = ("mydumper", *where, "--database=shop", "--compress", "--threads=1")
    subprocess.run(words, check=True, capture_output=True, timeout=60)


WITHOUT = pytest.mark.skipif(
    shutil.which("mydumper") is None, reason="mydumper is not installed (apt-get install mydumper)"
)


@pytest.mark.parametrize("dumped", (by_mariadb_dump, pytest.param(by_mydumper, marks=WITHOUT)))
def test_a_dump_in_an_object_store_is_the_database_that_it_came_from(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dumped: Callable[[MariaDb, Path], None]
) -> None:
    with start_mariadb(tmp_path / "server", *BINLOG) as server:
        told = created(LiveFeed(Database(server.port), "debezium"))
        told.ddl("item", ITEM).ddl("bag", BAG).rows("INSERT INTO `item` (`id`) VALUES (9)")
        told.rows(
            "INSERT INTO `item` VALUES (1, 'é\\'\\\\', 1.5, x'00ff27', '2024-01-01 00:00:00.5')",
            "INSERT INTO `item` VALUES (2, '', NULL, '', NULL), (3, 'three', -0.01, 'b', '9999-12-31')",
            "INSERT INTO `bag` VALUES (1, 'one'), (1, 'one'), (2, NULL)",
        ).skip()
        lake = FedLake(tmp_path / "shop", told, server.port).run()
        dumped(server, tmp_path / "bucket")
        told.rows("UPDATE `item` SET `v` = 'later' WHERE `id` IN (1, 9)", "DELETE FROM `item` WHERE `id` = 3")
        told.rows("DELETE FROM `bag` WHERE `a` = 1 LIMIT 1")

        where = ("--configs", str(lake.folder))
        shown = lakehouse("import", "shop", f"file://{tmp_path}/bucket", "--check", *where)
        done = lakehouse("import", "shop", f"file://{tmp_path}/bucket", *where)
        lake.beat()
        lake.beat()
        # while the command waits for the feed, something is written and the pipeline runs
        monkeypatch.setattr(looks, "Options", partial(looks.Options, pause=lake.beat))
        compared = lakehouse("verify", "shop", *where)

    assert (shown.returncode, done.returncode) == (0, 0), shown.stderr + done.stderr
    assert "shop.item" in shown.stdout
    assert "rows: 7" in done.stdout
    assert (compared.returncode, "no difference" in compared.stdout) == (0, True), compared.stdout
    assert "undecided" not in compared.stdout
    manifest = OpsLog(spark, Lake(str(lake.lake)), "shop").load().last(Manifest)
    assert manifest is not None
    assert {(one.table, one.state) for one in manifest.tables} == {
        (name, "exact") for name in ("bag", "beat", "item")
    }


def test_a_table_whose_files_a_store_does_not_show_is_missed_where_metadata_tells_of_it(
    spark: Any, tmp_path: Path
) -> None:
    """Spark hides files whose names begin with `_`."""
    create = "CREATE TABLE `t` (`id` int PRIMARY KEY);\n"
    for name in ("_d.t", "d.t"):
        (tmp_path / f"{name}-schema.sql").write_text(create)
        (tmp_path / f"{name}.00000.sql").write_text("INSERT INTO `t` VALUES (1);\n")
    (tmp_path / "metadata").write_text(
        "[source]\nFile = b.000001\nPosition = 4\n[`_d`.`t`]\nrows = 1\n[`d`.`t`]\nrows = 1\n"
        "# Finished dump at: 2026-01-01 00:00:00\n"
    )

    with pytest.raises(
        LakehouseError, match=r"expected the schema of _d\.t, of which metadata tells, got none"
    ):
        list(checked(find_dump(RemoteDump(f"file://{tmp_path}")), Found()))


def test_a_file_that_is_gone_or_another_one_since_it_was_listed_ends_the_import(
    spark: Any, tmp_path: Path
) -> None:
    """Its rows would be lacking, and the table's snapshot taken for whole."""
    (tmp_path / "d.t.00000.sql").write_text("INSERT INTO `t` VALUES (1);\n")
    (tmp_path / "d.t.00001.sql").write_text("INSERT INTO `t` VALUES (2);\n")
    dump = RemoteDump(f"file://{tmp_path}")

    (tmp_path / "d.t.00000.sql").unlink()
    (tmp_path / "d.t.00001.sql").write_text("INSERT")

    for name in ("d.t.00000.sql", "d.t.00001.sql"):
        with pytest.raises(LakehouseError, match=f"{name}: expected a file of the dump's folder as it was"):
            dump.open(name)
