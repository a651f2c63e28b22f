"""The options of a gold table from its YAML, as plain data for the layers, the lake's record and tests."""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

TYPES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "boolean": {"bit1": "boolean"},
        "string": {"time": "string", "json": "string", "decimal": "string", "vector": "string"},
        "microseconds": {"time": "microseconds"},
        "decimal": {"decimal": "decimal"},
        "array": {"vector": "array"},
    }
)
"""The policies of gold_types that a column's `type:` chooses."""


class ColumnOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Options of one column of a gold table."""

    type: str | None = None
    rename: str | None = None
    exclude: bool = False
    mask: str | None = None
    hash: str | None = None
    computed: str | None = None


class GoldOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gold table's options. `columns` are by the source's names, computed ones by their own. `merged` is
    the name that several tables have as one: they are its shards.
    """

    target: str | None = None
    key: tuple[str, ...] = ()
    mode: str = "upsert"
    deletes: str = "hard"
    columns: dict[str, ColumnOptions] = {}
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    merged: str = ""
    on_ddl: dict[str, str] = {}
    change_data_feed: bool = False
    deletion_vectors: bool = True
    primary_key: bool = False
    on_drop: str = "replace"

    @property
    def plain(self) -> bool:
        """Whether the table has one row per live row, as it is, which the fold alone gives."""
        return self.mode == "upsert" and self.deletes == "hard"

    @property
    def goes_on(self) -> bool:
        """Whether gold goes on with the table's log when the table is dropped and created again: in modes
        that show more than the rows of today.
        """
        return not self.plain and not self.merged and self.on_drop == "replace"

    @property
    def puts_aside(self) -> bool:
        """Whether a copy of a dropped table stays where its Delta table goes on with another one: the YAML
        says so, or more than its rows of today would be lost.
        """
        return self.on_drop == "keep" or not self.plain

    @property
    def is_bare(self) -> bool:
        """Whether nothing of the Delta table's own is asked for: columns, layout, feed, key."""
        return not (
            self.computed or self.partition_by or self.cluster_by or self.change_data_feed or self.primary_key
        )

    @property
    def computed(self) -> dict[str, str]:
        """Gold's own columns with their expressions."""
        return {name: column.computed for name, column in self.columns.items() if column.computed is not None}

    def column(self, name: str) -> ColumnOptions:
        """What is said of a column of the source; its name does not tell upper from lower case."""
        folded = name.lower()
        return next((said for said_of, said in self.columns.items() if said_of.lower() == folded), NOTHING)

    def digest(self) -> str:
        """Nothing where nothing is said, else what tells these options from others: another digest is another
        table.
        """
        folded_under = msgspec.structs.replace(
            self, target=None, key=(), on_ddl={}, on_drop="replace", deletion_vectors=True
        )
        return (
            ""
            if folded_under == PLAIN
            else hashlib.blake2b(
                msgspec.json.encode(folded_under, order="deterministic"), digest_size=8
            ).hexdigest()
        )


NOTHING = ColumnOptions()
PLAIN = GoldOptions()


def options_from(said: Mapping[str, Any], merged: str = "") -> GoldOptions:
    """The options among a YAML's members: those of the same name that are not None."""
    named = {name: said[name] for name in GoldOptions.__struct_fields__ if said.get(name) is not None}
    return from_plain({**named, "merged": merged})


def to_plain(options: GoldOptions) -> dict[str, Any]:
    """As JSON holds it."""
    plain = msgspec.to_builtins(options)
    assert isinstance(plain, dict)
    return plain


def from_plain(said: Mapping[str, Any]) -> GoldOptions:
    """The options from their plain data."""
    return msgspec.convert(said, GoldOptions)
