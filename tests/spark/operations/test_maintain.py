"""What maintenance leaves to the next run of gold. Needs Spark's package, but no session."""

from typing import Any

import pytest

from lakehouse.ops.records import Dismissed, Floor, Intent, Manifest, Record
from lakehouse.spark.gold.run import unpublished
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.maintain import is_awaited, optimize_gold
from lakehouse.spark.ops.log import Logged, OpsLog
from tests.support.lakes import quiet

ZERO = (0, 0, 0, 0, 0, 0)
PUBLISHED = Manifest(batch=1, watermark=ZERO, consistency="resolved", tables=())
WRITES = Intent(batch=2, watermark=ZERO, tables=("shop__t",))
FLOOR = Floor(generation=1, place=ZERO, names=(), why="", batch=1)
GIVEN_UP = Dismissed(code="lost", batch=1, gaps=0, why="")


def log_of(*records: Record) -> OpsLog:
    no_session: Any = None
    stored = [Logged(n, one.kind, n, "{}", _record=one, _is_read=True) for n, one in enumerate(records, 1)]
    return OpsLog(no_session, Lake("nowhere"), "shop", records=stored)


@pytest.mark.parametrize("after", [WRITES, FLOOR, GIVEN_UP])
def test_what_counts_from_the_last_manifest_on_is_not_hidden_by_another_manifest(after: Record) -> None:
    log = log_of(PUBLISHED, after)

    assert is_awaited(log)
    assert not optimize_gold(log, 0, quiet)
    assert unpublished(log) == (frozenset({"shop__t"}) if after is WRITES else frozenset())


def test_a_source_whose_last_run_has_published_is_maintained() -> None:
    assert not is_awaited(log_of(WRITES, FLOOR, GIVEN_UP, PUBLISHED))
    assert not is_awaited(log_of())
