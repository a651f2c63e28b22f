"""Snapshots that were begun again at their place, of tables without a key: who reads a part of the changes
does not see it, since it shows in two rows that are marked as the first, or as the last, of one place
(ChangeReader, lakehouse/fold/row_edits.py).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.events import POSITION_PARTS
from lakehouse.fold.row_edits import ENDS_OF_SNAPSHOT, PLACE_PARTS
from lakehouse.lineage import Lineage, key_ids


def begun_again(changes: DataFrame, lineage: Lineage, target: int) -> bool:
    """Whether a place has two such rows, of a table that has no key at some step up to `target`: then one
    worker has to fold all of the changes.
    """
    if all(key_ids(lineage, step) for step in range(target + 1)):
        return False
    first, last = map(_is_marked, ENDS_OF_SNAPSHOT)
    place = [F.col(f"position.{part}") for part in POSITION_PARTS[:PLACE_PARTS]]
    counts = (
        changes.where((F.col("op") == "snapshot") & (first | last))
        .groupBy(*place)
        .agg(F.count_if(first).alias("first"), F.count_if(last).alias("last"))
    )
    return not counts.where("first > 1 or last > 1").isEmpty()


def _is_marked(end: str) -> Column:
    return F.exists("flags", lambda flag: flag.startswith(end))
