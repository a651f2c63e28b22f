"""What the SET, USE and comment lines of a dump's file say of the rows that follow."""

import re
from dataclasses import dataclass, replace

from lakehouse.errors import LakehouseError
from lakehouse.sources.dumps.metadata import change_master
from lakehouse.sources.dumps.records import Place
from lakehouse.sources.dumps.statements import name_of
from lakehouse.values.charsets import charset_codec

_SET_NAMES = re.compile(rb"SET\s+NAMES\s+['\"]?(\w+)", re.I)
_ZONE = re.compile(rb"\bTIME_ZONE\s*=\s*'([^']*)'", re.I)
_SQL_MODE = re.compile(rb"\bSQL_MODE\s*=\s*'([^']*)'", re.I)
# a trigger is created in a mode of its own, between the two; rows come in the dump's
_MODE_SAVED = re.compile(rb"@SAVED_SQL_MODE\s*=\s*@@SQL_MODE\b", re.I)
_MODE_BACK = re.compile(rb"\bSQL_MODE\s*=\s*@SAVED_SQL_MODE\b", re.I)
# what mysqldump begins and ends with, but for --compact
_OPENED = re.compile(rb"@OLD_SQL_MODE\s*=\s*@@SQL_MODE\b", re.I)
_CLOSED = re.compile(rb"\bSQL_MODE\s*=\s*@OLD_SQL_MODE\b", re.I)
_USE = re.compile(rb"USE\s+(`(?:[^`]|``)+`|[\w$]+)", re.I)
_EXECUTED = re.compile(rb"/\*M?!\d*\s*(.*?)\s*\*/", re.S)
_HEADER = re.compile(r"Host: .*?\s{2,}Database: (.+)")
_PRODUCER = re.compile(r"(?:MySQL|MariaDB) dump \d")
# a trail byte of theirs may be a backslash or a quote: what is escaped depends on the charset
_MULTIBYTE = frozenset({"big5", "cp932", "gb18030", "gbk", "sjis"})


@dataclass(frozen=True, slots=True)
class Session:
    """The state of a file. `charset` is the client's, "binary" for bytes as they are stored; `place` and
    `complete` are mysqldump's, whose header makes it `known`. `is_open`: its session's settings have not been
    set back. `is_aside`: the mode is a trigger's for now.
    """

    charset: str = "utf8mb4"
    zone: str | None = None
    escapes: bool = True
    database: str | None = None
    place: Place | None = None
    known: bool = False
    complete: bool = False
    is_open: bool = False
    is_aside: bool = False

    @property
    def is_cut_short(self) -> bool:
        """Whether mysqldump's file ends before its end, as far as its options let it tell."""
        return self.is_open or (self.known and not self.complete)


def begins_dump(text: str) -> bool:
    """Whether a line of comment is the first one of mysqldump's."""
    return _PRODUCER.match(text) is not None


def after_comment(session: Session, text: str) -> Session:
    """The state after a line of comment."""
    if found := _HEADER.match(text):
        return replace(session, database=found[1].strip())
    if text.startswith("Dump completed"):
        return replace(session, complete=True)
    if begins_dump(text):
        return replace(session, known=True, complete=False)
    place = change_master(text)
    return session if place is None else replace(session, place=place)


def after_statement(session: Session, text: bytes, where: str) -> Session:
    """The state after a statement; LakehouseError for a charset that rows can't be read in."""
    executed = _EXECUTED.fullmatch(text)
    text = executed[1] if executed else text
    if found := _USE.fullmatch(text):
        return replace(session, database=name_of(found[1]))
    if found := _SET_NAMES.match(text):
        return replace(session, charset=_charset(found[1].decode().lower(), where))
    if text[:3].upper() == b"SET":
        zone, mode = _ZONE.search(text), _SQL_MODE.search(text)
        if _OPENED.search(text) or _CLOSED.search(text):
            session = replace(session, is_open=_OPENED.search(text) is not None)
        if zone is not None:
            session = replace(session, zone=zone[1].decode(errors="replace"))
        if _MODE_SAVED.search(text) or _MODE_BACK.search(text):
            session = replace(session, is_aside=_MODE_SAVED.search(text) is not None)
        elif mode is not None and not session.is_aside:
            session = _in_mode(session, mode[1].upper(), where)
        return session
    place = change_master(text.decode(errors="replace")) if text[:6].upper() == b"CHANGE" else None
    return session if place is None else replace(session, place=place)


def _in_mode(session: Session, mode: bytes, where: str) -> Session:
    if b"ANSI" in mode:
        raise LakehouseError(
            f"{where}: expected names in backquotes, got a dump in ANSI mode; dump again without "
            "--compatible=ansi"
        )
    return replace(session, escapes=b"NO_BACKSLASH_ESCAPES" not in mode)


def _charset(name: str, where: str) -> str:
    if name in _MULTIBYTE or (name != "binary" and charset_codec(name) is None):
        raise LakehouseError(
            f"{where}: expected SET NAMES utf8mb4 or binary, got {name}; dump again with "
            "--default-character-set=utf8mb4"
        )
    return name
