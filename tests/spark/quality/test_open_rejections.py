"""Which rejected changes are still the newest of their rows, and which an operator lets pass."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.operators import Accepted
from lakehouse.spark.lake import Lake
from lakehouse.spark.quality import gates
from lakehouse.spark.quality.gates import Gates, Verdict, accepted_changes, open_rejections
from lakehouse.spark.silver.columns import POSITION
from tests.support.feeds import TiCDC
from tests.support.records import log_of

CREATE = "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, v INT, PRIMARY KEY ({}))"


@pytest.mark.parametrize(
    ("key", "ddl", "rejected", "later"),
    [
        ("a", "DROP PRIMARY KEY, ADD PRIMARY KEY (b)", "[1]", "[1]"),
        ("a, b", "RENAME COLUMN a TO z", "[1,2]", "[1,2]"),  # silver has a key in the order of the names
    ],
)
def test_another_row_that_has_a_rejected_ones_key_later_does_not_stand_for_it(
    spark: Any, key: str, ddl: str, rejected: str, later: str
) -> None:
    lineage = TiCDC().ddl(1, CREATE.format(key)).ddl(5, f"ALTER TABLE t {ddl}").lineage()
    bad = spark.createDataFrame(
        [(lineage.id, rejected, (0, 2, 1, 0, 0, 0)), (lineage.id, "[7,7]", (0, 2, 1, 0, 0, 0))],
        f"lineage string, key string, position {POSITION}",
    )
    changes = [(3, "[7,7]"), (6, later)]
    silver = spark.createDataFrame(
        [("d", "t", one, (0, at, 1, 0, 0, 0)) for at, one in changes],
        f"database string, `table` string, key string, position {POSITION}",
    )

    found = open_rejections(bad, lineage, silver, (0, 9, 2, 0, 0, 0))

    assert [row.key for row in found.collect()] == [rejected] and found.columns == bad.columns


def test_of_two_operators_who_let_rows_pass_at_one_time_neither_takes_back_the_others() -> None:
    """Each has read the log before the other wrote to it. Needs no session."""
    log = log_of(*(Accepted(lineage="t@1", changes=(change,), why="") for change in ("[2] 5", "[1] 4")))

    assert accepted_changes(log) == {"t@1": ("[1] 4", "[2] 5")}


def test_a_run_that_has_lost_its_lease_takes_no_rejected_rows_of_the_one_that_took_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that is folded whole replaces its rejected rows, which no manifest names. Needs no session."""

    def lapsed() -> None:
        raise LakehouseError("the lease lapsed")

    told: list[str] = []
    frame = MagicMock()
    session: Any = SimpleNamespace(sql=told.append, catalog=MagicMock())
    monkeypatch.setattr(gates, "rows_frame", lambda *_: frame)
    monkeypatch.setattr(Lake, "exists", lambda *_: True)
    lake = Lake("s3://bucket/lake", before_write=lapsed)
    run = Gates(session, lake, "shop", 1, judges={"t@1": MagicMock()})

    with pytest.raises(LakehouseError, match="the lease lapsed"):
        run.write(Verdict(whole=frozenset({"t@1"})), (0,) * 6)

    assert told == []
