"""What a batch says of itself."""

from lakehouse.events import INCREMENTAL, SETTLED, SNAPSHOT_FLAG, SNAPSHOT_TOPIC, TABLE_SNAPSHOT
from lakehouse.ops.progress import TableSnapshot
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


def test_rows_of_a_part_begin_no_snapshot() -> None:
    changes: dict[str, list[object]] = {name: [None, None] for name in CHANGE_COLUMNS}
    changes |= {
        "database": ["d", "d"],
        "table": ["part", "whole"],
        "position": [(0, 5, 9, 0, 1, 1), (0, 5, 9, 0, 0, 1)],
        "topic": [SNAPSHOT_TOPIC] * 2,
        "flags": [("snapshot", INCREMENTAL), ("snapshot", SNAPSHOT_FLAG)],
    }

    summary = summarise(changes, [], messages=1, silent=0)

    assert summary.begun == {TableSnapshot("d", "whole", (0, 5, 9, 0, 0, 0))}
    assert {name[1]: bounds["n"] for name, bounds in summary.tables.items()} == {"part": 1, "whole": 1}
