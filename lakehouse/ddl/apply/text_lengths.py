"""TEXT and BLOB types by length: TEXT(n) is the smallest type that holds n characters, and CONVERT TO
CHARACTER SET widens a type that might not hold its characters in the new charset.
"""

from dataclasses import replace

from lakehouse.schema import BINARIES, TEXTS, ColumnType
from lakehouse.values.store_assignment.texts import capacity

_ONE_BYTE = (
    "ascii latin1 latin2 latin5 latin7 cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 hp8 swe7 koi8r "
    "koi8u greek hebrew tis620"
    " armscii8 geostd8 keybcs2 macce macroman binary"
)
_BYTES = {
    **dict.fromkeys(_ONE_BYTE.split(), 1),
    **dict.fromkeys(("gbk", "gb2312", "big5", "sjis", "cp932", "euckr", "ucs2"), 2),
    **dict.fromkeys(("utf8", "utf8mb3", "ujis", "eucjpms"), 3),
}
_LIMITED = {"varchar": "text", "varbinary": "blob"}
_MOST = 65_535
_SIZES = (*TEXTS[2:], *BINARIES[2:])


def by_length(column_type: ColumnType) -> ColumnType:
    """The type that a server makes of TEXT(n) or BLOB(n), of a VARCHAR or VARBINARY of more than 65,535 bytes
    (where it is lax), and of DECIMAL(0), which is DECIMAL(10).
    """
    if column_type.base == "decimal" and not column_type.length and not column_type.scale:
        return replace(column_type, length=10, scale=0)
    if column_type.base in _LIMITED:
        return _limited(column_type)
    if column_type.base not in ("text", "blob") or not column_type.length:
        return column_type
    needed = column_type.length * (_bytes(column_type.charset) if column_type.base == "text" else 1)
    return replace(column_type, base=_holding(needed, column_type.base), length=None)


def _limited(column_type: ColumnType) -> ColumnType:
    length, is_text = column_type.length or 0, column_type.base == "varchar"
    most = _bytes(column_type.charset) if is_text else 1
    least = most if column_type.charset else 1  # where no charset is known, it may be any
    if length * least <= _MOST:
        return column_type
    return replace(column_type, base=_holding(length * most, _LIMITED[column_type.base]), length=None)


def widened(old: ColumnType, new: ColumnType) -> ColumnType:
    """`new`, in the charset that a table is converted to, as wide as the characters of `old` may need."""
    if old.base not in _SIZES or new.base != old.base or old.charset is None:
        return new
    needed = capacity(old) * _bytes(new.charset) // _bytes(old.charset)
    return replace(new, base=max(_holding(needed, "text"), old.base, key=_SIZES.index))


def _bytes(charset: str | None) -> int:
    """The most that one character takes."""
    return _BYTES.get(charset or "", 4)


def _holding(needed: int, family: str) -> str:
    sizes = [base for base in _SIZES if base.endswith(family)]
    return next((base for base in sizes if capacity(ColumnType(base)) >= needed), sizes[-1])
