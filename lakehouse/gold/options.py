"""What a table's YAML says of its gold table, as plain data: the layers, the lake's own record and tests read
it alike.
"""

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
    """What gold does with one column beyond its default."""

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
    primary_key: bool = False

    @property
    def plain(self) -> bool:
        """One row per live row, as it is: the fold alone tells it."""
        return self.mode == "upsert" and self.deletes == "hard"

    @property
    def computed(self) -> dict[str, str]:
        """Gold's own columns with their expressions."""
        return {name: column.computed for name, column in self.columns.items() if column.computed is not None}

    def column(self, name: str) -> ColumnOptions:
        """What is said of a column of the source; its name does not tell upper from lower case."""
        folded = name.casefold()
        return next((said for said_of, said in self.columns.items() if said_of.casefold() == folded), NOTHING)

    def digest(self) -> str:
        """Nothing where nothing is said, else what tells these options from others: another digest is another
        table.
        """
        said = msgspec.structs.replace(self, target=None, key=(), on_ddl={})
        return (
            ""
            if said == PLAIN
            else hashlib.blake2b(msgspec.json.encode(said, order="deterministic"), digest_size=8).hexdigest()
        )


NOTHING = ColumnOptions()
PLAIN = GoldOptions()


def options_from(said: Mapping[str, Any], merged: str = "") -> GoldOptions:
    """The options among what a YAML says: those of their own name. What is None is not said."""
    named = {name: said[name] for name in GoldOptions.__struct_fields__ if said.get(name) is not None}
    return from_plain({**named, "merged": merged})


def to_plain(options: GoldOptions) -> dict[str, Any]:
    """As JSON holds it."""
    told = msgspec.to_builtins(options)
    assert isinstance(told, dict)
    return told


def from_plain(said: Mapping[str, Any]) -> GoldOptions:
    return msgspec.convert(said, GoldOptions)
