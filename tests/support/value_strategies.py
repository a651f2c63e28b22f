"""Strategies for (column type, canonical value) pairs of every family, each value in its type's
normal form.
"""

import base64
import json
import struct
from datetime import date, datetime

from hypothesis import strategies as st

from lakehouse.schema import ColumnType
from lakehouse.values.normal_form import duration_text, fraction, single, vector_text

SERVERS = ("mysql", "mariadb", "tidb")

WIDTHS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
LABELS = st.lists(
    # servers cut the spaces that end a label
    st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=6).filter(
        lambda label: not label.endswith(" ")
    ),
    min_size=1,
    max_size=8,
    unique=True,
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)


@st.composite
def integers(draw: st.DrawFn) -> tuple[ColumnType, int]:
    base, unsigned = draw(st.sampled_from(sorted(WIDTHS))), draw(st.booleans())
    low, high = (0, 1 << WIDTHS[base]) if unsigned else (-1 << WIDTHS[base] - 1, 1 << WIDTHS[base] - 1)
    return ColumnType(base, unsigned=unsigned), draw(st.integers(low, high - 1))


@st.composite
def decimals(draw: st.DrawFn) -> tuple[ColumnType, str]:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(30, precision)))
    digits = f"{draw(st.integers(0, 10**precision - 1)):0{scale + 1}}"
    sign = "-" if draw(st.booleans()) and digits.strip("0") else ""
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return ColumnType("decimal", precision, scale), sign + text


@st.composite
def bits(draw: st.DrawFn) -> tuple[ColumnType, int]:
    width = draw(st.integers(1, 64))
    return ColumnType("bit", width), draw(st.integers(0, (1 << width) - 1))


@st.composite
def binaries(draw: st.DrawFn) -> tuple[ColumnType, str]:
    data = draw(st.binary(min_size=1, max_size=20))
    base = draw(st.sampled_from(["binary", "varbinary", "blob", "geometry"]))
    return ColumnType(base, len(data) if "binary" in base else None), base64.b64encode(data).decode()


@st.composite
def moments(draw: st.DrawFn) -> tuple[ColumnType, str]:
    base, digits = (
        draw(st.sampled_from(["datetime", "timestamp"])),
        draw(st.sampled_from([None, 0, 1, 2, 3, 4, 5, 6])),
    )
    moment = draw(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)))
    kept = moment.microsecond // 10 ** (6 - (digits or 0)) * 10 ** (6 - (digits or 0))
    return ColumnType(base, digits), fraction(str(moment.replace(microsecond=kept)), digits or 0) + "Z" * (
        base == "timestamp"
    )


@st.composite
def times(draw: st.DrawFn) -> tuple[ColumnType, str]:
    digits = draw(st.integers(0, 6))
    ticks = draw(st.integers(-3020399 * 10**digits, 3020399 * 10**digits))
    return ColumnType("time", digits), fraction(duration_text(ticks * 10 ** (6 - digits)), digits)


@st.composite
def enums(draw: st.DrawFn) -> tuple[ColumnType, str]:
    members = tuple(draw(LABELS))
    return ColumnType("enum", members=members), draw(st.sampled_from(["", *members]))


@st.composite
def sets(draw: st.DrawFn) -> tuple[ColumnType, str]:
    members = tuple(draw(LABELS))
    return ColumnType("set", members=members), ",".join(member for member in members if draw(st.booleans()))


def dates() -> st.SearchStrategy[tuple[ColumnType, str]]:
    return st.dates(date(1, 1, 1), date(9999, 12, 31)).map(lambda day: (ColumnType("date"), day.isoformat()))


def floats() -> st.SearchStrategy[tuple[ColumnType, float]]:
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    singles = st.floats(allow_nan=False, allow_infinity=False, width=32)
    return st.one_of(
        numbers.map(lambda number: (ColumnType("double"), number)),
        singles.map(lambda number: (ColumnType("float"), single(number))),
    )


def vectors() -> st.SearchStrategy[tuple[ColumnType, str]]:
    numbers = st.lists(st.floats(-1e6, 1e6, width=32), max_size=5)
    return numbers.map(lambda items: (ColumnType("vector", len(items)), vector_text(items)))


def texts() -> st.SearchStrategy[tuple[ColumnType, str]]:
    return st.tuples(st.sampled_from([ColumnType("varchar", 30), ColumnType("longtext")]), TEXTS)


def documents() -> st.SearchStrategy[tuple[ColumnType, str]]:
    leaves = st.none() | st.booleans() | st.integers() | TEXTS
    trees = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=5,
    )
    return trees.map(lambda tree: (ColumnType("json"), json.dumps(tree, ensure_ascii=False)))


def years() -> st.SearchStrategy[tuple[ColumnType, int]]:
    return (st.just(0) | st.integers(1901, 2155)).map(lambda year: (ColumnType("year"), year))


def typed_values() -> st.SearchStrategy[tuple[ColumnType, object]]:
    """A column type and one of its canonical values, over all families."""
    return st.one_of(
        integers(),
        decimals(),
        bits(),
        binaries(),
        moments(),
        times(),
        enums(),
        sets(),
        dates(),
        floats(),
        vectors(),
        texts(),
        documents(),
        years(),
    )


def as_single(value: float) -> float:
    """The double that a 32-bit float column gives back."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
