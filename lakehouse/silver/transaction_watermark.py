"""The watermark of a Debezium feed, computed from its transactions and snapshots.

    row         has its transaction's id and its own number in it (`tx=<id>;<n>`)
    END         has the number of row events of the transaction
    snapshot    ends with the row marked `last`

A transaction is whole once all its numbers have been seen. ENDs come in the binlog's order, so everything up
to the last row of the first whole transactions has arrived. Both ENDs and ends of snapshots count rows of
other partitions too, of which a batch may hold a part only: they count with a batch that leaves nothing
unread. A DDL has no transaction: its position counts once nothing is open, and one batch, or look into the
topics, later, when rows before it have arrived; of one in several parts the last part counts.

A transaction that lacks rows, or its END, holds the watermark until a snapshot above it is whole, or a
transaction of a later epoch has ended, in which no table is exact before a snapshot of its own. Dead letters
count as rows, for most name their transaction. Each of the others (no table is complete then, because theirs
is unknown) stands for one missing row of an END that has waited for a batch, until that row arrives.

A connector that crashed sends again what follows its last saved offset: from the middle of a transaction on,
or its END alone. So an END waits for nothing if its transaction is known to be whole: by its id, or by the
position of its BEGIN or of a row. Ids start again with each epoch. State is JSON.
"""

from bisect import bisect
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from lakehouse.events import MIN_POSITION, Position, dropped, is_of_some_tables
from lakehouse.ops.progress import (
    DividedStatement,
    LostRows,
    OpenTransaction,
    Ranges,
    Transactions,
    epoch_of_id,
    id_in_epoch,
    joined_parts,
    parted_id,
    ranges_with,
    size_of,
)

_REMEMBERED = 1000
_LAST_ROW = 2**63 - 1
# a snapshot of several threads marks the first row of each table alone
_FIRST_ROW = ("snapshot=first", "snapshot=first_in_data_collection")
# a transaction's id, and how many rows it has
End = tuple[str, int]


@dataclass(slots=True)
class TransactionEvents:
    """What one batch has: `rows`, their numbers and highest position by transaction; `ends` in order, with
    the number of rows; where those transactions began; ended and begun snapshots and what they drop; DDLs,
    `divided` ones with the texts of their parts. `lost` records may be rows of any transaction.
    """

    rows: dict[str, tuple[set[int], Position]] = field(default_factory=dict)
    ends: list[tuple[str, int]] = field(default_factory=list)
    begins: dict[str, Position] = field(default_factory=dict)
    snapshots: set[Position] = field(default_factory=set)
    begun: set[Position] = field(default_factory=set)
    ddls: set[Position] = field(default_factory=set)
    drops: dict[Position, set[str]] = field(default_factory=dict)
    divided: dict[Position, DividedStatement] = field(default_factory=dict)
    lost: int = 0

    def row(self, flags: Iterable[str], position: Position) -> None:
        """One change, with the flags that its decoder gave it."""
        for flag in flags:
            if flag.startswith("tx="):
                told, _, number = flag[3:].rpartition(";")
                id_ = id_in_epoch(told, position[0])
                numbers, highest = self.rows.get(id_, (set(), position))
                numbers.add(int(number))
                self.rows[id_] = (numbers, max(highest, position))
            elif flag == "snapshot=last":
                self.snapshots.add(snapshot_position(position))
            elif flag in _FIRST_ROW:
                self.begun.add(snapshot_position(position))

    def end(self, id_: str, count: int, begin: Position) -> None:
        """The END of a transaction of so many rows; where it began, or the last place of its epoch."""
        id_ = id_in_epoch(id_, begin[0])
        self.ends.append((id_, count))
        self.begins[id_] = begin

    def ddl(self, position: Position, statement: str, parts: int) -> None:
        """A statement, or one of the `parts` of one; 0 where nothing tells how many there are."""
        self.ddls.add(position)
        if parts != 1:
            one = DividedStatement(position, parts, (statement,))
            self.divided[position] = one.joined(self.divided.get(position))

    def snapshot_statement(self, position: Position, statement: str | None) -> None:
        """A statement of a snapshot: what it drops tells whether it is one of all tables."""
        if what := dropped(statement):
            self.drops.setdefault(position, set()).add(what)

    def row_without_change(self, id_: str | None, number: int, position: Position) -> None:
        """A dead letter, or a row that silver leaves out: an END counts it. `id_` is None if unknown."""
        if id_ is None:
            self.lost += 1
        else:
            self.row((f"tx={id_};{number}",), position)


