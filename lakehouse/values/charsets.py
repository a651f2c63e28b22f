"""MySQL's character sets as Python codecs: for feeds that send text in the column's own charset, and for what
MODIFY COLUMN takes from one to another.
"""

import codecs
import functools
import re

_CODECS = {
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "latin1": "mysql_latin1",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "big5": "big5",
    "sjis": "shift_jis",
    "cp932": "cp932",
    "ujis": "euc_jp",
    "euckr": "cp949",  # the server's has the syllables of the extension too
    "tis620": "tis_620",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "hp8": "hp_roman8",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
}


# Characters that the server has where Python and Java have others, of which its charset has none.
_SERVERS = {
    "sjis": {"＼": "\\"},
    "greek": {"‘": "ʽ", "’": "ʼ"},
    "hebrew": {"¯": "‾"},
    "cp866": {"№": "ⁿ", "¤": "²"},
    "koi8u": {"∙": "•"},
}
# The same of Java's charset that MySQL's driver, and so Debezium, takes for the server's: KOI8-R for koi8u, …
_DRIVERS = {
    "sjis": {"—": "―"},
    "ujis": {"—": "―"},
    "eucjpms": {"—": "―", "‖": "∥", "−": "－", "〜": "～", "¢": "￠", "£": "￡", "¬": "￢"},
    "gbk": {"♁": "⊕"},
    "koi8u": dict(zip("╢╤╥╓╕╖╫╜", "ЄІЇєіїҐґ", strict=True)),
}
_SERVERS_TEXT = {charset: str.maketrans(others) for charset, others in _SERVERS.items()}
_DRIVERS_TEXT = {
    charset: str.maketrans(_SERVERS.get(charset, {}) | _DRIVERS.get(charset, {}))
    for charset in (*_CODECS, "eucjpms")
    if not charset.startswith(("utf", "ucs", "gb18030"))
}
LOST = "\ufffd"
_MISREAD = {LOST, *(char for others in (*_SERVERS.values(), *_DRIVERS.values()) for char in others)}
MAY_BE_MISREAD = re.compile(f"[{''.join(sorted(_MISREAD))}]")


# MySQL's latin1 is Windows-1252, whose five holes are the control characters of their own number.
_LATIN1 = "".join(bytes([code]).decode("cp1252", "ignore") or chr(code) for code in range(256))
_LATIN1_BYTES = codecs.charmap_build(_LATIN1)


def _latin1(name: str) -> codecs.CodecInfo | None:
    """Python's entry of MySQL's latin1."""
    if name != "mysql_latin1":
        return None
    return codecs.CodecInfo(
        lambda text, errors="strict": codecs.charmap_encode(text, errors, _LATIN1_BYTES),
        lambda data, errors="strict": codecs.charmap_decode(data, errors, _LATIN1),
        name=name,
    )


codecs.register(_latin1)


def bytes_codec(charset: str | None, server: str) -> str | None:
    """The codec of the bytes that text of this charset is to a server. TiDB keeps latin1 in UTF-8,
    with any character (run).
    """
    return "utf-8" if server == "tidb" and charset == "latin1" else charset_codec(charset)


def charset_codec(charset: str | None) -> str | None:
    """Python's name of a charset, None where it has none. A column without a charset is taken as utf8mb4."""
    return _CODECS.get(charset or "utf8mb4")


def decode_text(data: bytes, charset: str) -> str | None:
    """Text of a charset or collation (`gbk`, `utf8mb4_general_ci`); None for bytes that are none, or a
    charset without codec.
    """
    codec, others = _codec(charset)
    try:
        text = None if codec is None else data.decode(codec)
    except UnicodeDecodeError:
        return None
    return text.translate(others) if text and others else text


@functools.lru_cache(maxsize=256)
def _codec(charset: str) -> tuple[str | None, dict[int, str] | None]:
    name = charset.lower().partition("_")[0]
    if name in ("", "binary", "utf-8"):
        return "utf-8", None
    return _CODECS.get(name), _SERVERS_TEXT.get(name)


def read_by_driver(charset: str | None) -> dict[int, str] | None:
    """The characters that MySQL's driver reads wrong in a charset, with the server's; None of one that can
    hold U+FFFD, which stands for bytes that it can't read, and where the charset is not known.
    """
    return _DRIVERS_TEXT.get(charset or "")
