"""The settings of gold for a source, from its YAMLs and operators, and the watermark that a run goes up
to.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.modes import Clock
from lakehouse.gold.options import GoldOptions, to_plain
from lakehouse.gold.shards import names_until, options_for
from lakehouse.lineage import Lineage, Name
from lakehouse.ops.progress import Partition
from lakehouse.ops.records.bronze import FilesMissing, Gap
from lakehouse.ops.records.gold import Inferred
from lakehouse.ops.records.operators import (
    Accepted,
    Decision,
    Dismissed,
    Epoch,
    Generation,
    Imported,
    Rebuild,
    Retired,
)
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.silver import Done
from lakehouse.quality.suite import Suite
from lakehouse.silver.read_as import Reading
from lakehouse.spark.change_log.schema_history import NOTHING_SAID, Said
from lakehouse.spark.change_log.watermark import source_watermark
from lakehouse.spark.ops.log import OpsLog

MILLIS = Clock()
UPSTREAM = Upstream()
# what operators say, and what topics lost: gold runs again when there is more of it
OPERATORS: tuple[type[Record], ...] = (
    Epoch,
    Retired,
    Decision,
    Imported,
    Dismissed,
    Rebuild,
    Generation,
    Inferred,
    Accepted,
    Gap,
)


@dataclass(frozen=True, slots=True)
class GoldSettings:
    """What gold needs to know of a source. `tables` is None for all, else the selected names; `options` are
    those of the tables that have a YAML; `settled`: bronze has all there will be; `old_rows`: what to set
    upstream where updates lack old rows; `read_as`: how the source's bytes are decoded; `said`: what of the
    YAMLs the schema history needs.
    """

    name: str
    upstream: Upstream = UPSTREAM
    consistency: str = "resolved"
    virtual: bool = False
    tables: frozenset[Name] | None = None
    options: dict[Name, GoldOptions] = field(default_factory=dict)
    clock: Clock = MILLIS
    drift_timeout: float | None = None
    suites: dict[Name, Suite] = field(default_factory=dict)
    settled: bool = False
    old_rows: str = ""
    read_as: Reading = field(default_factory=dict)
    said: Said = NOTHING_SAID


def asked_of(settings: GoldSettings, log: OpsLog) -> str:
    """A digest of what YAMLs and operators ask of gold: another one is a reason to run although silver has
    nothing new.
    """
    rules = [settings.upstream.mark] if settings.upstream.mark else []
    records = (*(log.stored(kind) for kind in OPERATORS), *log.stored(FilesMissing)[-1:])
    return _digest([*_in_yamls(settings), *records, *rules])


def under_of(settings: GoldSettings) -> str:
    """A digest of what gold's rows depend on besides silver's changes and the operators' words: the decoder's
    options, the rules of the source's server, and the YAMLs.
    """
    return _digest([sorted(settings.read_as.items()), settings.upstream, *_in_yamls(settings)])


def _in_yamls(settings: GoldSettings) -> list[Any]:
    tables = [
        None if settings.tables is None else sorted(settings.tables),
        [(name, to_plain(said)) for name, said in sorted(settings.options.items())],
    ]
    suites = sorted((name, suite.digest) for name, suite in settings.suites.items() if suite.digest)
    # the empty part has no meaning any more; without it every lake's digest would be another one
    return [tables, suites, {}, settings.virtual]


def _digest(told: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(told, default=str).encode(), digest_size=12).hexdigest()


def find_watermark(
    settings: GoldSettings, log: OpsLog, done: Done, ends: Mapping[str, Position] | None = None
) -> tuple[Position, Partition | None]:
    """W and the partition that holds it; under `eventual` everything that has arrived. `ends`: the topics
    without tables, else those of the last manifest.
    """
    if settings.consistency == "eventual":
        return done.reach or MIN_POSITION, None
    return source_watermark(done, log, ends)


def is_selected(settings: GoldSettings, lineage: Lineage, at: Position | None = None) -> bool:
    """Whether gold is to have the table: all tables, or those that a YAML names by one of their names up to
    `at`.
    """
    if settings.tables is None:
        return True
    return any(options_for(name, settings.options) is not None for name in names_until(lineage, at))