def snapshot_position(position: Position) -> Position:
    """The place of a snapshot, from that of one of its rows."""
    return (*position[:4], 0, 0)


def aborted(state: Transactions | None) -> list[Position]:
    """The places of full snapshots that were broken off: another one began or ended later, and their last row
    never came. One of some tables does not stand for what others had.
    """
    if state is None:
        return []
    whole, begun = {*state.snapshots, *(state.waiting or ())}, set(state.begun)
    last = max((whole | begun) - _of_some(whole | begun, dict(state.drops or ())), default=MIN_POSITION)
    return sorted(position for position in begun - whole if position < last)


def _of_some(places: Iterable[Position], drops: Mapping[Position, Collection[str]]) -> set[Position]:
    """The places of snapshots of some tables alone; of one without statements, others have had its own."""
    return {one for one in places if (is_of_some_tables(drops[one]) if one in drops else bool(drops))}


def advance(
    state: Transactions | None,
    told: TransactionEvents,
    *,
    complete: bool = True,
    settled: bool = False,
    again: bool = False,
) -> Transactions:
    """The state after a batch: `whole` is the watermark, `snapshots` are the whole ones, `begun` all of which
    the first row came.

    `complete` says that with the batch all is read that has landed; `settled` that nothing is on its way: the
    input is a recording; `again` that the records have been in a batch before.
    """
    before = _with_epochs(state or Transactions())
    snapshots = _snapshots_after(before, told, complete=complete)
    open_, closed = _opened(before, told)
    awaited = _awaited(before.ends, open_, snapshots.full)
    ends = deque([*awaited, *_above([end for end in told.ends if end[1]], open_, snapshots.full)])
    lost = _lost(LostRows() if snapshots.full else before.lost, TransactionEvents() if again else told)
    late = len(ends) if settled else len(awaited) if complete else 0
    _close_cut(list(ends)[:late], before, open_, closed)
    places, lost = _ended(ends, late, open_, closed, lost=lost)
    held, whole = _held(before, places, None if complete else _under_way(snapshots))
    divided, partial = joined_parts(before.divided or (), told.divided)
    ddls = {*(before.ddls if complete else ()), *(told.ddls if settled else ())} - partial
    highest = max(whole + _counted(snapshots, ddls, None if ends else open_.values()), default=None)
    return Transactions(
        open=open_,
        ends=tuple(end for end in ends if end[0] not in closed),
        closed=closed.ids,
        passed=closed.ranges,
        drops=tuple(sorted((at, tuple(sorted(words))) for at, words in snapshots.drops.items())) or UNSET,
        whole=highest,
        snapshots=tuple(snapshots.whole),
        ddls=tuple(sorted(ddl for ddl in {*before.ddls, *told.ddls} if highest is None or ddl > highest)),
        lost=lost,
        begun=tuple(sorted(snapshots.begun)),
        held=max(held, default=UNSET),
        waiting=tuple(sorted(snapshots.ended.difference(snapshots.whole))) or UNSET,
        divided=tuple(one for one in divided if highest is None or one.position > highest) or UNSET,
    )


class _Snapshots(NamedTuple):
    """The places of a source's snapshots after a batch: those `begun`, those `ended` that were not whole
    before, all that are `whole`, those of all tables that are whole from this batch on (`full`), and what
    each drops.
    """

    begun: set[Position]
    ended: set[Position]
    whole: list[Position]
    full: set[Position]
    drops: dict[Position, set[str]]


def _snapshots_after(before: Transactions, told: TransactionEvents, *, complete: bool) -> _Snapshots:
    """A snapshot that ended is whole with a batch that leaves nothing unread (`complete`)."""
    ended = {*(before.waiting or ()), *told.snapshots} - set(before.snapshots)
    fresh = ended if complete else set[Position]()
    drops = {place: set(words) for place, words in before.drops or ()}
    for place, words in told.drops.items():
        drops.setdefault(place, set()).update(words)
    return _Snapshots(
        begun={*before.begun, *told.begun},
        ended=ended,
        whole=sorted({*before.snapshots, *fresh}),
        full=fresh - _of_some(fresh, drops),
        drops=drops,
    )


