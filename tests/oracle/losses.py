"""What a format's producer loses before a byte is written: the history is cut there, and nothing is compared
behind it.
"""

import re
from decimal import Decimal
from typing import Any

from tests.oracle.database import Column
from tests.oracle.runner import Event

_ZERO = re.compile(r"0000-|\d{4}-00|\d{4}-\d\d-00")


def lost(format_: str, event: Event) -> str | None:
    """What the format can't carry of a row's event, or None."""
    for side in ("before", "after"):
        for name, cell in event.get(side, {}).items():
            why = (
                _LOSSES.get(format_, _nothing)(cell, event["of"].column(name))
                if cell["value"] is not None
                else None
            )
            if why is not None:
                return why
    return None


def _nothing(cell: dict[str, Any], column: Column) -> str | None:
    return None


def _zero_date(cell: dict[str, Any], column: Column) -> str | None:
    dated = column.base in ("date", "datetime", "timestamp")
    return "a zero or partial date" if dated and _ZERO.match(cell["value"]) else None


def _tidb_debezium(cell: dict[str, Any], column: Column) -> str | None:
    if column.base == "decimal" and Decimal(repr(float(cell["value"]))) != Decimal(cell["value"]):
        return "digits of a DECIMAL beyond a double"
    return _zero_date(cell, column)


def _canal(cell: dict[str, Any], column: Column) -> str | None:
    """Canal reads text of any charset as UTF-8; labels are numbers to it."""
    text = column.charset not in (None, "utf8mb4", "utf8mb3") and column.base not in ("enum", "set")
    return "text of another charset that is not ASCII" if text and not cell["value"].isascii() else None


def _debezium(cell: dict[str, Any], column: Column) -> str | None:
    return "YEAR 0000" if column.base == "year" and cell["value"] == "0000" else _zero_date(cell, column)


_LOSSES = {"ticdc-debezium": _tidb_debezium, "debezium": _debezium, "canal": _canal, "canal-protobuf": _canal}
