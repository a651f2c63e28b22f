"""The retention floors of a source, by table. Silver refuses changes that arrive below one, and counts them
in its book; the schema history refuses statements (lakehouse/schema_history/ordering_problems.py).
"""

from msgspec import UNSET

from lakehouse.events import Position
from lakehouse.lineage import Name
from lakehouse.ops.records.operators import Floor
from lakehouse.schema_history.ordering_problems import RaisedFloor
from lakehouse.spark.ops.log import OpsLog

Floors = dict[Name, Position]


def floors_of(log: OpsLog) -> Floors:
    """The floor of each table that has one, in silver's present generation."""
    floors: Floors = {}
    for record in log.all(Floor):
        if record.generation == log.generation:
            floors |= {name: max(record.place, floors.get(name, record.place)) for name in record.names}
    return floors


def raised_floors(log: OpsLog) -> list[RaisedFloor]:
    """Each floor of silver's present generation, with the batch that it came behind; those of older lakes
    don't tell it.
    """
    return [
        RaisedFloor(record.place, frozenset(record.names), record.batch)
        for record in log.all(Floor)
        if record.generation == log.generation and record.batch is not UNSET
    ]
