"""Settings of a producer that destroy fidelity: what they are called, what they cost, and who is warned of
them.

`upstream:` of a source says what the producer is set to where no message shows it. Nothing is decoded
differently for it; `validate` and `plan` warn, and a setting that no warning knows is an error.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse import formats
from lakehouse.config.options import known_option
from lakehouse.config.yaml_reader import Path
from lakehouse.formats import FORMATS

Data = Mapping[str, Any]
Finding = tuple[Path, str, str]


def fidelity_warnings(data: Data) -> Iterator[Finding]:
    """What is allowed, but loses something."""
    yield from _harmful_settings(data)
    row = FORMATS[data["format"]]
    if "time_zone" in row.options and "time_zone" not in data and not row.tells_time_zone:
        text = "is not said, and TIMESTAMP comes in the producer's zone: it is read as UTC"
        yield ("time_zone",), text, "write time_zone: UTC, or the zone"
    options, consistency = said_options(data), data.get("consistency")
    for caveat in row.caveats:
        if caveat.applies(options, consistency):
            yield caveat.path, caveat.text, caveat.fix
    if section(section(data, "kafka"), "options").get("kafka.isolation.level") == "read_uncommitted":
        path = ("kafka", "options", "kafka.isolation.level")
        yield path, "reads what aborted transactions wrote", "remove it: read_committed is the default"


def _harmful_settings(data: Data) -> Iterator[Finding]:
    for name, (default, harmful, cost) in FORMATS[data["format"]].harmful_settings.items():
        place = "options" if known_option(data["format"], name) else "upstream"
        said = setting(data, name)
        value = default if said is None else said
        if value is not None and re.fullmatch(harmful, value, re.I):
            text = cost if said is not None else f"is not said, and by default {value}: {cost}"
            yield (place, name), text, f"change it at the producer, and say so under `{place}:`"


def section(data: Data, name: str) -> Data:
    """The mapping under `name`, or an empty one."""
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def setting(data: Data, name: str) -> str | None:
    """What the source says of a producer's setting, as text: as a decoder's option if it is one, else under
    `upstream`.
    """
    known = known_option(data["format"], name)
    said = section(data, "options" if known else "upstream").items()
    value = next(
        (
            value
            for other, value in said
            if other == name or (known and known_option(data["format"], other) == known)
        ),
        None,
    )
    return None if value is None else _text(value)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def said_options(data: Data) -> dict[str, str]:
    """What the source says of its decoder's options, by the decoder's own names."""
    return {
        known: _text(value)
        for name, value in section(data, "options").items()
        if (known := known_option(data["format"], name))
    }


def sends_watermarks(data: Data) -> bool:
    """Does a feed with these settings send watermarks?"""
    off = setting(data, "enable-tidb-extension") == "false"
    return formats.sends_watermarks(data["format"], said_options(data)) and not off
