"""Death at a write: every commit of a run has a name, and the first one that `dies` picks kills, right after
it or right before it.

In a test it raises `Killed`, which nothing catches, and no write after it happens: as the lake sees it, the
process is dead. As a script (`killable.py BOOTSTRAP TOPIC LAKE`) it runs the three layers again and again in
small batches, and says `ready` when its session has started: whoever started it kills it. The product knows
nothing of this.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lakehouse.ops.records.record import Record
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.plain.merge import Wanted

COMMITS = ("RESTORE", "MERGE", "ALTER", "CREATE", "DELETE", "UPDATE", "INSERT")
Picks = Callable[[str], bool]


class Killed(BaseException):
    """The process has died here."""


class Writes:
    """The commits of a run in order, by name: `silver shop_changes`, `ops done+intent`,
    `MERGE gold/shop__orders`.
    """

    def __init__(self, dies: Picks, after: bool) -> None:
        self.dies, self.after = dies, after
        self.seen: list[str] = []
        self.dead = False
        self.lock = threading.Lock()

    def around(self, name: str, write: Callable[[], Any]) -> Any:
        with self.lock:
            if self.dead:
                raise Killed
            self.dead = self.dies(name)
            self.seen.append(name)
            if self.dead and not self.after:
                raise Killed
            result = write()
            if self.dead:
                raise Killed
            return result


@contextmanager
def killing(session: type[Any], dies: Picks = lambda _: False, after: bool = True) -> Iterator[Writes]:
    """Name the commits made within, and die at one of them. `session` is the class whose `sql` runs
    statements.
    """
    writes = Writes(dies, after)
    save, sql, add = Lake._save, session.sql, OpsLog.add_all
    merge, create = Lake.merge_rows, Lake.create_rows
    kind = threading.local()

    def named_save(self: Lake, write: Callable[[], None], layer: str, name: str) -> None:
        told = getattr(kind, "now", None) or name
        writes.around(f"{layer} {told}", lambda: save(self, write, layer, name))

    def named_sql(self: Any, query: str, *arguments: Any, **named: Any) -> Any:
        verb = query.split(maxsplit=1)[0].upper()
        if verb not in COMMITS:
            return sql(self, query, *arguments, **named)
        table = "/".join(query.partition("`")[2].partition("`")[0].split("/")[-2:])
        return writes.around(f"{verb} {table}", lambda: sql(self, query, *arguments, **named))

    def named_merge(self: Lake, spark: Any, name: str, wanted: Wanted, known: Any = None) -> Any:
        return writes.around(f"MERGE gold/{name}", lambda: merge(self, spark, name, wanted, known=known))

    def named_create(self: Lake, spark: Any, name: str, rows: Any, **told: Any) -> Any:
        return writes.around(f"gold {name}", lambda: create(self, spark, name, rows, **told))

    def named_add(self: OpsLog, records: Sequence[Record]) -> int:
        waiting = [one.kind for one in self.records[len(self.records) - self.waiting :]]
        kind.now = "+".join([*waiting, *(record.kind for record in records)])
        try:
            return add(self, records)
        finally:
            kind.now = None

    Lake._save, session.sql, OpsLog.add_all = named_save, named_sql, named_add  # type: ignore[method-assign, assignment]
    Lake.merge_rows, Lake.create_rows = named_merge, named_create  # type: ignore[method-assign]
    try:
        yield writes
    finally:
        Lake._save, session.sql, OpsLog.add_all = save, sql, add  # type: ignore[method-assign]
        Lake.merge_rows, Lake.create_rows = merge, create  # type: ignore[method-assign]


def config_of(bootstrap: str, topic: str) -> Any:
    """A source of one topic, in batches of a few messages."""
    from lakehouse.config.load import Config
    from lakehouse.config.models import Batch, KafkaInput, SourceConfig

    kafka = KafkaInput(bootstrap_servers=bootstrap, topics=[topic])
    source = SourceConfig(
        format="ticdc-open", kafka=kafka, time_zone="UTC", tables="auto", batch=Batch(max_records=5)
    )
    return Config(sources={"shop": source}, tables={}, documents={})


def main() -> None:
    from lakehouse.spark.pipeline.run import run
    from lakehouse.spark.session import get_session

    bootstrap, topic, lake = sys.argv[1:]
    get_session().range(1).count()
    print("ready", flush=True)
    while True:
        run(config_of(bootstrap, topic), ("bronze", "silver", "gold"), True, (), lake, print)


if __name__ == "__main__":
    main()
