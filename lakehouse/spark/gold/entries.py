"""A table's state and its entry in the manifest."""

from typing import Any

from lakehouse.spark.gold.plan import Turn
from lakehouse.spark.gold.table import GoldTable


def _lacking(turn: "Turn", table: GoldTable) -> dict[str, Any]:
    """What the table's changes are known to lack, and since when: what was found before stands until all of
    them are folded again.
    """
    before = (turn.known or {}).get("lacking", {}) if not table.is_whole else {}
    return {**{text: list(turn.at) for text in sorted(table.mode.problems)}, **before}
