"""The commits of some changes, and what each makes of one row."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

from lakehouse.events import Position
from lakehouse.fold.row_edits import DELETE, PUT, Change, RowEdit
from lakehouse.fold.upcast import Row


class Commit(NamedTuple):
    """The edits of one commit, and the commit time."""

    time: int | None
    edits: list[RowEdit]


def commits_of(
    changes: Iterable[Change], edits: Iterable[RowEdit], by_commit: bool, time: int | None
) -> tuple[list[Commit], int | None]:
    """The commits that some changes belong to, and the time of the last one. `time` is that of the commit
    before them, which a commit without a time of its own has too.
    """
    times: dict[Any, int | None] = {}
    for commit, group in groupby(changes, key=lambda one: _commit(one.position, one.commit_ts, by_commit)):
        time = max((change.commit_ts for change in group if change.commit_ts is not None), default=time)
        times[commit] = time
    commits = groupby(edits, key=lambda one: _commit(one.position, one.time, by_commit))
    return [Commit(times[commit], list(group)) for commit, group in commits], time


def _commit(position: Position, time: int | None, by_commit: bool) -> Any:
    """What changes of one commit have in common. In order of arrival several partitions have the same
    positions: those are commits of their own.
    """
    return position[:2] if by_commit else (position, time)


class Net(NamedTuple):
    """What one commit makes of one row: its image before, as far as it is known or a delete tells it, and
    after.
    """

    before: Row | None
    row: Row | None
    position: Position
    op: str


def net_edits(known: Row | None, edits: list[RowEdit]) -> Net | None:
    """The net effect of one row's edits within a commit; `known` is its image before. None where a row that
    does not exist comes and goes within the commit.
    """
    row = known
    for edit in edits:
        if edit.kind == DELETE:
            row = None
        elif edit.kind == PUT or row is None:
            row = edit.row
        else:
            row = {**row, **edit.row}
    # a delete of a row that no change has shown before tells what it was
    before = edits[0].row if known is None and edits[0].kind == DELETE else known
    if before is None and row is None:
        return None
    last = edits[-1]
    return Net(before, row, last.position, _net_op(before, row, last.op))


def _net_op(before: Row | None, row: Row | None, op: str) -> str:
    """Whether a row was inserted or updated depends on whether it existed, not on what the change says."""
    if row is None:
        return "delete"
    if op == "snapshot":
        return "snapshot"
    return "update" if before is not None or op == "update" else "insert"
