"""Which records a source's log may lose, and what is kept of them in one record.

A run needs of most kinds the last record alone, and of batches and manifests those since the last manifest.
The operators' words, epochs, gaps, backfills, lineages and inferred columns are needed whole: they are few,
and some are counted by their number. So a *cut* is made before a batch, below which the records of OLD kinds
leave the log:

- at or below the batch of the last manifest, so that all that came since stays;
- as far back as the log may be long, by the number and the size of what stays;
- above a new generation of silver, whose batches are numbered anew.

What the batches below it said that anybody asks for later is added up in a `summary`; earlier summaries leave
too.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec import UNSET
from msgspec.structs import asdict, replace

from lakehouse.ops.gist import Gist
from lakehouse.ops.progress import Counts, OffsetRange, Place
from lakehouse.ops.records.bronze import FilesMissing, Looked, Partitions, Read, Scan
from lakehouse.ops.records.gold import Intent, Manifest, Sightings, Spreads
from lakehouse.ops.records.operators import Floor, Generation, Retired
from lakehouse.ops.records.record import Record
from lakehouse.ops.records.runs import Run, Summary
from lakehouse.ops.records.silver import Closing, Done, Planned

# the kinds whose old records leave the log; of each the last one stays
OLD = frozenset(
    one.kind
    for one in (
        Planned,
        Done,
        Intent,
        Manifest,
        Read,
        Partitions,
        Scan,
        FilesMissing,
        Looked,
        Sightings,
        Spreads,
    )
)
# small, and shown over weeks: so many of them stay
RUNS = 5_000


class Stored(Protocol):
    """A record of the log: `size` is the length of the text that it is stored as."""

    @property
    def seq(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def record(self) -> Record | None: ...
    @property
    def gist(self) -> Gist: ...


class Pruned(NamedTuple):
    """What leaves the log: the records of OLD kinds below `cut` but those that stay, runs up to the number
    `runs`, and the `earlier` summaries; and what is kept of them.
    """

    cut: int
    stays: frozenset[int]
    runs: int
    summary: Summary
    earlier: frozenset[int]

    def takes(self, one: Stored) -> bool:
        """Whether a record leaves."""
        if one.kind == Run.kind:
            return one.seq <= self.runs
        if one.kind == Summary.kind:
            return one.seq in self.earlier
        return one.kind in OLD and one.seq < self.cut and one.seq not in self.stays

    @property
    def condition(self) -> str:
        """The same in SQL."""
        kinds = ", ".join(f"'{kind}'" for kind in sorted(OLD))
        old = f"kind IN ({kinds}) AND seq < {self.cut:d}"
        if self.stays:
            old += f" AND seq NOT IN ({_listed(self.stays)})"
        found = f"({old}) OR (kind = '{Run.kind}' AND seq <= {self.runs:d})"
        if self.earlier:
            found += f" OR (kind = '{Summary.kind}' AND seq IN ({_listed(self.earlier)}))"
        return found


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:d}" for number in sorted(numbers))


def newest(summaries: Iterable[Summary]) -> Summary | None:
    """The one that counts: a run that overlapped another may have written an older one after it."""
    return max(summaries, key=lambda one: (one.generation, one.seq), default=None)


def known_summary(log: Sequence[Stored]) -> Summary:
    """The summary of silver's present generation; an empty one where there is none. Its `seq` is where the
    batches begin that are not in it.
    """
    found = newest(r for one in log if one.kind == Summary.kind and isinstance(r := one.record, Summary))
    begun = (one.record for one in reversed(log) if one.kind == Generation.kind)
    number = next((one.number for one in begun if isinstance(one, Generation)), 1)
    first = log[_first_of_generation(log)].seq if number > 1 else 0
    if found is None or found.generation != number:
        # the switch of an older lakehouse says nothing of the generation's first batches
        return Summary(seq=first, generation=number)
    # the summary of a generation that was built beside the log has no place in it
    return replace(found, seq=max(first, found.seq))


def pruned(log: Sequence[Stored], *, runs: int, size: int) -> Pruned | None:
    """What leaves a log that is to keep the records of up to `runs` manifests and `size` characters; None
    where nothing does.
    """
    cut = _cut(log, runs, size)
    told = [one.seq for one in log if one.kind == Run.kind]
    last_run = told[-RUNS - 1] if len(told) > RUNS else 0
    found = Pruned(cut, _needed(log, cut), last_run, _summary(log, cut), earlier=_earlier_summaries(log))
    return found if any(found.takes(one) for one in log if one.kind != Summary.kind) else None


def _earlier_summaries(log: Sequence[Stored]) -> frozenset[int]:
    """The summaries that no longer count. The one that does stays beside the next one: a run may die before
    that is written, and a slower run may write an older one.
    """
    known = {one.seq: one.record for one in log if one.kind == Summary.kind}
    read = {seq: one for seq, one in known.items() if isinstance(one, Summary)}
    counts = newest(read.values())
    return frozenset(seq for seq, one in read.items() if one is not counts)


def _cut(log: Sequence[Stored], runs: int, size: int) -> int:
    """The number of the record before which old ones leave: that of a batch's plan. 0: none do."""
    first = _first_of_generation(log)
    manifests = [one for one in log[first:] if one.kind == Manifest.kind]
    if not manifests:
        return 0
    lowest = manifests[-runs:][0].seq
    length = 0
    for one in reversed(log):
        length += one.size
        if length > size:
            lowest = max(lowest, one.seq)
            break
    lowest = min(lowest, manifests[-1].seq)
    # the manifest that is the first to stay, and the last one, which counts, name their batches
    named = next(one for one in manifests if one.seq >= lowest)
    records = [one.record for one in (named, manifests[-1])]
    batch = min(record.batch for record in records if isinstance(record, Manifest))
    plans = (one for one in reversed(log[first:]) if one.kind == Planned.kind and one.seq < lowest)
    return next((one.seq for one in plans if one.gist.batch <= batch), 0)


