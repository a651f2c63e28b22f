"""What is read quickly is what the slow reading gives, and a column keeps no more of its values
than it may.
"""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.errors import DecodeError
from lakehouse.formats.dts.values import ABSENT, Cells
from lakehouse.formats.proto import subscribe_pb2 as pb

COLUMNS = (
    "int",
    "bigint unsigned",
    "year",
    "decimal(12,2)",
    "decimal(5,0)",
    "double",
    "varchar(9)",
    "text",
    "date",
    "datetime(6)",
    "time",
)
TEXTS_OF_VALUES = st.one_of(
    st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{0,4})?", fullmatch=True),
    st.sampled_from(["", "0", "-0", "00", "1e5", "nan", "2024-01-01 00:00:00", 'say "é"', "\\", "\x00", "٣"]),
    st.text(max_size=200),
)
VALUES = st.builds(
    lambda kind, charset, sv, bv: pb.Data(dataType=kind, charset=charset, sv=sv, bv=bv).SerializeToString(),
    st.sampled_from(
        [pb.INT32, pb.UINT64, pb.DECIMAL, pb.FLOAT32, pb.FLOAT64, pb.STRING, pb.BYTES, pb.NIL, pb.NA, 99]
    ),
    st.sampled_from(["", "utf8", "utf8mb4", "latin1", "gbk", "binary"]),
    st.one_of(st.just(""), TEXTS_OF_VALUES),
    st.one_of(st.just(b""), TEXTS_OF_VALUES.map(str.encode), st.binary(max_size=9)),
)


@settings(max_examples=500)
@given(
    st.sampled_from(COLUMNS),
    st.one_of(
        VALUES,
        st.tuples(VALUES, st.integers(0, 9), st.binary(max_size=2)).map(
            lambda t: t[0][: t[1]] + t[2] + t[0][t[1] + 1 :]
        ),
    ),
)
@example("int", b"\x08\x03\x1a\x02-1")
@example("int", b"\x08\x03\x1a\x0212")
@example("int", b"\x08\x03\x1a\x0201")
@example("decimal(12,2)", b"\x08\x0c\x1a\x051.500")
@example("varchar(9)", b"\x08\x0d\x12\x04utf8\x22\x02\xc3\xa9")
@example("decimal(12,2)", b"\x08\x0c\x1a\x03.50")
@example("decimal(12,2)", b"\x08\x0c\x1a\x05-.500")
@example("decimal(12,2)", b"\x08\x0c\x1a\x05-1.50")
@example("decimal(12,2)", b"\x08\x0c\x1a\x01-")
@example("decimal(5,0)", b"\x08\x0c\x1a\x03-12")
@example("date", b"\x08\x0d\x12\x04utf8\x22\x02\xc2\x80")
@example("double", b"\x08\x0a\x1a\x02-0")
@example("double", b"\x08\x0a\x1a\x03 -0")
@example("double", b"\x08\x0a\x1a\x051e999")
@example("double", b"\x08\x0a\x1a\x031e5")
@example("double", b"\x08\x0a\x1a\x021_")
def test_what_is_read_quickly_is_what_protobuf_and_the_columns_own_reading_give(
    column: str, data: bytes
) -> None:
    cells = Cells("n", column, "UTC")
    assert outcome(cells.quick(), data) == outcome(cells.__getitem__, data)


def outcome(read: Any, data: bytes) -> Any:
    try:
        return read(data)
    except DecodeError as error:
        return str(error)


@pytest.mark.parametrize(
    ("column", "data", "text"),
    [
        ("int", pb.Data(dataType=pb.INT32, sv="12"), b'"n":12'),
        ("decimal(9,2)", pb.Data(dataType=pb.DECIMAL, sv="-1.50"), b'"n":"-1.50"'),
        ("decimal(9)", pb.Data(dataType=pb.DECIMAL, sv="-15"), b'"n":"-15"'),
        ("double", pb.Data(dataType=pb.FLOAT64, sv="1.5e3"), b'"n":1500.0'),
        (
            "varchar(9)",
            pb.Data(dataType=pb.STRING, charset="utf8mb4", bv='é"'.encode()),
            '"n":"é\\""'.encode(),
        ),
        (
            "datetime",
            pb.Data(dataType=pb.STRING, charset="utf8", bv=b"2024-01-01 00:00:00"),
            b'"n":"2024-01-01 00:00:00"',
        ),
    ],
)
def test_common_values_are_read_quickly_and_not_kept(column: str, data: pb.Data, text: bytes) -> None:
    cells = Cells("n", column, "UTC")
    assert (cells.quick()(data.SerializeToString()), len(cells)) == (text, 0)


@given(st.lists(st.integers(0, 200), max_size=300))
def test_a_column_reads_the_same_however_often_it_is_asked(values: list[int]) -> None:
    cells = Cells("n", "int", "UTC")
    written = [pb.Data(dataType=pb.INT32, sv=str(value)).SerializeToString() for value in values]
    assert [cells[data] for data in written] == [b'"n":%d' % value for value in values]
    assert [cells.value(data) for data in written] == values
    assert len(cells) <= 64


def test_long_values_are_not_kept_and_errors_name_the_column() -> None:
    cells = Cells("body", "text", "UTC")
    assert cells[
        pb.Data(dataType=pb.STRING, charset="utf8mb4", bv=b"x" * 300).SerializeToString()
    ] == b'"body":"%b"' % (b"x" * 300)
    assert len(cells) == 0
    assert cells[pb.Data(dataType=pb.NA).SerializeToString()] is ABSENT
    with pytest.raises(DecodeError, match=r"^column n: expected a value of its type, got another$"):
        _ = Cells("n", "int", "UTC")[pb.Data(dataType=pb.INT32, sv="1.5").SerializeToString()]
