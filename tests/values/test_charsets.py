"""MySQL's character sets, in feeds and in conversions: one table."""

import base64

import pytest

from lakehouse.schema import parse_type
from lakehouse.values.charsets import charset_codec, decode_text
from lakehouse.values.convert import convert


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("euckr", b"\x81\x41", "갂"),  # of the extension, as a MariaDB 11.4 reads it
        ("hp8", b"\xc5", "é"),
        ("macroman", b"\x8e", "é"),
        ("gbk", b"\xc4\xe3", "你"),
        ("latin1", b"\x80", "€"),
        ("latin1", b"a\x81\x8d\x8f\x90\x9d", "a\x81\x8d\x8f\x90\x9d"),
    ],
)
def test_what_a_feed_reads_a_conversion_reads_too(charset: str, data: bytes, text: str) -> None:
    binary, column = parse_type("varbinary(9)"), parse_type(f"varchar(9) character set {charset}")

    assert decode_text(data, charset) == text
    assert convert(base64.b64encode(data).decode(), binary, column) == text
    assert base64.b64decode(convert(text, column, binary)) == data


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("sjis", b"\x81\x5f", "\\"),
        ("greek", b"\xa1\xe1\xa2", "ʽαʼ"),
        ("hebrew", b"\xaf", "‾"),
        ("cp866", b"\xfc\xfd", "ⁿ²"),
        ("koi8u_general_ci", b"\x95\xa6", "•і"),
    ],
)
def test_a_feed_has_the_characters_of_the_server_where_a_codec_has_others(
    charset: str, data: bytes, text: str
) -> None:
    """As MariaDB 11.4 and MySQL 5.6 read these bytes."""
    assert decode_text(data, charset) == text


def test_a_charset_without_codec_has_none() -> None:
    assert charset_codec("dec8") is decode_text(b"a", "dec8") is None
    assert charset_codec(None) == charset_codec("utf8mb4") == "utf-8"
    assert decode_text("é".encode(), "utf8mb4_general_ci") == decode_text("é".encode(), "") == "é"
