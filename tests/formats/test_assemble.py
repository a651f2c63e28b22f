"""What stands between bronze and decode: parts that are cut by batches, payloads, schema files."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.events import Message
from lakehouse.formats.assemble import (
    ATTACHMENT,
    BatchContext,
    Resume,
    Skipped,
    Unjoined,
    assembled,
    end_of_parts,
)
from lakehouse.formats.proto.subscribe_pb2 import Envelope
from lakehouse.formats.ticdc.storage_layout import SchemaFile, classify, join_schemas
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA

DTS = "tencent-dts"
PLACE = ("t", "", 0)


def parts(sizes: list[int]) -> list[Message]:
    """Records of one partition: Entries of so many parts each, the bytes of each its own."""
    found: list[Message] = []
    for number, total in enumerate(sizes):
        for index in range(total):
            data = f"{number}/{index};".encode()
            value = Envelope(version=1, total=total, index=index, data=data).SerializeToString()
            found.append(Message("t", 0, len(found), None, value, (("ps", str(len(found) + 1).encode()),)))
    return found


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_batches_cut_anywhere_give_what_one_batch_gives(sizes: list[int], data: st.DataObject) -> None:
    records = parts(sizes)
    whole = [found for found in assembled(records, DTS, {}) if isinstance(found, Message)]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(records)))) | {len(records)})
    given_: list[Message] = []
    first, resume = 0, 0

    for cut in cuts:
        found = list(assembled(records[resume:cut], DTS, {}, BatchContext(starts={PLACE: first})))
        given_ += [each for each in found if isinstance(each, Message)]
        assert [
            each
            for each in found
            if isinstance(each, Unjoined) and each.letter is not None and cut == len(records)
        ] == []
        first, resume = cut, next((each.offset for each in found if isinstance(each, Resume)), cut)

    assert len(whole) == len(sizes)
    assert given_ == whole


def test_parts_that_wait_are_dead_letters_only_where_nothing_can_come() -> None:
    records = parts([1, 3])[:3]

    waiting = list(assembled(records, DTS, {}))
    final = list(assembled(records, DTS, {}, BatchContext(final=True)))

    assert waiting == [records[0], Resume(PLACE, 0)]
    letters = [each.letter for each in final if isinstance(each, Unjoined)]
    assert [letter.message for letter in letters if letter] == ["2 of 3 parts are there"] * 2


def test_of_records_that_were_picked_out_nothing_between_them_is_missing() -> None:
    records = parts([1, 1, 3, 1])

    picked = [records[0], *records[2:4], records[5]]
    found = list(assembled(picked, DTS, {}, BatchContext(final=True, apart=True)))

    assert [each for each in found if isinstance(each, Message)] == [records[0], records[5]]
    letters = [each for each in found if isinstance(each, Unjoined)]
    assert [(each.message, each.letter and each.letter.code) for each in letters] == [
        (record, "envelope") for record in records[2:4]
    ]
    assert not any(isinstance(each, Skipped) for each in found)


@pytest.mark.parametrize(("last", "end"), [(0, 0), (1, 3), (2, 3), (4, 4), (5, 6)])
def test_a_message_ends_with_its_last_part(last: int, end: int) -> None:
    records = parts([1, 3, 1, 2])

    assert end_of_parts(records[last if last != 2 else 1 :], DTS, last) == end


def test_a_message_whose_last_part_is_not_there_ends_where_it_is_said_to() -> None:
    assert end_of_parts(parts([3])[:2], DTS, 0) == 0


def test_a_payload_comes_as_a_header_and_leaves_no_trace() -> None:
    folder = DATA / "ticdc-open/classic-v9.0.0-beta.1"
    names = {
        path.name: path.read_bytes() for path in (folder / "claim-check-files/big.claim-check.none").iterdir()
    }
    records = list(read_recording(folder / "big.claim-check.none.jsonl.gz"))
    headers = tuple((ATTACHMENT + name, data) for name, data in names.items())
    carried = [msgspec.structs.replace(record, headers=headers) for record in records]

    joined = list(assembled(carried, "ticdc-open", {"claim_check": "somewhere"}))

    assert [message.headers for message in joined if isinstance(message, Message)] == [()] * len(records)
    assert sum(len(message.value or b"") for message in joined if isinstance(message, Message)) > sum(
        len(each.value or b"") for each in records
    )


def test_bytes_that_are_not_compressed_as_said_are_one_dead_letter() -> None:
    good, bad = Message("t", 0, 0, None, b'{"a": 1}'), Message("t", 0, 1, None, b"\xff\xff")

    found = list(assembled([good, bad], "ticdc-canal-json", {"compression": "lz4"}))

    assert found[0] == good
    assert isinstance(found[1], Unjoined) and found[1].message == bad and found[1].letter is not None
    assert (found[1].letter.code, "lz4" in found[1].letter.message) == ("compression", True)


def test_a_data_file_has_its_schema_file_and_how_many_wrote_beside_it() -> None:
    path, told = "s/t/5/CDC000001.csv", classify("s/t/meta/schema_5_1.json", {})
    assert isinstance(told, SchemaFile)
    schema = (
        b'{"Table":"t","Schema":"s","Version":1,"TableVersion":5,"Query":"","Type":0,'
        b'"TableColumns":[],"TableColumnsTotal":0}'
    )
    data, other = (
        Message("s", 0, 7, None, b"", path=path),
        Message("s", 0, 8, None, b"", path="s/u/5/CDC000001.csv"),
    )

    found = list(
        assembled(
            [data, other],
            "ticdc-storage",
            {},
            BatchContext(schemas=join_schemas([(told, schema)]), dispatchers={7: 2}),
        )
    )

    assert found == [
        msgspec.structs.replace(data, headers=(("schema", schema), ("dispatchers", b"2"))),
        other,
    ]
