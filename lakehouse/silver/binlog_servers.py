"""Whether the upstream's binlog has changed servers: positions of another server's binlog stand in no order
with those before.

Each place (a partition of a topic; of a shard, where DTS has several) is looked at in the order of its
offsets, at what was streamed:

    another base name    `mysql-bin` where the source's files, in this epoch, are called otherwise
    a lower position     of a server id that this place has not had before, below the highest that it had

A connector that restarts goes back with ids that are known. A replica passes on its primaries' ids, each
first met above what came before. Neither is a change; nor is server id 0, which snapshots carry. What changed
stands until an epoch is raised above it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lakehouse.events import Message, Stored
from lakehouse.formats.binlog import Server

_SHARD = "ShardId"


class Met(msgspec.Struct, array_like=True):
    """The first event of a server in a stretch: its record's offset, its place in the binlog, the highest and
    the id before it.
    """

    server: Server
    offset: int
    at: tuple[int, ...]
    before: tuple[int, ...]
    was: int | None


class Stretch(msgspec.Struct, array_like=True):
    """Records of one place and epoch between which there is no other, and the servers that they come from.
    `high` is a position.
    """

    topic: str
    incarnation: str
    partition: int
    shard: str
    epoch: int
    first: int
    last: int
    high: tuple[int, ...] = ()
    met: list[Met] = []
    was: int | None = None


class Stretches:
    """Collects stretches while records are decoded. `ordered`: each place's records come in order, whatever
    their offsets leave out.

    Else files of bronze may be read in any order, so a stretch ends wherever an offset does not follow the
    one before.
    """

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self.take()

    def take(self) -> list[Stretch]:
        """What was collected; starts anew."""
        taken = [stretch for stretch in getattr(self, "_all", ()) if stretch.met]
        self._all: list[Stretch] = []
        self._open: dict[tuple[Any, ...], Stretch] = {}
        self._now: Stretch | None = None
        self._server: Server | None = None
        return taken

    def add(self, message: Message, events: Iterable[Stored]) -> None:
        """A record, and what it holds."""
        now = self._stretch(message)
        server, high = self._server, now.high
        for event in events:
            found = getattr(event, "server", None)
            if found is not None:
                position = event.position  # type: ignore[union-attr]
                if found is not server:
                    if all(known.server != found for known in now.met):
                        now.met.append(Met(found, now.last, position[1:3], high[1:3], now.was))
                    now.was, server = found[0], found
                if position > high:
                    high = position
        self._server, now.high = server, high

    def _stretch(self, message: Message) -> Stretch:
        shard, offset = _shard_of(message.headers) if message.headers else "", message.offset
        key = (message.topic, message.incarnation, message.partition, shard, message.epoch)
        now = self._open.get(key)
        if now is None or (offset != now.last + 1 and not self._ordered):
            now = self._open[key] = Stretch(*key, offset, offset, met=[])
            self._all.append(now)
        now.last = offset
        if now is not self._now:
            self._now, self._server = now, None
        return now


def _shard_of(headers: tuple[tuple[str, bytes | None], ...]) -> str:
    for name, value in headers:
        if name == _SHARD:
            return (value or b"").decode(errors="replace")
    return ""


def judged(known: Mapping[str, Any] | None, stretches: Iterable[Stretch]) -> dict[str, Any] | None:
    """What is known of a source's servers after these stretches too: base names by epoch, each place's ids
    and highest position, and the changes. A server is told once.
    """
    names = {(e["epoch"], e["shard"]): list(e["names"]) for e in (known or {}).get("names", [])}
    places = {_place(e): {**e, "ids": list(e["ids"])} for e in (known or {}).get("places", [])}
    changes = list((known or {}).get("changes", []))
    for stretch in sorted(
        stretches,
        key=lambda one: (one.epoch, one.shard, one.topic, one.incarnation, one.partition, one.first),
    ):
        origin = {
            "topic": stretch.topic,
            "incarnation": stretch.incarnation,
            "partition": stretch.partition,
            "shard": stretch.shard,
        }
        entry = places.get(_place(origin))
        if entry is None or entry["epoch"] < stretch.epoch:
            entry = places[_place(origin)] = {
                **origin,
                "epoch": stretch.epoch,
                "high": [],
                "ids": [],
                "was": None,
            }
        called = names.setdefault((stretch.epoch, stretch.shard), [])
        for met in stretch.met:
            server_id, base = met.server
            lower = server_id not in entry["ids"] and met.at < max(tuple(entry["high"]), met.before)
            renamed = bool(called) and base not in called
            if (lower or renamed) and not any(
                (c["epoch"], c["server"], c["base"]) == (stretch.epoch, server_id, base) for c in changes
            ):
                was = entry["was"] if met.was is None else met.was
                changes.append(
                    {
                        **origin,
                        "epoch": stretch.epoch,
                        "offset": met.offset,
                        "was": was,
                        "server": server_id,
                        "base": base,
                        "number": met.at[0],
                    }
                )
            entry["ids"] += [server_id] if server_id not in entry["ids"] else []
            called += [base] if base not in called else []
        entry["high"], entry["was"] = list(max(tuple(entry["high"]), tuple(stretch.high[1:3]))), stretch.was
    if not places:
        return None
    told = [{"epoch": epoch, "shard": shard, "names": called} for (epoch, shard), called in names.items()]
    return {"names": told, "places": list(places.values()), "changes": changes}


def _place(entry: Mapping[str, Any]) -> tuple[str, str, int, str]:
    return entry["topic"], entry["incarnation"], entry["partition"], entry["shard"]


def standing(
    known: Mapping[str, Any] | None, epochs: Iterable[Mapping[str, Any]], reached: int
) -> list[dict[str, Any]]:
    """The changes that no epoch, of those raised up to the one reached, has left behind. One in which the
    upstream goes on does not.
    """
    raised = max(
        (record["epoch"] for record in epochs if record["epoch"] <= reached and not record.get("goes_on")),
        default=0,
    )
    return [change for change in (known or {}).get("changes", []) if change["epoch"] >= raised]


def told_change(source: str, change: Mapping[str, Any]) -> str:
    """A change in words."""
    ids = f"{change['server']}" if change["was"] is None else f"{change['was']} → {change['server']}"
    return (
        f"the upstream's binlog changed servers at {change['topic']}/{change['partition']} offset "
        f"{change['offset']} (server id {ids}, file"
        f" {change['base']} {change['number']}): rows since may be out of order; `lakehouse epoch raise "
        f"{source} --why …`, then a snapshot"
    )
