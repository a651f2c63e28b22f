"""Cells stored into columns of ENUM and SET."""

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal

from lakehouse.values.charsets import bytes_codec
from lakehouse.values.server_value import Bits, Cell, Document, Label, NoRule, as_integer, as_text
from lakehouse.values.store_assignment.target import Target

_NUMBER = re.compile(r"[ \t\n\v\f\r]*[+-]?\d+", re.A)


def store_enum(cell: Cell, target: Target) -> str | int:
    """By text, else by index; '' for what is no member, 0 where '' is one. MySQL reads numbers by their text
    first, the others by their value.
    """
    members = target.type.members
    if not members:
        raise NoRule("ENUM without labels")
    if _by_value(cell, target):
        return _at(members, as_integer(cell, target.server))
    if isinstance(cell, Label) and cell.number == 0:
        return error_value(members)
    text = _label_text(cell, target)
    found = _member(text, target)
    if found is not None:
        return found
    number = _number(text.rstrip(" "), 5)
    return error_value(members) if number is None else _at(members, number)


def store_set(cell: Cell, target: Target) -> str:
    """By labels, unknown ones dropped; else by mask, of which MySQL takes none with bits beyond the labels
    out of text. TiDB takes either none of a value or all of it.
    """
    members = target.type.members
    if not members:
        raise NoRule("SET without labels")
    if _by_value(cell, target):
        number = as_integer(cell, target.server)
        if target.server == "tidb" and number >> len(members):
            return ""
        return _labels(members, min(number, (1 << 63) - 1) if isinstance(cell, Decimal) else number)
    text = _label_text(cell, target)
    words = text.split(",") if text else []
    known = [found for word in words if (found := _member(word, target)) is not None]
    if len(known) == len(words) or (known and target.server != "tidb"):
        return _labels(members, labels_mask(known, members))
    mask = _number(text, 21)
    is_beyond = mask is not None and target.server != "mariadb" and mask >> len(members)
    return "" if mask is None or is_beyond else _labels(members, mask)


def _number(text: str, longest: int) -> int | None:
    """An index or mask that is told as text, of 64 bits without a sign; None for other text."""
    if len(text) > longest or not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number % (1 << 64) if abs(number) < 1 << 64 else None


def _label_text(cell: Cell, target: Target) -> str:
    """Bytes are looked for among the labels as text of the labels' charset."""
    if isinstance(cell, Document) and target.server == "mysql":
        raise NoRule("a label out of a JSON document")
    if isinstance(cell, bytes):
        return cell.decode(bytes_codec(target.type.charset, target.server) or "utf-8", "replace")
    return as_text(cell, target.server)


def _by_value(cell: Cell, target: Target) -> bool:
    return isinstance(cell, Bits) or (isinstance(cell, int | float | Decimal) and target.server != "mysql")


def _member(text: str, target: Target) -> str | None:
    """The member that a text names; no one's last spaces count. Whether one in another case or with other
    accents is meant depends on the column's collation, which no message tells. It is not decided, but for a
    default: a server takes none that is no member.
    """
    members, exact = target.type.members or (), text.rstrip(" ")
    if text in members or exact in members:
        return text if text in members else exact
    plain = _folded(exact)
    like = [member for member in members if _folded(member) == plain]
    if like and not (target.checked and len(like) == 1):
        raise NoRule("a label in another case, which the column's collation may tell apart")
    return like[0] if like else None


def _folded(text: str) -> str:
    """Without case and accents, as the widest of collations compares."""
    parts = unicodedata.normalize("NFKD", text.casefold().rstrip(" "))
    return "".join(part for part in parts if not unicodedata.combining(part))


def _at(members: Sequence[str], index: int) -> str | int:
    return members[index - 1] if 0 < index <= len(members) else error_value(members)


def error_value(members: Sequence[str]) -> str | int:
    """The canonical value of an ENUM's index 0, which prints as '': 0 where '' is a member."""
    return 0 if "" in members else ""


def _labels(members: Sequence[str], mask: int) -> str:
    mask = max(-1 << 63, min(mask, (1 << 64) - 1))
    return ",".join(member for bit, member in enumerate(members) if mask >> bit & 1)


def labels_mask(labels: Sequence[str], members: Sequence[str]) -> int:
    """The bits of a SET's labels; a label that is no member has none."""
    return sum(1 << bit for bit, member in enumerate(members) if member in labels)
