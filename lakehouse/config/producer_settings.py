"""Settings of a producer that lose data: which ones a source's YAML has, or has by default, and the warnings.

`upstream:` of a source has the settings of the producer that no message shows. They don't change decoding;
`validate` and `plan` warn of them, and a setting without a warning is an error.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse import formats
from lakehouse.config.options import known_option, known_options, option_text
from lakehouse.config.yaml_reader import Path
from lakehouse.formats import FORMATS

Data = Mapping[str, Any]
Finding = tuple[Path, str, str]


def fidelity_warnings(data: Data) -> Iterator[Finding]:
    """Warnings of settings that are allowed, but lose data."""
    yield from _harmful_settings(data)
    row = FORMATS[data["format"]]
    if "time_zone" in row.options and "time_zone" not in data and not row.tells_time_zone:
        text = "is not said, and TIMESTAMP comes in the producer's zone: it is read as UTC"
        yield ("time_zone",), text, "write time_zone: UTC, or the zone"
    options, consistency = configured_options(data), data.get("consistency")
    for caveat in row.caveats:
        if caveat.applies(options, consistency):
            yield caveat.path, caveat.text, caveat.fix
    if section(section(data, "kafka"), "options").get("kafka.isolation.level") == "read_uncommitted":
        path = ("kafka", "options", "kafka.isolation.level")
        yield path, "reads what aborted transactions wrote", "remove it: read_committed is the default"


def _harmful_settings(data: Data) -> Iterator[Finding]:
    for name, (default, harmful, cost) in FORMATS[data["format"]].harmful_settings.items():
        place = "options" if known_option(data["format"], name) else "upstream"
        configured = _configured(data, name)
        values = configured or ([] if default is None else [default])
        value = next((one for one in values if re.fullmatch(harmful, one, re.I)), None)
        if value is not None:
            text = cost if configured else f"is not said, and by default {value}: {cost}"
            yield (place, name), text, f"change it at the producer, and say so under `{place}:`"


def section(data: Data, name: str) -> Data:
    """The mapping under `name`, or an empty one."""
    inner = data.get(name)
    return inner if isinstance(inner, dict) else {}


def setting(data: Data, name: str) -> str | None:
    """A producer's setting in the source's YAML as text, from the decoder's options or from `upstream`; None
    if unset.
    """
    return next(iter(_configured(data, name)), None)


def _configured(data: Data, name: str) -> list[str]:
    """The values of a setting, of which there are several where users write into its name."""
    known = known_option(data["format"], name)
    return [
        option_text(value)
        for other, value in section(data, "options" if known else "upstream").items()
        if value is not None
        and (generic_name(other) == name or (known and known_option(data["format"], other) == known))
    ]


def generic_name(name: object) -> str:
    """A setting's name, without what a user writes into it: `column.truncate.to.20.chars`."""
    return _TRANSFORM.sub("NAME", _HASH.sub(r"\1", _LENGTH.sub("N", str(name))))


_LENGTH, _HASH = re.compile(r"(?<=\.)\d+(?=\.chars$)", re.A), re.compile(r"^(column\.mask\.hash)\..*", re.S)
_TRANSFORM = re.compile(r"(?<=^transforms\.)[^.]+(?=\.type$)")


def configured_options(data: Data) -> dict[str, str]:
    """The decoder's options in the source's YAML, by the decoder's own names."""
    return known_options(data["format"], section(data, "options"))


def sends_watermarks(data: Data) -> bool:
    """Whether a feed with these settings sends watermarks."""
    off = setting(data, "enable-tidb-extension") == "false"
    return formats.sends_watermarks(data["format"], configured_options(data)) and not off
