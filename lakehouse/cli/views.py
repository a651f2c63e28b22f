"""What text output needs of a source besides its records: the order of its positions, and its lake."""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.config.load import Config
    from lakehouse.reporting.text.tables import View

DEFAULT_LAKE = "./lake"


def lake_to_name(lake: str | None) -> str | None:
    """The lake as commands have to name it; None where they take it by default."""
    default = os.environ.get("LAKEHOUSE_LAKE") or DEFAULT_LAKE
    return None if lake in (None, default) else lake


def program() -> str:
    """How lakehouse was called: `./run` says so of itself."""
    return os.environ.get("LAKEHOUSE_COMMAND") or "lakehouse"


def command(words: str, lake: str | None) -> str:
    """The command line of those words, on that lake."""
    named = lake_to_name(lake)
    return f"{program()} {words}" + (f" --lake {shlex.quote(named)}" if named else "")


def lake_view(lake: str) -> "View":
    """The view of records that may be of any source of a lake."""
    from lakehouse.reporting.text.tables import View

    return View(lake=lake_to_name(lake), program=program())


def views_of(
    entries: Sequence[Mapping[str, Any]],
    orders: Mapping[str, str],
    config: "Config | None" = None,
    *,
    lake: str | None,
) -> "dict[str, View]":
    """A view of each source that the entries are of."""
    from lakehouse.reporting.text.tables import View, shared_tables

    shared, now = shared_tables(entries), time.time()
    return {
        name: View(
            orders.get(name),
            lake_to_name(lake or _configured_lake(config, name)),
            now=now,
            shared=shared,
            program=program(),
        )
        for name in (entry["source"] for entry in entries)
    }


def _configured_lake(config: "Config | None", source: str) -> str | None:
    """The lake that a source's YAML names."""
    if config is None or source not in config.sources:
        return None
    from lakehouse.config.load import resolve_source

    own = resolve_source(config.sources[source]).lake
    return own.path if own is not None else None
