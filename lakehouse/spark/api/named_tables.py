"""Which source and table a name means, of the sources of an opened lake."""

import functools
from collections.abc import Iterable
from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.lineage import Lineage
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.spark.api.activity import published
from lakehouse.spark.ops.gold_names import the_one
from lakehouse.spark.readers.show import Reader


class Tables:
    """The tables of some sources by their names: `DB.TABLE`, or `SOURCE:DB.TABLE`. `root` is the lake's, for
    messages.
    """

    def __init__(self, readers: Iterable[Reader], root: str) -> None:
        self._readers = {reader.source: reader for reader in readers}
        self._root = root

    def every(self) -> list[Reader]:
        """All sources."""
        return list(self._readers.values())

    def named(self, table: str) -> tuple[list[Reader], str]:
        """The sources that may have `DB.TABLE`, or the one of `SOURCE:DB.TABLE`; and the table's name."""
        source, _, name = table.partition(":")
        return ([self._readers[source]], name) if source in self._readers and name else (self.every(), table)

    def published(self, table: str) -> tuple[Reader, TableEntry]:
        """A table in its source's last manifest; a dropped one where no live one has the name."""
        readers, name = self.named(table)
        found: dict[str, tuple[Reader, TableEntry]] = {}
        retired: dict[str, tuple[Reader, TableEntry]] = {}
        for reader in readers:
            for entry in reader.manifest.tables if reader.manifest else ():
                if entry.name == name:
                    (retired if entry.state == "retired" else found)[reader.source] = reader, entry
        return the_one(found or retired, table, self._root)

    @functools.cached_property
    def manifests(self) -> list[tuple[Reader, int, Manifest]]:
        """Every manifest, with its source and when it was published, in the order of its number. They are
        looked up once: maintenance may take the oldest of them, and each number would mean a later one.
        """
        return published(self.every())

    def of_manifest(self, number: int) -> tuple[Reader, dict[str, TableEntry]]:
        """The live tables of a manifest by their names, and its source."""
        every = self.manifests
        if not 0 <= number < len(every):
            raise LakehouseError(f"manifest {number}: expected one of the {len(every)} published ones")
        reader, _, manifest = every[number]
        return reader, {entry.name: entry for entry in manifest.tables if entry.state != "retired"}

    def lives(self, table: str) -> tuple[Reader, list[Lineage]]:
        """A table's life, and its source: of the live table of that name, else of the newest that had it. Of
        a table that several make up, those.
        """
        readers, name = self.named(table)
        found: dict[str, tuple[Reader, list[Lineage]]] = {}
        for reader in readers:
            lineages = reader.history.lineages if reader.done else []
            mine = [one for one in lineages if name in {".".join(each.name) for each in one.intervals}]
            merged = [one for one in lineages if reader.options(one).merged == name]
            if mine or merged:
                newest = [max(mine, key=functools.partial(_claim, name))] if mine else []
                found[reader.source] = reader, merged or newest
        return the_one(found, table, self._root)

    def life(self, table: str) -> tuple[Reader, Lineage]:
        """The same of a table that is one source table; LakehouseError of one that several make up."""
        reader, lineages = self.lives(table)
        if reader.options(lineages[0]).merged == self.named(table)[1]:
            names = ", ".join(".".join(one.intervals[-1].name) for one in lineages)
            raise LakehouseError(f"{table}: expected one source table, found one of several; read {names}")
        return reader, lineages[0]


def _claim(name: str, lineage: Lineage) -> tuple[bool, bool, Any]:
    """Who is meant by a name: a live table before a dropped one, one of that name before a former one."""
    return lineage.end is None and _is_called(lineage, name), _is_called(lineage, name), lineage.start


def _is_called(lineage: Lineage, name: str) -> bool:
    return ".".join(lineage.intervals[-1].name) == name