def _first_of_generation(log: Sequence[Stored]) -> int:
    """The index of the first record of silver's present generation: its last plan and done record stand
    before the record that says it counts.
    """
    for number in range(len(log) - 1, -1, -1):
        if log[number].kind == Generation.kind:
            return max(0, number - 2)
    return 0


def _needed(log: Sequence[Stored], cut: int) -> frozenset[int]:
    """The records of old kinds below the cut that stay: the last of each kind, and those before a `retired`
    record of an older lakehouse, which tell how far silver had read.
    """
    needed = set({one.kind: one.seq for one in log if one.kind in OLD}.values())
    before: dict[str, int] = {}
    for one in log:
        if one.kind == Retired.kind and isinstance(one.record, Retired) and one.record.read is UNSET:
            needed |= {seq for kind, seq in before.items() if kind in (Done.kind, Read.kind)}
        before[one.kind] = one.seq
    return frozenset(seq for seq in needed if seq < cut)


# --- what is kept of batches


def _summary(log: Sequence[Stored], cut: int) -> Summary:
    known = known_summary(log)
    below = [one for one in log if known.seq <= one.seq < cut and one.kind in (Planned.kind, Done.kind)]
    records = [one.record for one in below]
    return added(
        replace(known, seq=max(cut, known.seq)),
        {one.batch: one for one in records if isinstance(one, Planned)},
        {one.batch: one for one in records if isinstance(one, Done)},
        floor=floor_batch((one.record for one in log if one.kind == Floor.kind), known.generation),
    )


def floor_batch(records: Iterable[Record | None], generation: int) -> int:
    """The last batch whose rows a retention floor may have replaced."""
    floors = (one for one in records if isinstance(one, Floor) and one.generation == generation)
    return max((one.batch for one in floors if one.batch is not UNSET), default=0)


def added(known: Summary, plans: dict[int, Planned], done: dict[int, Done], *, floor: int) -> Summary:
    """The summary with further batches."""
    ranges = {one.place: one for one in known.ranges}
    messages = known.messages
    for batch, plan in plans.items():
        if not plan.is_repeat and batch in done:
            messages += done[batch].counts.messages
            for one in plan.ranges:
                ranges[one.place] = _joined(ranges.get(one.place), one)
    whole = [batch for batch, plan in plans.items() if plan.whole]
    # rows of batches up to a floor that was raised since are no longer counted
    goes_on = floor <= known.above
    inserted = sum(one.counts.inserted for batch, one in done.items() if batch > floor)
    return replace(
        known,
        batch=max([known.batch, *done]),
        ranges=tuple(ranges[place] for place in sorted(ranges)),
        messages=messages,
        counts=total([known.counts, *(one.counts for one in done.values())]),
        above=max(floor, known.above),
        inserted=inserted + (known.inserted if goes_on else 0),
        closed=closed_by_code([*known.closed, *(one.requeued for one in done.values() if one.requeued)]),
        whole=tuple(sorted({*known.whole, *whole})[-2:]),
    )


def _joined(known: OffsetRange | None, one: OffsetRange) -> OffsetRange:
    place: Place = one.place
    if known is None:
        return OffsetRange(*place, one.first, one.last)
    return OffsetRange(*place, min(known.first, one.first), max(known.last, one.last))


def total(counts: Iterable[Counts]) -> Counts:
    """Counts added up."""
    sums: dict[str, int] = {}
    for one in counts:
        for name, number in asdict(one).items():
            sums[name] = sums.get(name, 0) + number
    return Counts(**sums)


def closed_by_code(closings: Iterable[Closing]) -> tuple[Closing, ...]:
    """One closing of each code, which closes all that any of them does."""
    found: dict[str | None, Closing] = {}
    for one in closings:
        known = found.get(one.code, one)
        found[one.code] = Closing(one.code, max(known.batch, one.batch), max(known.gaps, one.gaps))
    return tuple(found.values())
