"""Changes that lack something: what a feed that loses rows and columns leaves of them."""

import random
from collections.abc import Iterable, Iterator

from lakehouse.fold.row_edits import OLD_KEY_UNKNOWN, Change

LOSSES = ("nothing", "nothing", "nothing", "change", "old image", "column", "old key", "other column")


def damaged(changes: Iterable[Change], chance: random.Random) -> Iterator[Change]:
    """The changes, of which some are lost, some have no old image or lack a column, and some have a column
    that no DDL has declared.
    """
    for change in changes:
        loss = chance.choice(LOSSES)
        after = change.after
        if loss == "change":
            continue
        if loss == "old image" and after is not None:
            yield change._replace(before=None)
        elif loss == "column" and after:
            gone = chance.choice(sorted(after))
            yield change._replace(after={name: value for name, value in after.items() if name != gone})
        elif loss == "old key":
            yield change._replace(flags=(*change.flags, OLD_KEY_UNKNOWN))
        elif loss == "other column" and after is not None:
            yield change._replace(after={**after, "nobody_said_so": "1"})
        else:
            yield change
