"""What is said to mend a state: commands that there are, for every reason that the code writes."""

import re
from typing import Any

import pytest

from lakehouse.ddl.policy import stopping
from lakehouse.ops.progress import Disproved, NextOffset, ServerChange
from lakehouse.ops.records.bronze import MissingFile, OffsetsLost, TopicCreatedAgain
from lakehouse.reporting.text.problems import source_problems
from lakehouse.reporting.text.remedies import REMEDIES, Where, of_reason, of_table
from lakehouse.reporting.text.tables import View
from lakehouse.silver.binlog_servers import change_text
from lakehouse.silver.disproved_watermarks import anew, disproved_text
from lakehouse.sources.kafka_offsets import loss_text
from lakehouse.spark.change_log.dead_letters import missing_text
from lakehouse.spark.change_log.reconcile import SilverRows
from lakehouse.spark.change_log.undeclared_columns import waiting
from tests.docs.command_lines import Line, parse
from tests.reporting.test_text import CASES, read

AT = (0, 1, 2, 0, 0, 0)
TABLE = Where("shop", "shop.orders")


def commands(why: str, where: Where = TABLE) -> list[str]:
    return [step.command for step in of_reason(why, where) if step.command]


def table(state: str, why: str | None) -> dict[str, Any]:
    return {"table": "shop.orders", "state": state, "why": why}


@pytest.mark.parametrize("name", ["status", "run", "dead-letters", "rejected", "demo"])
def test_every_command_that_is_said_to_mend_something_is_one(name: str) -> None:
    text = (CASES / f"{name}.txt").read_text(encoding="utf-8")
    found = [
        line.partition("#")[0].strip() for line in text.splitlines() if line.lstrip().startswith("lakehouse ")
    ]

    assert found
    for line in found:
        parse(Line(line, is_told=False).words)


def test_the_reviewed_status_shows_every_remedy() -> None:
    reasons = [table["why"] for entry in read("status") for table in entry.get("tables", ()) if table["why"]]

    assert [begin for begin, _ in REMEDIES if not any(re.match(begin, why) for why in reasons)] == []


def test_the_reasons_that_the_code_writes_have_their_remedies() -> None:
    held = stopping({"drop_column": "hold"}, ["drop_column"], AT, None)
    rejected = stopping({"drop_column": "reject"}, ["drop_column"], AT, None)
    late = Disproved(("shop", "orders"), 2, AT, NextOffset("shop", "", 0, 7), AT)
    anew_at = Disproved(("shop", "orders"), 2, AT, NextOffset("shop", "", 0, 7), anew(0))
    gap = OffsetsLost(topic="shop", incarnation="", partition=0, first=1, last=3, missing=3, seen_at=0)
    again = TopicCreatedAgain(topic="shop", incarnation="a", by="b", read={}, seen_at=0)
    server = ServerChange("shop", "", 0, "", 0, 7, was=1, server=2, base="mysql-bin", number=3)
    file = MissingFile("shop/t/1.csv", None, AT)
    assert held is not None
    assert rejected is not None

    assert "ddl approve" in commands(f"held by a DDL: {held.why}")[0]
    assert "ddl skip" in commands(f"held by a DDL: {rejected.why}")[0]
    assert "schema import" in commands(waiting(AT, ("colour",)).why)[0]
    assert "run all" in commands(disproved_text(late))[0]
    assert "epoch raise" in commands(disproved_text(anew_at))[0]
    repair, *_, dismiss = commands(loss_text(gap))
    assert ("verify shop --repair" in repair, "--code lost" in dismiss) == (True, True)
    assert "--code lost" in commands(loss_text(again))[-1]
    assert "--code lost" in commands(missing_text(file))[1]
    assert "epoch raise" in commands(change_text("shop", server))[0]
    assert "rebuild silver" in commands(SilverRows(9, 7).losses[0])[0]


def test_a_command_names_the_lake_and_the_source_where_they_are_not_the_default() -> None:
    assert commands("held by a DDL: on_ddl says hold for drop", Where("a", "a:db.my table", "/l 1"))[1] == (
        "lakehouse ddl skip 'a:db.my table' --why … --lake '/l 1'"
    )


def test_a_command_is_called_as_lakehouse_was() -> None:
    assert Where("shop", program="./run").command("run", "gold") == "./run run gold"


def test_nothing_mends_a_table_that_is_exact_or_dropped() -> None:
    assert of_table(table("exact", None), TABLE) == of_table(table("retired", "1 dead letters"), TABLE) == ()


def test_what_mends_a_merged_table_is_found_behind_its_shard() -> None:
    held = "held by a DDL: on_ddl says hold for truncate"
    assert commands(f"shard_1.t: {held}") == commands(held) != []
    assert "dead-letters list" in commands("shard_1.t: 2 dead letters")[0]


def test_a_topic_that_is_gone_and_holds_the_watermark_is_told_with_what_lets_it_go() -> None:
    entry = {"source": "shop", "deleted": ["old/0"], "watermark": None, "gold_watermark": None}

    (problem,) = source_problems(entry, View())

    assert problem.text == "old/0: the topic is read no more (it was deleted?), and holds the watermark"
    assert [step.command for step in problem.steps] == [
        "lakehouse partitions retire shop old 0 --why …",
    ]
