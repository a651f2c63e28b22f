"""The steps of a lineage, as a fold takes rows over them: which is in force, and at which the rows that are
folded so far go on as others.
"""

from lakehouse.ddl_effects import Clear, Rekey, Retype
from lakehouse.events import MIN_POSITION, Position
from lakehouse.fold.upcast import Upstream, may_lose
from lakehouse.lineage import Lineage, key_ids
from lakehouse.values.convert import is_identity


def rekeyings(lineage: Lineage, upto: int) -> list[int]:
    """The steps, up to `upto`, at which the key becomes another."""
    return [index for index in range(1, upto + 1) if changes_key(lineage, index)]


def moved_keys(lineage: Lineage, upto: int) -> Position:
    """The last step, up to `upto`, before which a row could leave a key's values of today without a delete of
    them: a row of a log below it need not be the last one of the row that has them. Without a key every
    update is a delete and an insert.
    """
    keys = {index: key_ids(lineage, index) for step in rekeyings(lineage, upto) for index in (step - 1, step)}
    moved = [
        index
        for index in rekeyings(lineage, upto)
        if keys[index - 1] and not (keys[index] and set(keys[index]) <= set(keys[index - 1]))
    ]
    return max((lineage.steps[index].position for index in moved), default=MIN_POSITION)


def cuts(lineage: Lineage, upto: int, upstream: Upstream) -> list[int]:
    """The steps, up to `upto`, whose DDL is applied to rows and not to the images of changes: the key becomes
    another, or what becomes of a row is decided by all of its cells.
    """
    return [
        index
        for index in range(1, upto + 1)
        if changes_key(lineage, index) or may_lose(lineage, index, upstream)
    ]


def last_cut(lineage: Lineage, upto: int, upstream: Upstream) -> Position:
    """Where the last of them is: what comes late below it is not told from the rows of its keys alone."""
    return max((lineage.steps[step].position for step in cuts(lineage, upto, upstream)), default=MIN_POSITION)


def changes_key(lineage: Lineage, index: int) -> bool:
    """Whether a row's key before the step may be another one after it. Two keys that become equal by a
    column's new type are different keys below it: a row that was deleted long before must not take the other
    one with it.
    """
    before = key_ids(lineage, index - 1)
    if before != key_ids(lineage, index):
        return True
    return any(
        isinstance(effect, Rekey)
        or (
            isinstance(effect, Retype)
            and effect.column_id in before
            and not is_identity(effect.old, effect.new)
        )
        for effect in lineage.steps[index].effects
    )


def key_turns(lineage: Lineage, upto: int) -> list[Position]:
    """Where, up to a step, the key that silver has of a row (its values in the order of their columns' names)
    becomes that of another row, or another text.
    """
    named = [_by_name(lineage, step) for step in range(upto + 1)]
    return [
        lineage.steps[index].position
        for index in range(1, upto + 1)
        if named[index] != named[index - 1] or changes_key(lineage, index)
    ]


def _by_name(lineage: Lineage, step: int) -> list[int]:
    names = {column.id: column.name for column in lineage.steps[step].schema.columns}
    return sorted(key_ids(lineage, step), key=names.__getitem__)


def target_step(lineage: Lineage, at: Position) -> int:
    """The step in force right after `at`: a DDL at `at` itself counts."""
    return max((index for index, step in enumerate(lineage.steps) if step.position <= at), default=0)


def clears(lineage: Lineage, start: int, end: int) -> bool:
    """Whether a statement of the steps start … end empties the table, which mends what it lacked before."""
    steps = lineage.steps[start : end + 1]
    return any(isinstance(effect, Clear) for step in steps for effect in step.effects)
