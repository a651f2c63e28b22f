"""Scratch tables of a comparison, which hold digests of the server's rows for a while:
`_verify_<source>_<slot>_<gold table>`.

A run holds a slot of its source, so that runs side by side keep what they read apart. A slot that nobody
holds is free, and what is there under its name a killed run has left: the next run removes it.
"""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse.errors import LakehouseError
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.rebuild import discard
from lakehouse.spark.ops.lease import layer_lock

# runs of one source side by side
SLOTS = 8


class Scratch(NamedTuple):
    """A slot's tables: the lake to write them to, whose writes fail once the slot is another run's."""

    lake: Lake
    prefix: str

    def table(self, gold: str) -> str:
        """The scratch table of a gold table, in gold's schema."""
        return f"{self.prefix}{gold}"


@contextmanager
def scratch(spark: SparkSession, lake: Lake, source: str) -> Iterator[Scratch]:
    """Hold a free slot, once what killed runs of the source have left is removed. LakehouseError names who
    holds the last one where none is free.
    """
    with ExitStack() as held:
        slot, own = _free(held, spark, lake, source)
        _remove(spark, own, source, slot)
        for other in range(1, SLOTS + 1):
            if other != slot and _left(spark, lake, source, other):
                with suppress(LakehouseError), layer_lock(spark, lake, source, [_layer(other)]):
                    _remove(spark, lake, source, other)
        yield Scratch(own, _prefix(source, slot))


def _free(held: ExitStack, spark: SparkSession, lake: Lake, source: str) -> tuple[int, Lake]:
    for slot in range(1, SLOTS):
        with suppress(LakehouseError):
            return slot, held.enter_context(layer_lock(spark, lake, source, [_layer(slot)]))
    return SLOTS, held.enter_context(layer_lock(spark, lake, source, [_layer(SLOTS)]))


def _layer(slot: int) -> str:
    return f"verify-{slot}"


def _prefix(source: str, slot: int) -> str:
    """The same for no two sources, whatever their names begin with."""
    return f"_verify_{hashlib.blake2b(source.encode(), digest_size=4).hexdigest()}_{slot}_"


def _left(spark: SparkSession, lake: Lake, source: str, slot: int) -> list[str]:
    """The tables of a slot; none of them can be listed in an object store without a catalog."""
    return lake.names(spark, "gold", _prefix(source, slot))


def _remove(spark: SparkSession, lake: Lake, source: str, slot: int) -> None:
    for table in _left(spark, lake, source, slot):
        discard(spark, lake, table)
