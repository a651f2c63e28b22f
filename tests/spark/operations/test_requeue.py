"""Dead letters that are decoded again: on the driver where they are few, else in Spark jobs."""

import json
from pathlib import Path
from typing import Any

import cramjam
import msgspec
import pytest

from lakehouse.events import DeadLetter, Message
from lakehouse.formats import FORMATS
from lakehouse.formats.open_frames import framed, frames
from lakehouse.formats.proto.subscribe_pb2 import Envelope
from lakehouse.ops.progress import Counts, OffsetRange
from lakehouse.ops.records.silver import Done, Planned
from lakehouse.sources.recording import read_recording
from lakehouse.spark import limits
from lakehouse.spark.change_log.dead_letters import open_counts
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations import requeue
from lakehouse.spark.operations.requeue import decode_again, ranges_of
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.try_recording import source_of_path, try_recording
from lakehouse.spark.silver.tables import SilverSettings
from tests.support.encode_open import message as open_message
from tests.support.lakes import quiet, silver_rows, write_recording
from tests.support.open_feed import OpenFeed, T
from tests.support.paths import DATA
from tests.support.records import log_of


def compressed(message: Message) -> Message:
    keys, values = frames(message.key, message.value)
    key, value = framed(keys, [bytes(cramjam.lz4.compress(each)) for each in values])
    return msgspec.structs.replace(message, key=key, value=value)


def run_uncompressed(path: Path, lake: Path) -> None:
    """A run that is not told of the compression, which `try` would detect."""
    try_recording(path, "ticdc-open", {"compression": "none"}, str(lake), "resolved", quiet)


