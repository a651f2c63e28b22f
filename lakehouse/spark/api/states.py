"""The states of published tables, and the warning that a table is not exact."""

import warnings
from dataclasses import asdict, dataclass
from datetime import datetime

import pandas as pd

from lakehouse.events import Position
from lakehouse.ops.records.gold import TableEntry
from lakehouse.reporting.text.values import place
from lakehouse.spark.api.moments import time_of
from lakehouse.spark.readers.show import Reader


class NotExact(UserWarning):
    """A table was read that is known not to equal its source: it is incomplete, behind or retired. To have an
    error instead: `warnings.simplefilter("error", NotExact)`.
    """


@dataclass(frozen=True, slots=True)
class TableState:
    """Whether a table equals its source.

    source, table    the feed, and the table's name there
    state            exact, incomplete, behind or retired
    why, since       the reason, and from which place on; None where it is exact
    upto             up to which place of the source its rows are
    upto_time        the source's time there; None for feeds whose positions hold none
    delta, version   the Delta table of gold, and its published version
    notes            what else there is to know
    """

    source: str
    table: str
    state: str
    why: str | None
    since: str | None
    upto: str
    upto_time: datetime | None
    delta: str
    version: int
    notes: tuple[str, ...]


def state_of(reader: Reader, entry: TableEntry) -> TableState:
    """A published table's state."""
    order, upto = reader.settings.order, reader.manifest_or_error().position_of(entry)
    return TableState(
        source=reader.source,
        table=entry.name,
        state=entry.state,
        why=entry.why,
        since=None if entry.since is None else place(entry.since, order),
        upto=place(upto, order),
        upto_time=time_of(upto),
        delta=entry.gold,
        version=entry.version,
        notes=entry.notes,
    )


def states_frame(states: list[TableState]) -> pd.DataFrame:
    """States as a small pandas table."""
    frame = pd.DataFrame([asdict(state) for state in states], columns=list(TableState.__dataclass_fields__))
    return frame.assign(upto_time=pd.to_datetime(frame["upto_time"], utc=True))


def warn_unless_exact(reader: Reader, entry: TableEntry, at: Position | None = None, depth: int = 3) -> None:
    """Warn the caller of the API that a table is not exact; `at` a place before it became so, it was."""
    if entry.state == "exact" or (at is not None and entry.since is not None and at < entry.since):
        return
    state = state_of(reader, entry)
    since = f" since {state.since}" if state.since else ""
    why = f": {state.why}" if state.why else ""
    warnings.warn(f"{state.table} is {state.state}{since}{why}", NotExact, stacklevel=depth)