def _counted(
    snapshots: _Snapshots, ddls: Collection[Position], opened: Collection[OpenTransaction] | None
) -> list[Position]:
    """How far whole snapshots and DDLs reach. DDLs, and snapshots of some tables, do where no END waits and
    no transaction is open (`opened`; None where one waits), but for those that a snapshot of all tables has.
    """
    of_some, counted = _of_some(snapshots.whole, snapshots.drops), snapshots.whole
    full = [place for place in counted if place not in of_some]
    last = max(full, default=MIN_POSITION)
    if opened is None or any(one.last >= last for one in opened):
        ddls, counted = [], full
    return [*ddls, *((*place[:4], _LAST_ROW, 1) for place in counted)]


def waits(state: Transactions | None, *, looked: bool) -> bool:
    """Whether a batch that leaves nothing unread makes something count, be it of no record; `looked`: topics
    have been looked into since the last batch, so that nothing before its records is on its way.
    """
    if state is None:
        return False
    if state.waiting or state.held:
        return True
    return looked and advance(state, TransactionEvents()).whole != state.whole


def _under_way(snapshots: _Snapshots) -> Position | None:
    """The first snapshot of which rows may be unread, though later transactions are whole in other topics."""
    last_begun = sorted(snapshots.begun)[-1:]
    return min({*snapshots.ended, *last_begun}.difference(snapshots.whole), default=None)


def _held(
    before: Transactions, places: list[Position], unread_from: Position | None
) -> tuple[list[Position], list[Position]]:
    """The last places of transactions that ended: those above `unread_from`, and those that are whole."""
    known = [*places, before.held] if before.held else places
    held = [place for place in known if unread_from is not None and place > unread_from]
    whole = [place for place in known if place not in held]
    return held, [before.whole, *whole] if before.whole else whole


def _awaited(ends: Iterable[End], open_: Mapping[str, OpenTransaction], fresh: set[Position]) -> list[End]:
    """The ENDs of earlier batches that still count. A snapshot that is whole from this batch on (`fresh`) has
    the effects of their transactions, whose rows may be lost; not of one that has rows above it.
    """
    return [end for end in ends if not fresh or (end[0] in open_ and open_[end[0]].last > max(fresh))]


def _above(ends: list[End], open_: Mapping[str, OpenTransaction], fresh: set[Position]) -> list[End]:
    """The ENDs of a batch but for those that a snapshot has, which is whole from this batch on. ENDs come in
    the binlog's order: it has what ended before a transaction with rows below it.
    """
    last = max(fresh, default=MIN_POSITION)
    below = [number for number, (id_, _) in enumerate(ends, 1) if id_ in open_ and open_[id_].last < last]
    return [*_awaited(ends[: max(below, default=0)], open_, fresh), *ends[max(below, default=0) :]]


def _is_passed(transaction: OpenTransaction, reached: Position | None) -> bool:
    """Whether all of a transaction's rows are at or below the last one of those that have ended: it has been
    there. Rows without a place of their own tell nothing.
    """
    return reached is not None and any(transaction.last[1:]) and transaction.last <= reached


class _Closed:
    """The ids of transactions that are whole: ranges of those that end in a number, which of GTIDs take
    little place, and the latest of the others. Where there are too many, the first ones are forgotten.
    """

    def __init__(self, state: Transactions) -> None:
        self._ids: dict[str, None] = {}
        self._ranges: dict[str, Ranges] = dict(state.passed or {})
        self._new: dict[str, set[int]] = {}
        self.add_all(state.closed)

    def add_all(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            prefix, number = parted_id(id_)
            if number is None:
                self._ids[id_] = None
            else:
                self._new.setdefault(prefix, set()).add(number)

    def __contains__(self, id_: str) -> bool:
        prefix, number = parted_id(id_)
        if number is None:
            return id_ in self._ids
        ranges = self._ranges.get(prefix, ())
        at = bisect(ranges, (number, _LAST_ROW)) - 1
        return number in self._new.get(prefix, ()) or (at >= 0 and number <= ranges[at][1])

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._ids)[-_REMEMBERED:]

    @property
    def ranges(self) -> dict[str, Ranges]:
        ranges = {prefix: known for prefix, known in self._ranges.items() if prefix not in self._new}
        for prefix, numbers in self._new.items():
            ranges[prefix] = ranges_with(self._ranges.get(prefix, ()), numbers)
        left = sum(map(len, ranges.values())) - _REMEMBERED
        found = {}
        for prefix, known in ranges.items():
            if left < len(known):
                found[prefix] = known[max(0, left) :]
            left -= len(known)
        return found


