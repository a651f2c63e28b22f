"""Changes that come after a watermark had passed them, messages that land below those that were read, and
topics that lose their last table.
"""

import json
from pathlib import Path
from typing import Any

from lakehouse.formats.open_frames import framed
from tests.spark.operations.test_operators import CREATE, Operator, T


def shop(tmp_path: Path) -> Operator:
    """A table with a row in each of two partitions."""
    operator = Operator(tmp_path)
    operator.event(0, 1, 2, {"q": CREATE, "t": 3})
    for number in (0, 1):
        operator.row(number, 5, number, "a")
        operator.event(number, 10, 3)
    return operator


def state(operator: Operator) -> tuple[str, str | None]:
    (table,) = operator.does("status", "--json")[0]["tables"]
    return table["state"], table["why"]


def ids(operator: Operator) -> list[int]:
    return sorted(row["id"] for row in operator.does("show", "shop.t", "--json"))


def test_a_new_change_below_the_published_watermark_makes_its_table_incomplete_until_a_later_one(
    spark: Any, tmp_path: Path
) -> None:
    operator = shop(tmp_path)
    operator.does("run", "all", "--once")
    assert state(operator) == ("exact", None)

    # sent again, in another shape too, and of a partition that has promised nothing: all legal
    operator.row(0, 5, 0, "a")
    operator.event(0, 5, 1, {"d": {"id": {"t": 3, "h": True, "f": 11, "v": 0}}})
    operator.row(2, 7, 2, "of a new partition")
    operator.does("run", "all", "--once")
    assert (state(operator), ids(operator)) == (("exact", None), [0, 1, 2])

    operator.row(1, 8, 3, "of another changefeed")
    operator.does("run", "all", "--once")
    late = (
        "changes came after a watermark that had passed them (1, the first in shop/1 at offset 2): a topic "
        "must have one changefeed; the next watermark settles it"
    )
    assert (state(operator), ids(operator)) == (("incomplete", late), [0, 1, 2, 3])
    assert operator.does("status", "--json")[0]["problems"] == [f"shop.t: {late}"]

    for number in (0, 1, 2):
        operator.event(number, 20, 3)
    operator.does("run", "all", "--once")
    assert (state(operator), ids(operator)) == (("exact", None), [0, 1, 2, 3])


def test_messages_that_land_below_those_that_were_read_are_decoded(spark: Any, tmp_path: Path) -> None:
    operator = shop(tmp_path)
    operator.row(1, 12, 7, "b")
    for number in (0, 1):
        operator.event(number, 20, 3)
    older = [line for line in operator.lines if (line["partition"], line["offset"]) in ((1, 0), (1, 2))]
    newer = [line for line in operator.lines if line not in older]
    path = tmp_path / "shop.jsonl"

    path.write_text("".join(json.dumps(line) + "\n" for line in newer))
    operator.does("run", "all", "--once")
    first = ids(operator)
    path.write_text("".join(json.dumps(line) + "\n" for line in operator.lines))
    operator.does("run", "all", "--once")

    assert (first, ids(operator), state(operator)) == ([0], [0, 1, 7], ("exact", None))
    assert operator.does("run", "all", "--once", "--json")[0]["silver_batches"] == 0


class TwoTopics(Operator):
    """Table t in topic shop, partition 0, and table u in topic other, partition 1."""

    def tells(self, table: str, ts: int, kind: int, value: Any = None) -> None:
        key = {"ts": T + ts, "t": 3} if kind == 3 else {"ts": T + ts, "scm": "shop", "tbl": table, "t": kind}
        coded = framed([json.dumps(key).encode()], [json.dumps(value).encode() if value else b""])
        self.sends(int(table == "u"), *coded)
        self.lines[-1]["topic"] = "other" if table == "u" else "shop"
        (self.root / "shop.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.lines))

    def creates(self, table: str, ts: int) -> None:
        self.tells(table, ts, 2, {"q": CREATE.replace("`t`", f"`{table}`"), "t": 3})

    def writes(self, table: str, ts: int, id: int) -> None:
        image = {"id": {"t": 3, "h": True, "f": 11, "v": id}, "v": {"t": 15, "f": 64, "v": "a"}}
        self.tells(table, ts, 1, {"u": image})

    def held(self) -> tuple[int, str, list[str]]:
        (told,) = self.does("status", "--json")
        return told["gold_watermark"][1] - T, told["held_by"], told["topics_without_tables"]


def test_a_topic_without_tables_holds_nothing_until_there_is_one_again(spark: Any, tmp_path: Path) -> None:
    operator = TwoTopics(tmp_path)
    for table in ("t", "u"):
        operator.creates(table, 1)
        operator.writes(table, 5, 1)
        operator.tells(table, 10, 3)
    operator.tells("u", 12, 2, {"q": "DROP TABLE `shop`.`u`", "t": 4})
    operator.writes("t", 15, 2)
    operator.tells("t", 20, 3)
    operator.does("run", "all", "--once")
    assert (operator.held(), ids(operator)) == ((20, "shop/0", ["other"]), [1, 2])

    operator.creates("u", 25)
    operator.writes("u", 30, 1)
    operator.tells("t", 40, 3)
    operator.does("run", "all", "--once")
    assert operator.held() == (20, "other/1", [])

    operator.tells("u", 40, 3)
    operator.does("run", "all", "--once")
    assert (operator.held()[0], state(operator)) == (40, ("exact", None))