def test_thousands_of_letters_that_lie_apart_are_decoded_in_few_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch costs several Spark jobs and commits, however few its letters; workers decode a large one."""
    plan = Planned(batch=1, generation="g", small=True, ranges=())
    done = Done(batch=1, counts=Counts(), top=None, reach=None, next=(), marks=(), dead=(), tables=())
    log, batches = log_of(plan, done), list[Planned]()
    monkeypatch.setattr(OpsLog, "add", lambda log, record: log.records.append(log._logged(record, 1)))
    monkeypatch.setattr(requeue, "is_small", lambda *told: len(told[2]) < requeue.RANGES)

    def decoded(_: OpsLog, __: SilverSettings, plan: Planned) -> Counts:
        batches.append(plan)
        return Counts()

    monkeypatch.setattr(requeue, "run_batch", decoded)
    apart = [OffsetRange("t", "", 0, first=offset, last=offset) for offset in range(0, 40_000, 2)]

    decode_again(log, SilverSettings("shop", "ticdc-open", "ticdc"), apart, None)

    assert len(batches) <= 4
    assert [one for batch in batches for one in batch.ranges] == apart
    assert [batch.small for batch in batches] == [len(batch.ranges) < requeue.RANGES for batch in batches]
    assert not all(batch.small for batch in batches)
    assert [batch.requeue is not None for batch in batches] == [False] * (len(batches) - 1) + [True]


@pytest.mark.parametrize("most", [100, 0], ids=["few", "many"])
def test_what_could_not_be_read_is_read_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    feed = OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT PRIMARY KEY, v VARCHAR(20))")
    for number in range(3):
        feed.row(2 + number, "t", number, v=str(number))
    told = [feed.messages[0], *map(compressed, feed.messages[1:])]
    run_uncompressed(write_recording(tmp_path / "shop.jsonl", told), tmp_path / "lake")
    letters = silver_rows(spark, tmp_path / "lake", "shop", "dead_letters")
    assert len(letters) == 3
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", most)
    log = OpsLog(spark, Lake(str(tmp_path / "lake")), "shop").load()
    source = SilverSettings("shop", "ticdc-open", "ticdc", {"compression": "lz4"})

    counts = decode_again(log, source, ranges_of(letter["origin"] for letter in letters), None)

    plan, done = log.last(Planned), log.last(Done)
    assert plan is not None and plan.small == (most > 0)
    assert done is not None and done.batch == plan.batch and done.requeued == plan.requeue
    assert (counts["inserted"], counts["dead"]) == (3, 0)
    images = [change["after"] for change in silver_rows(spark, tmp_path / "lake", "shop", "changes")]
    assert sorted(images) == [f'{{"id":{number},"v":"{number}"}}' for number in range(3)]


@pytest.mark.parametrize("most", [100, 0], ids=["few", "many"])
def test_a_row_without_a_key_that_may_be_another_equal_one_stays_a_dead_letter(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    feed = OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT)")
    for id in (1, 1, 2):
        feed.add({"ts": T + 5, "scm": "shop", "tbl": "t", "t": 1}, {"u": {"id": {"t": 3, "f": 0, "v": id}}})
    feed.resolved(6)
    create, first, *others, resolved = feed.messages
    told = [create, first, *map(compressed, others), resolved]
    run_uncompressed(write_recording(tmp_path / "shop.jsonl", told), tmp_path / "lake")
    letters = silver_rows(spark, tmp_path / "lake", "shop", "dead_letters")
    assert [letter["origin"]["offset"] for letter in letters] == [2, 3]
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", most)
    log = OpsLog(spark, Lake(str(tmp_path / "lake")), "shop").load()
    source = SilverSettings("shop", "ticdc-open", "tidb", {"compression": "lz4"})

    counts = decode_again(log, source, ranges_of(letter["origin"] for letter in letters), None)

    assert (counts["inserted"], counts["duplicate"], counts["conflict"]) == (1, 0, 1)
    assert open_counts(log) == {("shop", "t"): 1}
    (letter,) = (
        row
        for row in silver_rows(spark, tmp_path / "lake", "shop", "dead_letters")
        if row["code"] == "equal_row"
    )
    assert letter["origin"]["offset"] == 2

    again = decode_again(log, source, ranges_of([letter["origin"]]), None)
    assert (again["inserted"], again["conflict"]) == (0, 1)


@pytest.mark.parametrize("most", [100, 0], ids=["few", "many"])
def test_rows_without_a_key_that_were_read_count_once_beside_one_of_their_message_that_was_not(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """No watermark has passed their commit yet."""
    feed = OpenFeed()
    feed.ddl(1, "t", "CREATE TABLE `shop`.`t` (id INT)")
    key = json.dumps({"ts": T + 5, "scm": "shop", "tbl": "t", "t": 1}).encode()
    rows = [(key, json.dumps({"u": {"id": {"t": 3, "f": 0, "v": id}}}).encode()) for id in (1, 2)]
    feed.messages.append(open_message(rows, "shop", 0, 1))
    with monkeypatch.context() as broken:
        row = FORMATS["ticdc-open"]

        def decode(message: Message, options: Any) -> Any:
            first, *others = row.decode(message, options)
            return [first, *(DeadLetter("value", "broken", one.index, "shop", "t") for one in others)]

        broken.setitem(FORMATS, "ticdc-open", row._replace(decode=decode, decode_stored=None))
        run_uncompressed(write_recording(tmp_path / "shop.jsonl", feed.messages), tmp_path / "lake")
    letters = silver_rows(spark, tmp_path / "lake", "shop", "dead_letters")
    assert [letter["origin"]["index"] for letter in letters] == [1]
    monkeypatch.setattr(limits, "SILVER_BATCH_RECORDS", most)
    log = OpsLog(spark, Lake(str(tmp_path / "lake")), "shop").load()
    source = SilverSettings("shop", "ticdc-open", "tidb", {"compression": "none"})

    counts = decode_again(log, source, ranges_of(letter["origin"] for letter in letters), None)

    assert (counts["inserted"], counts["duplicate"], counts["conflict"]) == (1, 1, 0)


def cut_in_three(told: list[Message], at: int) -> list[Message]:
    """A message of a feed of Tencent DTS in three parts."""
    data = Envelope.FromString(told[at].value or b"").data
    size = len(data) // 3
    cuts = [data[:size], data[size : 2 * size], data[2 * size :]]
    values = [
        Envelope(version=1, total=3, index=index, data=cut).SerializeToString()
        for index, cut in enumerate(cuts)
    ]
    return [msgspec.structs.replace(told[at], value=value) for value in values]


def numbered(told: list[Message]) -> list[Message]:
    return [msgspec.structs.replace(one, offset=offset) for offset, one in enumerate(told)]


class Dts:
    """A feed of Tencent DTS, without numbers of its own, in a lake."""

    def __init__(self, spark: Any, root: Path, told: list[Message]) -> None:
        self.spark, self.lake = spark, root / "lake"
        path = write_recording(root / "dts.jsonl", numbered(told))
        try_recording(path, "tencent-dts", {}, str(self.lake), "eventual", quiet)
        lake = Lake(str(self.lake))
        self.source = source_of_path(path, "tencent-dts", {}, lake, consistency="eventual")

    @property
    def log(self) -> OpsLog:
        return OpsLog(self.spark, Lake(str(self.lake)), "dts").load()

    def letters(self) -> list[tuple[str, int]]:
        """The code and offset of each letter that was ever written."""
        rows = silver_rows(self.spark, self.lake, "dts", "dead_letters")
        return sorted((row["code"], row["origin"]["offset"]) for row in rows)

    def again(self) -> dict[str, int]:
        rows = silver_rows(self.spark, self.lake, "dts", "dead_letters")
        return decode_again(self.log, self.source.silver, ranges_of(row["origin"] for row in rows), None)

    def open(self) -> dict[Any, int]:
        return open_counts(self.log)


def test_parts_of_a_message_that_is_not_whole_stay_dead_letters(spark: Any, tmp_path: Path) -> None:
    told = list(read_recording(DATA / "dts/inventory/stream.jsonl.gz"))
    dts = Dts(spark, tmp_path, [*told[:40], *cut_in_three(told, 40)[:2], *told[41:]])
    assert dts.letters() == [("envelope", 40), ("envelope", 41)]

    counts = dts.again()

    assert counts["dead"] == 2
    assert dts.open() == {None: 2}


def test_a_message_of_several_parts_is_decoded_again_whole(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list(read_recording(DATA / "dts/inventory/stream.jsonl.gz"))
    with monkeypatch.context() as broken:
        row = FORMATS["tencent-dts"]
        whole = numbered([*told[:40], *cut_in_three(told, 40), *told[41:]])
        cut = whole[40].offset

        def decode(message: Message, options: Any) -> Any:
            if message.offset == cut:
                raise ValueError
            return list((row.decode_stored or row.decode)(message, options))

        broken.setitem(FORMATS, "tencent-dts", row._replace(decode=decode, decode_stored=decode))
        dts = Dts(spark, tmp_path, whole)
    before = silver_rows(spark, dts.lake, "dts", "changes")
    assert dts.letters() == [("decoder", 40)]

    counts = dts.again()

    assert (counts["messages"], counts["dead"]) == (3, 0)
    assert dts.open() == {}
    changes = silver_rows(spark, dts.lake, "dts", "changes")
    assert len(changes) == len(before) + counts["inserted"]
