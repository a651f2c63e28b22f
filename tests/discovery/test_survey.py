"""The advice that a survey's findings give is one that the feed's own producer can follow."""

from collections import Counter
from typing import Any

import pytest

from lakehouse.discovery.survey import Place, Survey, TableSample, producer_findings, survey_messages
from lakehouse.formats import FORMATS
from tests.support.debezium_records import SOURCE, message, row

TICDC = next(row.producer for row in FORMATS.values() if row.framed)
OTHERS = sorted(name for name, row in FORMATS.items() if row.producer.server != TICDC.server)


def with_every_loss(format: str) -> Survey:
    table = TableSample(
        changes=30,
        updates=10,
        without_old=10,
        deletes=10,
        key_only_deletes=10,
        partial=5,
        key_names=("id",),
        columns={"id": "int", "v": "text"},
    )
    lost = Counter(("unresolved", "value"))
    first = dict.fromkeys(lost, Place("t", 0, 0))
    return Survey(format, {}, 30, {("d", "t"): table}, dead_letters=lost, first_dead=first, split_keys=3)


def advice(format: str) -> dict[str, str]:
    return {finding.what: finding.fix for finding in producer_findings(with_every_loss(format))}


def test_ticdc_is_told_the_settings_of_its_changefeed() -> None:
    assert advice("ticdc-open") == {
        "old values": "set output-old-value=true at the changefeed",
        "images": "set only-output-updated-columns=false at the changefeed",
        "deletes": "set delete-only-output-handle-key-columns=false at the changefeed",
        "partitioning": "dispatch by table or index-value, or use one partition",
        "watermarks": "set enable-tidb-extension=true at the changefeed, or write consistency: eventual",
        "dead letters unresolved": "use claim check, or raise max-message-bytes, instead of handle-key-only",
        "dead letters value": "once they have landed, look at the first: lakehouse inspect --source NAME "
        "--topic t --partition 0 --offset 0",
    }


@pytest.mark.parametrize("format", OTHERS)
def test_no_other_producer_is_told_a_setting_of_ticdc(format: str) -> None:
    found = advice(format)

    assert {found["deletes"], found["dead letters unresolved"]} == {"set binlog_row_image=FULL at the server"}
    assert found["partitioning"] == "hash by the table or its primary key, or use one partition"
    assert found.get("watermarks", "write consistency: eventual") == "write consistency: eventual"
    assert not any("changefeed" in fix or "dispatch" in fix or "handle-key" in fix for fix in found.values())


def test_a_snapshot_that_shows_a_table_and_none_of_its_rows_leaves_open_whether_it_had_some() -> None:
    """snapshot.include.collection.list, or a snapshot of schemas alone: the CREATE TABLE is of an old one."""
    place = SOURCE | {"snapshot": "true", "server_id": 0}
    sent: list[Any] = [
        {"source": place | {"table": table}, "databaseName": "d", "ddl": f"CREATE TABLE {table} (id INT)"}
        for table in ("t", "left_out")
    ]
    sent.append(row("r", None, {"id": 1}, **place))
    sent += [row("c", None, {"id": 2}, table=table, pos=900) for table in ("t", "left_out", "young")]
    sent.append(
        {"source": SOURCE | {"table": "young"}, "databaseName": "d", "ddl": "CREATE TABLE young (id INT)"}
    )

    survey = survey_messages([message(value, {"id": 1}) for value in sent], "debezium", {})

    assert survey.older_tables() == ["d.left_out"]
