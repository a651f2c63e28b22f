"""What a batch says of itself."""

from lakehouse.events import SETTLED, TABLE_SNAPSHOT
from lakehouse.silver.batch_summary import summarise
from lakehouse.silver.event_rows import OtherRow
from lakehouse.spark.silver.columns import CHANGE_COLUMNS


def test_where_a_snapshot_is_settled_is_no_place_that_the_feed_has_come_to() -> None:
    place, settled = (0, 5, -1, 0, 0, 0), (0, 9, -1, 0, 0, 0)
    others = [
        OtherRow("schema_change", "d", "t", position=place, schema_kind=TABLE_SNAPSHOT),
        OtherRow("schema_change", "d", "t", position=settled, schema_kind=SETTLED),
    ]

    summary = summarise({name: [] for name in CHANGE_COLUMNS}, others, messages=1, silent=0)

    assert summary.reach == place
    assert summary.counts["ddl"] == 2
