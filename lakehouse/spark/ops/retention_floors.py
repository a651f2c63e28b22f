"""The retention floors of a source, by table. Silver refuses changes that arrive below one, and counts them
in its book.
"""

from lakehouse.events import Position
from lakehouse.lineage import Name
from lakehouse.spark.ops.log import OpsLog

Floors = dict[Name, Position]


def floors_of(log: OpsLog) -> Floors:
    """The floor of each table that has one, in silver's present generation."""
    floors: Floors = {}
    for record in log.all("floor"):
        if record["generation"] == log.generation:
            place = tuple(record["place"])
            floors.update(
                {
                    (name[0], name[1]): max(place, floors.get((name[0], name[1]), place))
                    for name in record["names"]
                }
            )
    return floors
