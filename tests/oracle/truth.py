"""What a stored value is in silver's encoding, and which type gold gives a column: written anew here, by the
documents alone.
"""

import base64
import re
from datetime import datetime, timedelta
from typing import Any

_SIGNED = {"tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT"}
_UNSIGNED = {
    "tinyint": "SMALLINT",
    "smallint": "INT",
    "mediumint": "INT",
    "int": "BIGINT",
    "bigint": "DECIMAL(20,0)",
}
_OTHERS = {
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "datetime": "TIMESTAMP_NTZ",
    "timestamp": "TIMESTAMP",
    "year": "INT",
}


def canonical(cell: dict[str, Any]) -> Any:
    """The canonical value of a cell; TIMESTAMP text is eight hours ahead of UTC."""
    value, base = cell["value"], re.split(r"\W", cell["type"])[0]
    if value is None:
        return None
    if base in (*_SIGNED, "bit", "year"):
        return int(value)
    if base in ("float", "double"):
        return float(value) + 0.0
    if "blob" in base or "binary" in base:
        return base64.b64encode(bytes.fromhex(value[2:])).decode()
    if base == "timestamp" and not value.startswith("0000-"):
        head, _, digits = value.partition(".")
        return f"{datetime.fromisoformat(head) - timedelta(hours=8)}{'.' if digits else ''}{digits}Z"
    return value


def gold_type(type_text: str) -> str:
    """The Spark type of a column type, by the table in the design."""
    base, unsigned = re.split(r"\W", type_text)[0], "unsigned" in type_text
    sizes = [int(text) for text in re.findall(r"\d+", type_text.partition("(")[2])]
    if base in _SIGNED:
        return (_UNSIGNED if unsigned else _SIGNED)[base]
    if base == "bit":
        return "DECIMAL(20,0)" if sizes == [64] else "BIGINT"
    if base == "decimal":
        return f"DECIMAL({sizes[0]},{sizes[1]})" if sizes[0] <= 38 else "STRING"
    if "blob" in base or "binary" in base:
        return "BINARY"
    return _OTHERS.get(base, "STRING")
