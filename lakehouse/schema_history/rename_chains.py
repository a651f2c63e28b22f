"""A RENAME that takes a table over several names, of which TiCDC sends a record for each step, each with the
table's last name, or keeps the last step alone.
"""

from lakehouse.lineage import Name
from lakehouse.schema import name_key
from lakehouse.schema_history.statements import Context, renames_of

ORIGIN = "it got its name as the last of several in one RENAME, and nothing tells which table it was"
MAY_BE_GONE = "a RENAME over several names took a table of these columns, and nothing tells which one it was"


def leads_to(context: Context, name: Name) -> bool:
    """Whether a record gives a table a name that it does not keep: of `RENAME a TO x, x TO y` TiCDC sends two
    records, both of the table y.
    """
    told = name_key(context.record.table or "")
    return any(
        new == name and told not in ("", name_key(new[1]), name_key(old[1]))
        for old, new in renames_of(context)
    )


def redo_lost_step(contexts: list[Context]) -> None:
    """Of `RENAME a TO x, b TO a, x TO b` TiCDC's storage sink keeps the last two steps: the files of all
    steps of a table have one path. The one table whose name another one gets was the first to go.
    """
    lives, position = contexts[0].lives, contexts[0].position
    pairs = [pair for context in contexts for pair in renames_of(context)]
    olds = {old for old, _ in pairs}
    lost = [old for context in contexts for old in _lost(context) if old not in {new for _, new in pairs}]
    taken = [new for _, new in pairs if new in lives.live and new not in olds]
    if len(lost) == len(taken) == 1:
        lives.rename(taken[0], lost[0], position)


def doubt_origin(context: Context) -> None:
    """Of `RENAME a TO x, x TO y` nothing tells that the table was a."""
    record, lives = context.record, context.lives
    for old in _lost(context):
        names = {name_key(column["name"]) for column in record.columns or ()}
        for lineage in lives.live.values():
            if {name_key(column.name) for column in lineage.steps[-1].schema.columns} == names:
                lineage.incomplete.append((context.position, MAY_BE_GONE))
        lives.get(old, context.position).incomplete.append((context.position, ORIGIN))


def _lost(context: Context) -> list[Name]:
    """The old name of a table in a storage sink's file that is the last step of several: a statement that was
    one of several ends with a semicolon there.
    """
    record = context.record
    if not record.columns or not (record.ddl or "").endswith(";"):
        return []
    return [old for old, _ in renames_of(context) if context.lives.find(old, context.position) is None]
