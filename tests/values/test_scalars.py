"""One table per type family of values that several formats share."""

import base64
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import DecodeError
from lakehouse.values.scalars import (
    base64_bytes,
    base64_text,
    integer,
    latin1_base64,
    number,
    time_zone,
    timestamp_utc,
)


@pytest.mark.parametrize(
    ("text", "zone", "canonical"),
    [
        ("2024-05-06 07:08:09", "UTC", "2024-05-06 07:08:09Z"),
        ("2024-05-06 07:08:09.100000", "Asia/Shanghai", "2024-05-05 23:08:09.100000Z"),
        ("2024-05-06 07:08:09.123", "+08:00", "2024-05-05 23:08:09.123Z"),
        ("2024-05-06 07:08:09", "-3:30", "2024-05-06 10:38:09Z"),
        ("2024-10-27 02:30:00", "Europe/Warsaw", "2024-10-27 00:30:00Z"),  # twice that night: the first
        ("1970-01-01 00:00:01", "+00:00", "1970-01-01 00:00:01Z"),
        ("0000-00-00 00:00:00", "Asia/Shanghai", "0000-00-00 00:00:00"),
        ("2024-00-06 07:08:09", "UTC", "2024-00-06 07:08:09"),
        ("2024-06-31 07:08:09", "Asia/Shanghai", "2024-06-31 07:08:09"),
        ("0001-01-01 00:00:00", "Asia/Shanghai", "0001-01-01 00:00:00"),
        ("no time", "UTC", "no time"),
    ],
)
def test_a_timestamp_becomes_utc_and_what_is_no_instant_stays(text: str, zone: str, canonical: str) -> None:
    assert timestamp_utc(text, zone) == canonical


@given(
    moment=st.datetimes(datetime(1970, 1, 2), datetime(2037, 12, 31)),
    zone=st.sampled_from(["Asia/Shanghai", "America/New_York", "UTC", "+05:30"]),
)
def test_a_timestamp_is_the_same_instant_in_every_zone(moment: datetime, zone: str) -> None:
    local = moment.replace(tzinfo=UTC).astimezone(
        ZoneInfo("Asia/Kolkata") if zone == "+05:30" else ZoneInfo(zone)
    )
    if local.fold:
        return

    assert timestamp_utc(f"{local:%F %T.%f}", zone) == f"{moment:%F %T.%f}Z"


@pytest.mark.parametrize("zone", ["Mars/Phobos", "+25:00", "../../etc/passwd", "\0"])
def test_a_zone_that_is_none_is_named(zone: str) -> None:
    with pytest.raises(DecodeError) as caught:
        time_zone(zone)

    assert str(caught.value) == f"time_zone: expected an IANA name or an offset such as +08:00, got {zone!r}"


@given(data=st.binary())
def test_binary_is_base64_whether_it_came_as_bytes_or_as_characters(data: bytes) -> None:
    assert base64_text(data) == latin1_base64(data.decode("latin-1")) == base64.b64encode(data).decode()
    assert base64_bytes(base64_text(data)) == data


@given(value=st.integers())
def test_integers_of_any_size_are_exact(value: int) -> None:
    assert integer(str(value)) == value


@pytest.mark.parametrize("text", ["", "1.0", "1_000", " 1", "٣", "0x1", "1" * 101])
def test_text_that_is_no_integer_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="no integer"):
        integer(text)


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_the_double_that_their_text_names(value: float) -> None:
    assert number(repr(value)) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999", "one", ""])
def test_text_that_is_no_finite_number_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"no finite number|could not convert"):
        number(text)
