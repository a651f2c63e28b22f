"""The advice that a survey's findings give is one that the feed's own producer can follow."""

from collections import Counter

import pytest

from lakehouse.discovery.survey import Place, Survey, TableSample, producer_findings
from lakehouse.formats import FORMATS

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
