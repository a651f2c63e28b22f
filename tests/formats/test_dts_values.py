"""A Data message is read as protobuf reads it, and a column keeps no more of its values than it may."""

from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.errors import DecodeError
from lakehouse.formats.dts_values import ABSENT, Cells, parse
from lakehouse.formats.proto import subscribe_pb2 as pb

TEXTS = st.one_of(st.sampled_from(["", "utf8mb4", "0", "é" * 70]), st.text(max_size=200))
DATA = st.builds(pb.Data, dataType=st.integers(-(2**31), 2**31 - 1), charset=TEXTS, sv=TEXTS, bv=st.binary(max_size=200))
WRITTEN = DATA.map(lambda data: data.SerializeToString())
SPOILED = st.tuples(WRITTEN, st.integers(0, 300), st.binary(max_size=4)).map(lambda t: t[0][: t[1]] + t[2] + t[0][t[1] + 1 :])


def outcome(read: Any, data: bytes) -> Any:
    try:
        told = read(data)
    except (ProtobufError, UnicodeDecodeError):
        return "refused"
    return (told.dataType, told.charset, told.sv, told.bv) if isinstance(told, pb.Data) else tuple(told)


@given(st.one_of(WRITTEN, SPOILED, st.binary(max_size=12)))
@example(b"\x08\x03\x1a\x80\x01")
@example(b"\x08\x0d\x12\x04utf8\x22\x80\x01" + b"x" * 128)
@example(b"\x08\x0d\x1a\x01\xff")
@example(b"\x08\x03\x1a\x00")
def test_bytes_are_read_as_protobuf_reads_them(data: bytes) -> None:
    assert outcome(parse, data) == outcome(pb.Data.FromString, data)


@given(st.lists(st.integers(0, 200), max_size=300))
def test_a_column_reads_the_same_however_often_it_is_asked(values: list[int]) -> None:
    cells = Cells("n", "int", "UTC", set())
    written = [pb.Data(dataType=pb.INT32, sv=str(value)).SerializeToString() for value in values]
    assert [cells[data] for data in written] == values
    assert len(cells) <= 64


def test_long_values_are_not_kept_and_errors_name_the_column() -> None:
    cells = Cells("body", "text", "UTC", set())
    assert cells[pb.Data(dataType=pb.STRING, charset="utf8mb4", bv=b"x" * 300).SerializeToString()] == "x" * 300
    assert len(cells) == 0
    assert cells[pb.Data(dataType=pb.NA).SerializeToString()] is ABSENT
    with pytest.raises(DecodeError, match=r"^column n: expected a value of its type, got another$"):
        _ = Cells("n", "int", "UTC", set())[pb.Data(dataType=pb.INT32, sv="1.5").SerializeToString()]
