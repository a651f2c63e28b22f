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

# name → (what it is unless said, the values that destroy, what they cost).
# None as default: what is unsaid is taken as harmless.
_Setting = tuple[str | None, str, str]
_BINLOG: dict[str, _Setting] = {
    "binlog_row_image": (
        None,
        "minimal|noblob",
        "columns that did not change are absent, and a row can't always be found",
    ),
    "binlog_row_value_options": (None, "PARTIAL_JSON", "changes inside JSON values are lost"),
}
_COMPACTED: dict[str, _Setting] = {
    "cleanup.policy": (
        None,
        "compact|.*compact.*",
        "a compacted topic drops intermediate versions and deletes",
    )
}
_TICDC: dict[str, _Setting] = {
    "only-output-updated-columns": (None, "true", "old images lack the columns that did not change"),
    "column-selectors": (None, ".+", "columns that are left out are unknown, not NULL"),
    "output-raw-change-event": (
        None,
        "true",
        "updates of a key come unsplit, and without old values the old row stays",
    ),
    "event-filters": (None, ".+", "a filtered DDL is gone while its rows go on"),
}
_TICDC_KAFKA: dict[str, _Setting] = _COMPACTED | {
    "dispatcher": (
        None,
        "ts",
        "the rows of one key spread over all partitions, whose order then means nothing",
    ),
    "delete-only-output-handle-key-columns": (None, "true", "deletes carry the key alone"),
    "large-message-handle-option": (
        None,
        "handle-key-only",
        "large rows come without values and become dead letters",
    ),
}
_EXTENSION: dict[str, _Setting] = {
    "enable-tidb-extension": (
        None,
        "false",
        "no commit time and no watermark is sent: order is arrival order only",
    )
}
FIDELITY: dict[str, dict[str, _Setting]] = {
    "ticdc-open": _TICDC
    | _TICDC_KAFKA
    | {"output-old-value": (None, "false", "an update can't be told from an insert")},
    "ticdc-canal-json": _TICDC | _TICDC_KAFKA | _EXTENSION,
    "ticdc-debezium": _TICDC
    | _TICDC_KAFKA
    | _EXTENSION
    | {"output-old-value": (None, "false", "old images are not sent")},
    "ticdc-storage": _TICDC | _EXTENSION,
    "canal": _BINLOG
    | _COMPACTED
    | {
        "canal.instance.filter.query.ddl": (None, "true", "the table's shape goes stale and columns shift"),
        "canal.instance.filter.query.dml": (None, "true", "statements that changed rows leave no trace"),
        "canal.mq.partitionHash": (
            None,
            ".+",
            "an update that changes the key moves to another partition, out of order",
        ),
    },
    "debezium": _BINLOG
    | _COMPACTED
    | {
        "skipped.operations": ("t", "(.*,)?\\s*t\\s*(,.*)?", "truncates never arrive"),
        "bigint.unsigned.handling.mode": (
            "long",
            "long",
            "BIGINT UNSIGNED of 2^63 and above wraps to negative numbers",
        ),
        "decimal.handling.mode": ("precise", "double", "decimals are rounded to doubles"),
        "time.precision.mode": (
            None,
            "adaptive|connect|isostring",
            "times outside 0 to 24 hours or below a millisecond are lost",
        ),
        "replace.null.with.default": ("true", "true", "NULL in a column with a default becomes the default"),
        "binlog_transaction_compression": (
            None,
            "on|1|true",
            (
                "all rows of a transaction have one place, and only provide.transaction.metadata=true "
                "tells their order"
            ),
        ),
    },
    "tencent-dts": _BINLOG,
}
FIDELITY["canal-protobuf"] = FIDELITY["canal"] | {
    "binlog_transaction_compression": (
        None,
        "on|1|true",
        "all rows of a transaction have one place: of several messages each numbers its own",
    )
}


def fidelity_warnings(data: Data) -> Iterator[Finding]:
    """What is allowed, but loses something."""
    yield from _harmful_settings(data)
    format = data["format"]
    if "time_zone" in FORMATS[format].options and "time_zone" not in data and format != "tencent-dts":
        text = "is not said, and TIMESTAMP comes in the producer's zone: it is read as UTC"
        yield ("time_zone",), text, "write time_zone: UTC, or the zone"
    if format == "ticdc-debezium":
        yield (
            ("format",),
            "loses DECIMAL digits, and sends the default in place of NULL",
            "use ticdc-open where those matter",
        )
    if (
        format == "ticdc-canal-json"
        and data.get("consistency") == "eventual"
        and setting(data, "enable-tidb-extension") in (None, "auto")
    ):
        text = (
            "is not said: where messages lack it, replays and changes over several partitions are not "
            "told apart"
        )
        yield ("options", "enable-tidb-extension"), text, "write true or false, as the changefeed has it"
    if _is_csv_without_commit_ts(data):
        text = "is not true: rows have no commit time, and files no watermark"
        yield ("options", "include-commit-ts"), text, "set it at the changefeed and here"
    if section(section(data, "kafka"), "options").get("kafka.isolation.level") == "read_uncommitted":
        path = ("kafka", "options", "kafka.isolation.level")
        yield path, "reads what aborted transactions wrote", "remove it: read_committed is the default"


def _harmful_settings(data: Data) -> Iterator[Finding]:
    for name, (default, harmful, cost) in FIDELITY[data["format"]].items():
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


def sends_watermarks(data: Data) -> bool:
    """Does a feed with these settings send watermarks?"""
    said = {
        known: _text(value)
        for name, value in section(data, "options").items()
        if (known := known_option(data["format"], name))
    }
    off = setting(data, "enable-tidb-extension") == "false"
    return formats.sends_watermarks(data["format"], said) and not off


def _is_csv_without_commit_ts(data: Data) -> bool:
    is_csv = data["format"] == "ticdc-storage" and setting(data, "protocol") == "csv"
    return is_csv and setting(data, "include-commit-ts") != "true"
