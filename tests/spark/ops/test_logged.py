"""What a process keeps of the records of its ops log. Needs no session."""

from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.progress import Counts, OffsetRange
from lakehouse.ops.records.kinds import encode
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Closing, Done, Planned
from lakehouse.spark.change_log.dead_letters import closings
from lakehouse.spark.change_log.reconcile import new_batches, records_read
from lakehouse.spark.change_log.watermark import done_at, source_watermark
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.logged import Logged
from tests.support.records import manifest

RANGES = tuple(OffsetRange("t", "", number, 0, 9) for number in range(50))


def plan(batch: int, **more: Any) -> Planned:
    return Planned(batch=batch, generation="g", small=True, ranges=RANGES, **more)


def done(batch: int, **more: Any) -> Done:
    return Done(
        batch=batch,
        counts=Counts(messages=3),
        top=None,
        reach=None,
        next=(),
        marks=(),
        dead=(),
        tables=(),
        **more,
    )


def stored(*records: Record) -> OpsLog:
    """A log as a process has loaded it."""
    no_session: Any = None
    rows = [Logged(seq, one.kind, seq, encode(one)) for seq, one in enumerate(records, 1)]
    return OpsLog(no_session, Lake("nowhere"), "shop", records=rows)


def test_a_record_that_is_forgotten_holds_a_part_of_its_text_and_reads_the_same() -> None:
    one, text = Logged(7, "planned", 5, encode(plan(3, whole=True))), encode(plan(3, whole=True))
    assert one.record == plan(3, whole=True)

    one.forget()

    assert (one.is_read, one.size) == (False, len(text))
    assert one.held < len(text) / 5
    assert one.stored == (7, "planned", 5, text)
    assert (one.gist.batch, one.gist.whole, one.is_read) == (3, True, False)
    assert one == Logged(7, "planned", 5, text)
    assert one.record == plan(3, whole=True)


def test_what_is_asked_of_every_batch_is_read_without_the_rest() -> None:
    """Nor are other batches read than those that gold has not published."""
    batches: list[Record] = []
    for batch in range(1, 41):
        requeued = Closing("schema", batch - 1, 0) if batch == 20 else None
        batches += [plan(batch, whole=batch < 30), done(batch, requeued=requeued)]
    log = stored(*batches[:-4], manifest(batch=38), *batches[-4:])
    last, newest = manifest(batch=38), done(40)

    assert closings(log) == [Closing("schema", 19, 0)]
    assert [one.batch for one in new_batches(log, last, newest)] == [39, 40]
    assert records_read(log, None, newest, None, first=False) is None
    assert [one.batch for one in log.gists(Planned) if one.whole] == [*range(1, 30)]
    assert done_at(log, 39) == done(39)
    assert source_watermark(newest, log)[1] is None

    read = [one.record for one in log.records if one.is_read]
    assert {one.batch for one in read if isinstance(one, Planned | Done)} == {39, 40}


def test_a_batch_that_is_none_is_no_gist() -> None:
    with pytest.raises(LakehouseError, match="expected a record of kind done, got"):
        _ = Logged(1, "done", 1, '{"batch": "first"}').gist
    with pytest.raises(LakehouseError, match="expected a record of kind planned, got"):
        _ = Logged(1, "planned", 1, "{").gist
