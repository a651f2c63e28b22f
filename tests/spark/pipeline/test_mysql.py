"""`snapshot` and `verify --repair` against a real MySQL 5.6, in every type that it has.

npm brings the server: `./run test -m long tests/spark/pipeline/test_mysql.py`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.spark.pipeline.repair_tables import is_wrong
from lakehouse.spark.pipeline.snapshot_tables import Asked, snapshot_tables
from tests.oracle.database import Database
from tests.servers.mariadb import MariaDb
from tests.servers.mysql import start_mysql
from tests.spark.pipeline.test_repair_tables import Repaired, faults
from tests.support.lakes import quiet
from tests.support.live_feed import BINLOG, FedLake, LiveFeed, created

pytestmark = pytest.mark.long
TYPES = """CREATE TABLE `types` (`id` int PRIMARY KEY, `t` tinyint unsigned, `z` int(7) unsigned zerofill,
  `b` bigint unsigned, `d` decimal(65,30), `f` float, `g` double, `bi` bit(64), `ts` timestamp(6) NULL,
  `dt` datetime(6), `da` date, `ti` time(6), `y` year, `c` char(9) CHARACTER SET gbk, `v` varchar(99),
  `l` text CHARACTER SET latin1, `k` varchar(9) CHARACTER SET sjis, `bn` binary(4), `vb` varbinary(9),
  `bl` blob, `e` enum('', 'a', 'é,'), `s` set('x', 'y y', 'é'))"""
ROWS = (
    r"""(1, 255, 42, 18446744073709551615,
    -99999999999999999999999999999999999.999999999999999999999999999999, -3.40282e38, 2.2250738585072014e-308,
    b'1', '2038-01-18 03:14:07.999999', '9999-12-31 23:59:59.999999', '9999-12-31', '-838:59:59', 2155,
    '中文 ',
    'é\\\'\0😀', 'é€', '日本', x'00ff', x'0001', x'00ff00', 'é,', 'x,é')""",
    """(2, 0, 0, 0, 0.000000000000000000000000000001, 0.1, -0e0, b'0', '1970-01-02 00:00:01', '0000-00-00',
    '0000-00-00', '-00:00:00.000001', 0, '', '', '', '', '', '', '', '', '')""",
    f"(3{', NULL' * 21})",
    r"""(4, 1, 9999999, 9223372036854775808, 1, 16777216, 1e300, b'1000000000', '2024-03-31 02:30:00.1',
    '2024-00-15', '2024-02-00', '838:59:58.999999', 1901, ' a',
    '\t\n', ' ', ' x', 'a', ' ', ' ', 'a', 'y y')""",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with start_mysql(tmp_path_factory.mktemp("mysql"), *BINLOG) as running:
        yield running


def test_rows_from_before_a_feed_and_behind_it_are_those_of_the_server(
    spark: Any, server: MariaDb, tmp_path: Path
) -> None:
    database = Database(server.port)
    told = created(LiveFeed(database, "debezium"))
    told.ddl("types", TYPES).ddl("item", "CREATE TABLE `item` (`id` int PRIMARY KEY, `v` varchar(20))")
    told.rows(f"INSERT INTO `types` VALUES {', '.join(ROWS)}").skip()
    told.rows("INSERT INTO `item` VALUES (1, 'one'), (2, 'two'), (3, 'three')").skip()
    fed = FedLake(tmp_path, told, server.port).run()
    lake = Repaired(spark, fed)

    read = snapshot_tables(fed.source(), Asked(("shop.types", "shop.item")), quiet)
    fed.beat()
    fed.beat()
    first = lake.verify()
    told.rows("UPDATE `types` SET `t` = 7 WHERE `id` IN (1, 3)", "DELETE FROM `item` WHERE `id` = 3")
    told.rows("UPDATE `item` SET `v` = 'lost' WHERE `id` = 2").skip()
    fed.beat()
    lake.gold("types", "UPDATE {} SET v = 'forged' WHERE id = 3")
    lake.gold("types", "DELETE FROM {} WHERE id = 4")
    found = lake.verify(repair=True)
    versions = lake.versions()
    fed.beat()
    fed.beat()
    taken = {name for name, last in lake.versions().items() if last != versions[name]} - {"beat"}
    last = lake.verify()

    assert (read["server"], read["tables"], read["rows"]) == ("MySQL", 2, 7)
    assert {name: one for name, one in first.items() if one["different"] or one["undecided"]} == {}
    assert set(faults(found["types"]).values()) == {"changed", "missing"}
    assert set(faults(found["item"]).values()) == {"changed"}
    assert [one for one in found.values() if is_wrong(one)] == []
    assert {name: one["repaired_by"] for name, one in found.items() if "repaired_by" in one} == {
        "types": ["restored"],
        "item": ["rows"],
    }
    assert (taken, lake.rows_written("item")) == ({"item"}, ("MERGE", [0, 1, 0]))
    assert {name: one for name, one in last.items() if one["different"] or one["undecided"]} == {}
    assert {one.state for one in lake.manifest().tables} == {"exact"}
