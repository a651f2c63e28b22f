"""How far a Debezium feed is complete: the source's one watermark, from its transactions and snapshots.

    rows        each tells its transaction's id and its own number in it (`tx=<id>;<n>`)
    END         tells how many row events the transaction has
    snapshot    the row marked `last` ends one

A transaction is whole once all its numbers have been seen, however often; END records come in the binlog's order, so everything up to
the last row of the first whole ones is there. A snapshot is whole with its last row. A DDL has no transaction: its position counts
once nothing is open, and from the next batch on, when rows before it that were still on their way have come. State is JSON.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.events import Position

_REMEMBERED = 1000
_LAST_ROW = 2**63 - 1


@dataclass(slots=True)
class Told:
    """What one batch tells: row numbers and the highest position by transaction, ENDs in order, begun and whole snapshots, DDLs."""

    rows: dict[str, tuple[set[int], Position]] = field(default_factory=dict)
    ends: list[tuple[str, int]] = field(default_factory=list)
    snapshots: set[Position] = field(default_factory=set)
    begun: set[Position] = field(default_factory=set)
    ddls: set[Position] = field(default_factory=set)

    def row(self, flags: Iterable[str], position: Position) -> None:
        """One change, with the flags that its decoder gave it."""
        for flag in flags:
            if flag.startswith("tx="):
                id_, _, number = flag[3:].rpartition(";")
                numbers, highest = self.rows.get(id_, (set(), position))
                numbers.add(int(number))
                self.rows[id_] = (numbers, max(highest, position))
            elif flag == "snapshot=last":
                self.snapshots.add(snapshot_position(position))
            elif flag == "snapshot=first":
                self.begun.add(snapshot_position(position))


def snapshot_position(position: Position) -> Position:
    """The place of a snapshot, from that of one of its rows."""
    return (*position[:4], 0, 0)


def aborted(state: Mapping[str, Any] | None) -> list[Position]:
    """The places of full snapshots that were broken off: another one began or ended later, and their last row never came."""
    whole = {tuple(position) for position in (state or {}).get("snapshots", [])}
    begun = {tuple(position) for position in (state or {}).get("begun", [])}
    last = max(whole | begun, default=())
    return sorted(position for position in begun - whole if position < last)


def advance(state: Mapping[str, Any] | None, told: Told, *, settled: bool = False) -> dict[str, Any]:
    """The state after a batch: `whole` is the watermark, `snapshots` are the whole ones, `begun` all of which the first row came.

    `settled` says that nothing is on its way: the input is a recording.
    """
    before = state or {"open": {}, "ends": [], "closed": [], "whole": None, "snapshots": [], "ddls": []}
    closed = dict.fromkeys(before["closed"])
    open_ = _opened(before["open"], {id_: seen for id_, seen in told.rows.items() if id_ not in closed})
    ends = deque([*before["ends"], *([id_, count] for id_, count in told.ends if count)])
    whole = [tuple(before["whole"])] if before["whole"] else []
    while ends and (ends[0][0] in closed or _is_whole(open_.get(ends[0][0]), ends[0][1])):
        id_, _ = ends.popleft()
        if id_ in open_:
            whole.append(tuple(open_.pop(id_)["last"]))
            closed[id_] = None
    snapshots = sorted({*map(tuple, before["snapshots"]), *told.snapshots})
    whole += [(*position[:4], _LAST_ROW, 1) for position in snapshots]
    ready = {*map(tuple, before["ddls"]), *(told.ddls if settled else ())}
    if not open_ and not ends:
        whole += ready
        ready = set()
    highest = max(whole, default=None)
    waiting = [list(position) for position in sorted({*ready, *told.ddls}) if highest is None or position > highest]
    return {"open": open_, "ends": list(ends), "closed": list(closed)[-_REMEMBERED:], "whole": highest and list(highest),
            "snapshots": [list(position) for position in snapshots], "ddls": waiting,
            "begun": [list(position) for position in sorted({*map(tuple, before.get("begun", [])), *told.begun})]}  # fmt: skip


def _opened(before: Mapping[str, Any], rows: Mapping[str, tuple[set[int], Position]]) -> dict[str, Any]:
    opened = dict(before)
    for id_, (numbers, highest) in rows.items():
        known = opened.get(id_, {"seen": [], "last": list(highest)})
        opened[id_] = {"seen": _joined(known["seen"], numbers), "last": max(known["last"], list(highest))}
    return opened


def _joined(seen: list[list[int]], numbers: set[int]) -> list[list[int]]:
    """Ranges of numbers, with more numbers."""
    ranges: list[list[int]] = []
    for low, high in sorted([*map(tuple, seen), *((number, number) for number in numbers)]):
        if ranges and low <= ranges[-1][1] + 1:
            ranges[-1][1] = max(ranges[-1][1], high)
        else:
            ranges.append([low, high])
    return ranges


def _is_whole(transaction: Mapping[str, Any] | None, count: int) -> bool:
    return transaction is not None and transaction["seen"] == [[1, count]]
