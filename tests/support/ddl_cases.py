"""Statements with their meanings, and the form in which two meanings are compared: spellings of one type are
equal.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from lakehouse.ddl.apply.effects import Effects
from lakehouse.ddl.apply.schema import alter_by_edit
from lakehouse.ddl.edits import Edit
from lakehouse.schema import TableSchema
from tests.support.paths import DATA

_WIDTH = re.compile(r"^(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)", re.I)
_NOISE = re.compile(r"(?i)\s+(zerofill|binary(?!\()|collate\s+\S+)(?=\s|$)")


def alter(schema: TableSchema, edits: Iterable[Edit]) -> tuple[TableSchema, Effects]:
    """The schema behind an ALTER TABLE, and what it did to rows, in the order to apply it."""
    following, steps = alter_by_edit(schema, edits)
    return following, tuple(effect for _, effects in steps for effect in effects)


def cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"ddl/{name}.jsonl").read_text().splitlines()]


def form(value: Any) -> Any:
    """Absent, false, null and empty members are one; errors' texts and conditions don't count."""
    if isinstance(value, list):
        return [form(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        name: form(item)
        for name, item in value.items()
        if item not in (None, False, [], "") and name not in ("node", "error")
    }
    kept = {name: item for name, item in kept.items() if not name.startswith("if_")}
    if "type" in kept:
        kept["type"] = _type(kept["type"])
    if "default" in kept:
        kept["default"] = re.sub(r"[\s()'\"]|(?i:_utf8mb4)", "", str(kept["default"])).lower()
        if kept["default"] == "null":
            del kept["default"]
    return kept


def _type(text: str) -> str:
    text = _WIDTH.sub(r"\1", _NOISE.sub("", " ".join(text.split())))
    head, quote, rest = text.partition("'")
    return head.lower().replace("charset", "character set") + quote + rest
