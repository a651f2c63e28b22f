"""How a source is read: its record in `ops.lake`, the lake's own table, as JSON in the order of the fields.

Fields with a default may be missing in older lakes; one that is UNSET is stored only where it says something.
"""

import msgspec
from msgspec import UNSET, UnsetType

Name = tuple[str, str]


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a source is read, by the configuration of the last run that changed it.

    format, order      of its messages, and what their order is by
    options            of the decoder
    virtual            rows carry VIRTUAL columns
    row_ids            rows of keyless tables carry an id
    settled            bronze has all there will be: the source is a recording
    drift_timeout      seconds after which undeclared columns are inferred; None: never
    keys               of tables whose messages and DDL tell none, by their names
    on_ddl             of the tables that say it
    auto               gold takes all tables, not those alone that have a YAML
    tables             the tables that have a YAML, with it, as lakehouse/gold/options.py reads it
    suites             database, table and expectations, where a table has any
    """

    format: str
    order: str
    options: dict[str, str]
    virtual: bool
    row_ids: bool = False
    settled: bool = False
    drift_timeout: float | None = None
    keys: dict[str, tuple[str, ...]] = {}
    on_ddl: tuple[tuple[Name, dict[str, str]], ...] = ()
    auto: bool = True
    tables: tuple[tuple[Name, dict[str, object]], ...] = ()
    suites: tuple[tuple[str, str, tuple[dict[str, object], ...]], ...] | UnsetType = UNSET
