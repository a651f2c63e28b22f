"""Types of option values: durations, sizes, texts, starting offsets, each with its JSON Schema, and the base
class of the models.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from lakehouse.errors import ConfigError

_DURATION = r"^[0-9]+ ?(ms|s|m|h|d)$"
_SIZE = r"^[0-9]+ ?(B|KB|MB|GB|KiB|MiB|GiB)?$"
_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _duration(value: object) -> timedelta:
    matched = re.match(_DURATION, value) if isinstance(value, str) else None
    if not matched or not isinstance(value, str):
        raise ValueError("expected a duration with its unit, such as 30s, 15m, 2h or 7d")
    return timedelta(seconds=int(value.removesuffix(matched[1])) * _SECONDS[matched[1]])


def seconds_of(option: str, text: str) -> float:
    """The seconds of a duration that was given on the command line as this option."""
    try:
        return _duration(text).total_seconds()
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}") from error


def _size(value: object) -> int:
    matched = (
        re.match(_SIZE, str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    )
    if not matched:
        raise ValueError("expected a size such as 64MB or 128MiB")
    return int(str(value).removesuffix(matched[1] or "")) * _SIZES[matched[1] or ""]


def _starting(value: object) -> str | dict[str, dict[str, int]]:
    """Check a starting point: earliest, latest, timestamp:<instant>, or offsets by topic and partition.
    Partitions are text, as YAML keys are.
    """
    if isinstance(value, dict):
        return _offsets(value)
    if value in ("earliest", "latest"):
        return str(value)
    if (
        isinstance(value, str)
        and value.startswith("timestamp:")
        and _is_instant(value.removeprefix("timestamp:"))
    ):
        return value
    raise ValueError(
        "expected earliest, latest, timestamp:2026-11-21T09:00:00Z, or offsets such as {orders: {0: 1500}}"
    )


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text.strip()).tzinfo is not None
    except ValueError:
        return False


def _offsets(value: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    for partitions in value.values():
        if not isinstance(partitions, dict) or not partitions:
            raise ValueError("expected offsets by topic and partition, such as {orders: {0: 1500}}")
        if not all(
            name.isdigit() and type(offset) is int and offset >= -2 for name, offset in partitions.items()
        ):
            raise ValueError("expected partition numbers with offsets, -2 for earliest and -1 for latest")
    return dict(value)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _option_text(value: object) -> object:
    """A decoder option as text: `true` and `5` are text to a decoder."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else value


Duration = Annotated[
    timedelta, BeforeValidator(_duration), WithJsonSchema({"type": "string", "pattern": _DURATION})
]
Size = Annotated[
    int, BeforeValidator(_size), WithJsonSchema({"type": ["string", "integer"], "pattern": _SIZE})
]
Text = Annotated[str, Field(min_length=1)]
TextOrList = Annotated[
    list[Text],
    BeforeValidator(_listed),
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    ),
]
OptionText = Annotated[
    str, BeforeValidator(_option_text), WithJsonSchema({"type": ["string", "boolean", "integer"]})
]
_OFFSETS = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
}
_START = {"anyOf": [{"type": "string", "pattern": "^(earliest|latest|timestamp:.+)$"}, _OFFSETS]}
Starting = Annotated[str | dict[str, dict[str, int]], PlainValidator(_starting), WithJsonSchema(_START)]


class OrText:
    """Marks, in the JSON Schema, a mapping that may also be written as a single text."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(core)]}


class Model(BaseModel):
    """A configuration model: unknown options are errors, and errors never quote values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
