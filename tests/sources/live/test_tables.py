"""The statements that read a table, without a server."""

import itertools
import sqlite3
from typing import Any

import pytest

from lakehouse.sources.live.tables import Listed, described, without_temporary
from tests.sources.live.test_live import Scripted

NAME = ("shop", "t")
CREATE = "CREATE TABLE `t` (\n `a` varchar(9) COLLATE utf8mb4_general_ci NOT NULL,\n `b` int NOT NULL, {})"
PRIMARY = "PRIMARY KEY (`a`,`b`)"


def index(name: str, *columns: str, part: bytes | None = None, visible: bytes = b"YES") -> list[Any]:
    """Rows of SHOW INDEX."""
    told = (b"t", b"0", name.encode(), b"1"), (b"A", b"0", part, None, b"", b"BTREE", b"", b"", visible)
    return [(*told[0], column.encode(), *told[1]) for column in columns]


def live(create: str = PRIMARY, indexes: Any = (), *, tidb: bool = True) -> Any:
    server = Scripted(
        {
            "SHOW CREATE": [(b"t", CREATE.format(create).encode())],
            "SELECT create_time": [(b"2026-01-01",)],
            "SHOW INDEX FROM `shop`.`t`": indexes,
        }
    )
    return described(server, Listed(NAME, "InnoDB", 0, size=0), tidb=tidb)  # type: ignore[arg-type]


def test_tidb_is_told_to_read_a_chunk_by_the_index_of_the_key() -> None:
    """Else it sorts a table whose rows lie apart from its key for each chunk."""
    other, key = index("x", "b"), index("PRIMARY", "a", "b")

    told = live(indexes=[*other, *key]).rows_after(None, 9)

    assert told == "SELECT `a`, `b` FROM `shop`.`t` FORCE INDEX (`PRIMARY`) ORDER BY `a`, `b` LIMIT 9"
    assert "FORCE" not in live(indexes=[*other, *key], tidb=False).rows_after(None, 9)


@pytest.mark.parametrize(
    ("indexes", "said"),
    (
        (index("a", "a", "b"), "FORCE INDEX (`a`)"),
        (index("a``b", "A", "B"), "FORCE INDEX (`a````b`)"),
        (index("a", "a", "b", part=b"3"), ""),
        (index("a", "a", "b", visible=b"NO"), ""),
        (index("a", "a", "b", "c"), ""),
        (index("a", "a", "b", visible=b"NO") + index("z", "a", "b"), "FORCE INDEX (`z`)"),
    ),
)
def test_an_index_is_named_that_has_the_key_and_can_be_used(indexes: Any, said: str) -> None:
    told = live("UNIQUE KEY `a` (`a`,`b`)", indexes).rows_after(None, 9)

    assert told == f"SELECT `a`, `b` FROM `shop`.`t` {said and said + ' '}ORDER BY `a`, `b` LIMIT 9"


KEYS = list(itertools.product(("A", "a", "b", "C"), (1, 2, 3)))


@pytest.mark.parametrize("order", ("BINARY", "NOCASE"))
def test_each_row_lies_between_the_ends_of_one_chunk(order: str) -> None:
    """Also where the ends differ in letters that the key's collation calls equal."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE t (a TEXT COLLATE {order}, b INT)")
    database.executemany("INSERT INTO t VALUES (?, ?)", KEYS)
    ordered = database.execute("SELECT a, b FROM t ORDER BY a, b").fetchall()
    by_order = [(text.lower() if order == "NOCASE" else text, number) for text, number in ordered]

    for low, high in itertools.combinations(range(len(ordered)), 2):
        ends = [[text.encode(), str(number).encode()] for text, number in (ordered[low], ordered[high])]
        statement = live().rows_between(*ends).replace("`shop`.", "").replace("_utf8mb4 x'", "CAST(x'")
        for text in "AabC":
            statement = statement.replace(f"CAST(x'{text.encode().hex()}'", f"'{text}'")
        found = database.execute(statement).fetchall()

        within = (place for place, key in enumerate(by_order) if by_order[low] < key <= by_order[high])
        assert sorted(found) == sorted(ordered[place] for place in within)


def test_the_rows_between_two_keys_are_one_or_of_ranges() -> None:
    """TiDB makes of `a > 1 AND a < 3`, each of which is itself an OR, the first column's range alone."""
    where = live().rows_between([b"x", b"1"], [b"x", b"5"]).partition(" WHERE ")[2]

    assert where == "`a` = _utf8mb4 x'78' AND `b` > 1 AND `b` <= 5 ORDER BY `a`, `b`"


def test_global_temporary_tables_of_tidb_are_left_out() -> None:
    server = Scripted({"SHOW CREATE": [(b"t", b"CREATE GLOBAL TEMPORARY TABLE `t` (`id` int)")]})

    assert without_temporary(server, [Listed(NAME, "InnoDB", 0, size=0)]) == []  # type: ignore[arg-type]
