r"""mydumper's LOAD DATA (`--csv`, `--load-data`, `--format`): which file it loads, and how that is written.

    LOAD DATA LOCAL INFILE 'd.t.00000.dat' INTO TABLE `t` CHARACTER SET binary FIELDS TERMINATED BY ','
    ENCLOSED BY '"' ESCAPED BY '\\' LINES STARTING BY '' TERMINATED BY '\n' IGNORE 1 LINES
    (`id`,@b,@j)SET `b`=UNHEX(@b),`j`=CONVERT(@j USING UTF8MB4);

It is one line, in which neither names nor the operator's own separators are escaped: no parser of SQL reads
each of them. Read from 0.12.7 on (src/mydumper_write.c): 0.11 and 0.12.1 cut text at a NUL and do not escape
it. Those write REPLACE INTO and no CHARACTER SET, 0.15.3 and later write no REPLACE.
"""

import re
from typing import NamedTuple

from lakehouse.errors import LakehouseError
from lakehouse.schema import TableSchema
from lakehouse.sources.dumps.csv_rows import Dialect, Field, field_of_mydumper, loaded
from lakehouse.sources.dumps.tuples import unescaped

_LOAD = re.compile(
    rb"LOAD DATA LOCAL INFILE '(?P<file>.*)' (?P<replace>REPLACE )?+INTO TABLE `(?P<table>.*)` "
    rb"(?:CHARACTER SET (?P<charset>\w+) )?+(?:FIELDS TERMINATED BY '(?P<separator>.+?)' )?+"
    rb"(?:ENCLOSED BY '(?P<quote>.*?)' )?+(?:ESCAPED BY '(?P<escape>.*?)' )?+LINES "
    rb"(?:STARTING BY '(?P<start>.*?)' )?+TERMINATED BY '(?P<line>.+?)' (?P<header>IGNORE 1 LINES )?+"
    rb"\((?P<columns>[`@].*?)\) *(?:SET (?P<set>.*))?"
)
_COLUMN = re.compile(rb"(?:`(.*?)`|@(.*?))(?:,(?=[`@])|\Z)")
# what can't be told from a value, or from what escapes it
_NO_SEPARATOR = re.compile(rb"[\w%+.\\'\"\r\n-]")
_AGAIN = "dump again with the defaults of --csv or --load-data"


class Load(NamedTuple):
    """A LOAD DATA. `fields` are the file's columns; `charset` is that of the file, where it is told."""

    file: str
    table: str
    charset: str | None
    dialect: Dialect
    fields: list[Field]


def load_of(text: bytes, schema: TableSchema, where: str) -> Load:
    """A statement, read by the schema of its table. LakehouseError for one that mydumper writes with other
    options, for one of a release that does not escape text, and for other tools' statements.
    """
    found = _LOAD.fullmatch(text)
    if found is None:
        raise LakehouseError(f"{where}: expected a LOAD DATA as mydumper writes it, got another; {_AGAIN}")
    if found["replace"] and not found["charset"]:
        raise LakehouseError(
            f"{where}: expected mydumper 0.12.7 or later, got rows of an earlier one, which does not escape "
            "text; dump again without --csv and --load-data, or with a later one"
        )
    separator, quote, line = (_literal(found[name]) for name in ("separator", "quote", "line"))
    _refuse_others(found, where, separator=separator, quote=quote, line=line)
    dialect = loaded(separator, quote, line, header=found["header"] is not None)
    fields = [
        field_of_mydumper(
            _name(quoted or at, schema, where), dialect, quote, is_hex=_is_hex(at, found, where)
        )
        for quoted, at in _COLUMN.findall(found["columns"])
    ]
    charset = None if found["charset"] is None else found["charset"].decode().lower()
    return Load(_text(found["file"]), _text(found["table"]), charset, dialect, fields=fields)


def _refuse_others(
    found: re.Match[bytes], where: str, *, separator: bytes, quote: bytes, line: bytes
) -> None:
    """LakehouseError where rows can't be told from what stands between them."""
    reasons = {
        f"FIELDS TERMINATED BY {separator!r}": not separator or _NO_SEPARATOR.search(separator) is not None,
        f"ENCLOSED BY {quote!r}": quote not in (b"", b'"', b"'"),
        "ESCAPED BY another sign than a backslash": _literal(found["escape"]) != b"\\",
        "LINES STARTING BY some text": bool(found["start"]),
        f"LINES TERMINATED BY {line!r}": line not in (b"\n", b"\r\n"),
    }
    got = [reason for reason, is_so in reasons.items() if is_so]
    if got:
        raise LakehouseError(
            f"{where}: expected separators that no value has, and backslash escapes, got {got[0]}; {_AGAIN}"
        )


def _literal(text: bytes | None) -> bytes:
    return unescaped(text or b"", b"'", escapes=True)


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _name(name: bytes, schema: TableSchema, where: str) -> str:
    """The column that is meant: releases differ in whether they double a backquote."""
    for text in (_text(name), _text(name).replace("``", "`")):
        if schema.column(text) is not None:
            return text
    raise LakehouseError(f"{where}: expected columns of the table's CREATE, got {_text(name)}; {_AGAIN}")


def _is_hex(variable: bytes, found: re.Match[bytes], where: str) -> bool:
    """Whether the statement converts a column from hexadecimal (`--hex-blob`)."""
    if not variable:
        return False
    told = found["set"] or b""
    if b"`%b`=UNHEX(@%b)" % (variable, variable) in told:
        return True
    if b"`%b`=CONVERT(@%b USING UTF8MB4)" % (variable, variable) in told:
        return False
    raise LakehouseError(
        f"{where}: expected UNHEX or CONVERT of {_text(variable)}, got another expression; {_AGAIN}"
    )