def _with_epochs(state: Transactions) -> Transactions:
    """A state with its ids as `id_in_epoch` has them, which those of an older lakehouse are not."""
    epoch = state.whole[0] if state.whole else 0
    if not epoch or state.passed is not UNSET:
        return state
    return replace(
        state,
        open={id_in_epoch(id_, epoch): one for id_, one in state.open.items()},
        ends=tuple((id_in_epoch(id_, epoch), count) for id_, count in state.ends),
        closed=tuple(id_in_epoch(id_, epoch) for id_ in state.closed),
    )


def _lost(before: LostRows, events: TransactionEvents) -> LostRows:
    """How many records are `unknown`, and what had been `seen` of the transactions that some were taken to be
    of: where rows of one come after all, they were of others.
    """
    unknown, seen = before.unknown + events.lost, dict(before.seen)
    for id_ in seen.keys() & events.rows.keys():
        joined = ranges_with(seen[id_], events.rows[id_][0])
        unknown += size_of(joined) - size_of(seen[id_])
        seen[id_] = joined
    return LostRows(unknown, dict(list(seen.items())[-_REMEMBERED:]))


def _close_cut(
    ends: Iterable[End], before: Transactions, open_: Mapping[str, OpenTransaction], closed: "_Closed"
) -> None:
    """Close those transactions which an epoch began within, or behind: rows of them came before it, and may
    not come again. Nothing is on its way to `ends`. Behind one that is whole in the epoch there is none.
    """
    for id_, count in ends:
        epoch = epoch_of_id(id_)
        if epoch > (before.whole or MIN_POSITION)[0]:
            ids = [id_in_epoch(id_.removeprefix(f"{epoch}/"), one) for one in range(epoch + 1)]
            seen = ranges_with([each for one in ids if one in open_ for each in open_[one].seen], set())
            if size_of(seen, count) == count or any(one in closed for one in ids):
                closed.add_all([id_])


def _ended(
    ends: deque[End], late: int, open_: dict[str, OpenTransaction], closed: "_Closed", lost: LostRows
) -> tuple[list[Position], LostRows]:
    """Take out the ENDs, first come first, that are whole: the last places of their transactions, and the
    rows that are lost then.

    Of the first `late` ENDs nothing should be on its way any more: what they miss is taken to be what was
    lost.
    """
    places, unknown, taken = [], lost.unknown, dict(lost.seen)
    newest = max((epoch_of_id(id_) for id_, _ in ends), default=0)
    while ends:
        id_, count = ends[0]
        seen = open_[id_].seen if id_ in open_ else ()
        missing = 0 if id_ in closed else count - size_of(seen, count)
        if missing and (late <= 0 or missing > unknown):
            if epoch_of_id(id_) == newest:
                break
            for end in [end for end in ends if epoch_of_id(end[0]) != newest]:
                ends.remove(end)
                late -= 1
            continue
        if missing:
            unknown -= missing
            taken[id_] = seen
        late -= 1
        closed.add_all([id_])
        ends.popleft()
        if id_ in open_:
            places.append(open_.pop(id_).last)
    return places, LostRows(unknown, taken)


def _opened(before: Transactions, told: TransactionEvents) -> tuple[dict[str, OpenTransaction], "_Closed"]:
    """The transactions that are open with a batch's rows, and those that are whole without its ENDs."""
    closed, opened = _Closed(before), dict(before.open)
    # what is held has ended as well, and all before it
    reached = max((place for place in (before.whole, before.held) if place), default=None)
    closed.add_all(id_ for id_, begin in told.begins.items() if reached and begin <= reached)
    for id_, (numbers, highest) in told.rows.items():
        known = opened.get(id_, OpenTransaction((), highest))
        opened[id_] = OpenTransaction(ranges_with(known.seen, numbers), max(known.last, highest))
    closed.add_all(id_ for id_, one in opened.items() if _is_passed(one, reached))
    # those without rows too: their numbers are between the others
    closed.add_all(id_ for id_, count in told.ends if not count and id_ not in opened)
    return {id_: one for id_, one in opened.items() if id_ not in closed}, closed
