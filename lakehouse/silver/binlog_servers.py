"""Detects that the upstream's binlog has changed servers: positions of different servers' binlogs can't be
compared.

Each place (a partition of a topic; of a shard, where DTS has several) is looked at in the order of its
offsets, at what was streamed:

    another base name    `mysql-bin` where the source's files, in this epoch, are called otherwise
    a lower position     of a server id that this place has not had before, below the highest that it had; or
                         of one that goes on above its own highest, below another's
    another shard        beside one that the feed has had in this epoch, in any place

A connector that restarts goes back with ids that are known, to what came before. A replica passes on its
primaries' ids, each first met above what came before. Neither is a change; nor is server id 0. A full
snapshot counts as a server of its own (a negative id): below what came before it there is another binlog, or
one that began anew (RESET MASTER). What changed stands until an epoch is raised above it.
"""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from msgspec import structs

from lakehouse.errors import LakehouseError
from lakehouse.events import Message, Stored
from lakehouse.formats.binlog import Server
from lakehouse.ops.progress import BinlogNames, BinlogPlace, ServerChange, ServerPlace, Servers
from lakehouse.ops.records.operators import Epoch

_SHARD = "ShardId"


class Met(msgspec.Struct, array_like=True):
    """The first event of a server in a stretch: its record's offset, its place in the binlog, the highest and
    the id before it. `is_back`: one of a server that was met before, which goes on below another's.
    """

    server: Server
    offset: int
    at: tuple[int, ...]
    before: tuple[int, ...]
    was: int | None
    is_back: bool = False


class Stretch(msgspec.Struct, array_like=True):
    """Records of one place and epoch between which there is no other, and the servers that they come from.
    `high` is a position, and so are `tops`, the highest of each server id.
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
    tops: dict[int, tuple[int, ...]] = {}

    def add_back(self, back: Met) -> None:
        """Note that a server goes on at a place below another's. The highest of its places counts: lower ones
        may have been read before.
        """
        for met in self.met:
            if met.is_back and met.server == back.server:
                met.at = back.at
                return
        self.met.append(back)


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
        """The stretches collected so far; collecting starts again."""
        taken = [stretch for stretch in getattr(self, "_all", ()) if stretch.met]
        self._all: list[Stretch] = []
        self._open: dict[tuple[Any, ...], Stretch] = {}
        self._now: Stretch | None = None
        self._server: Server | None = None
        return taken

    def add(self, message: Message, events: Iterable[Stored]) -> None:
        """Add a record with its events."""
        now = self._stretch(message)
        server, high = self._server, now.high
        for event in events:
            found = getattr(event, "server", None)
            if found is not None:
                position = event.position  # type: ignore[union-attr]
                top, was = now.tops.get(found[0], ()), now.was
                if found is not server:
                    if all(known.server != found for known in now.met):
                        now.met.append(Met(found, now.last, position[1:3], high[1:3], was=was))
                    now.was, server = found[0], found
                if position > top:
                    if top[1:3] < position[1:3] < high[1:3] and top:
                        now.add_back(Met(found, now.last, position[1:3], high[1:3], was=was, is_back=True))
                    now.tops[found[0]] = position
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


def updated_servers(known: Servers | None, stretches: Iterable[Stretch]) -> Servers | None:
    """A source's servers after these stretches: base names by epoch, each place's ids and highest position,
    and the changes. Each change of servers is recorded once.
    """
    known = known or Servers()
    names = {(one.epoch, one.shard): one.names for one in known.names}
    places = {one.place: one for one in known.places}
    changes = list(known.changes)
    for stretch in sorted(
        stretches,
        key=lambda one: (one.epoch, one.shard, one.topic, one.incarnation, one.partition, one.first),
    ):
        place = ServerPlace(stretch.topic, stretch.incarnation, stretch.partition, stretch.shard)
        before = places.get(place)
        if before is None or before.epoch < stretch.epoch:
            before = BinlogPlace(*place, epoch=stretch.epoch, high=(), ids=(), was=None, tops=())
        changes += _shard_change(stretch, places.values(), changes)
        called = names.get((stretch.epoch, stretch.shard), ())
        changes += _server_changes(stretch, before, called, changes)
        bases = (met.server[1] for met in stretch.met)
        names[stretch.epoch, stretch.shard] = tuple(dict.fromkeys((*called, *bases)))
        places[place] = _place_after(before, stretch)
    if not places:
        return None
    told = (BinlogNames(epoch, shard, called) for (epoch, shard), called in names.items())
    return Servers(tuple(told), tuple(places.values()), tuple(changes))


def _shard_change(
    stretch: Stretch, places: Iterable[BinlogPlace], changes: Iterable[ServerChange]
) -> list[ServerChange]:
    """The first stretch of an epoch beside another shard's."""
    known = any(change.beside is not None and change.epoch == stretch.epoch for change in changes)
    others = [one.shard for one in places if one.epoch == stretch.epoch and one.shard != stretch.shard]
    if known or not others:
        return []
    place = (stretch.topic, stretch.incarnation, stretch.partition, stretch.shard)
    (server_id, base), first = stretch.met[0].server, stretch.met[0]
    change = ServerChange(
        *place,
        stretch.epoch,
        first.offset,
        None,
        server=server_id,
        base=base,
        number=first.at[0],
        beside=others[0],
    )
    return [change]


def _server_changes(
    stretch: Stretch, before: BinlogPlace, called: Collection[str], known: Iterable[ServerChange]
) -> list[ServerChange]:
    """The changes of servers in a stretch, but for those that are `known`. `called` are the base names that
    its shard has had in its epoch.
    """
    changes: list[ServerChange] = []
    bases, tops = set(called), dict(before.tops)
    for met in stretch.met:
        server_id, base = met.server
        has_top = server_id not in before.ids or server_id in tops  # an older lakehouse has none
        lower = has_top and tops.get(server_id, ()) < met.at < max(before.high, met.before)
        renamed = bool(bases) and base not in bases
        bases.add(base)
        if (lower or renamed) and not _is_among((*known, *changes), stretch.epoch, met.server):
            place = (stretch.topic, stretch.incarnation, stretch.partition, stretch.shard)
            was = before.was if met.was is None else met.was
            changes.append(
                ServerChange(
                    *place, stretch.epoch, met.offset, was, server=server_id, base=base, number=met.at[0]
                )
            )
    return changes


def _place_after(before: BinlogPlace, stretch: Stretch) -> BinlogPlace:
    """A place's server ids and highest positions after a stretch."""
    tops = dict(before.tops)
    for server_id, top in stretch.tops.items():
        tops[server_id] = max(tops.get(server_id, ()), top[1:3])
    return structs.replace(
        before,
        high=max(before.high, stretch.high[1:3]),
        ids=tuple(dict.fromkeys((*before.ids, *(met.server[0] for met in stretch.met)))),
        was=stretch.was,
        tops=tuple(tops.items()),
    )


def _is_among(changes: Iterable[ServerChange], epoch: int, server: Server) -> bool:
    return any((change.epoch, change.server, change.base) == (epoch, *server) for change in changes)


def standing(known: Servers | None, epochs: Iterable[Epoch], reached: int) -> list[ServerChange]:
    """The changes that no epoch, of those raised up to the one reached, has left behind. One in which the
    upstream goes on does not.
    """
    raised = max((epoch.epoch for epoch in epochs if epoch.epoch <= reached and not epoch.goes_on), default=0)
    return [change for change in (known.changes if known else ()) if change.epoch >= raised]


def change_text(source: str, change: ServerChange) -> str:
    """A change of servers as a sentence."""
    if change.beside is not None:
        return (
            f"the feed has rows of several shards ({change.beside}, and {change.shard} from "
            f"{change.topic}/{change.partition} offset {change.offset} on), each with a binlog of its own: "
            "their rows stand in no order, and no checkpoint holds for all of them"
        )
    was = "" if (change.was or -1) < 0 else f"{change.was} → "
    is_snapshot = change.server < 0
    ids = "a snapshot below what came before it" if is_snapshot else f"server id {was}{change.server}"
    return (
        f"the upstream's binlog changed servers at {change.topic}/{change.partition} offset {change.offset} "
        f"({ids}, file {change.base} {change.number}): rows since may be out of order; "
        f"`lakehouse epoch raise {source} --why …`, then a snapshot"
    )


def refuse_other_binlog(source: str, servers: Servers | None, epoch: int, file: str) -> None:
    """LakehouseError where a binlog's file is called otherwise than those that the feed tells of."""
    known = () if servers is None else servers.names
    names = {name for one in known if one.epoch == epoch for name in one.names}
    base = file.rpartition(".")[0]
    if names and base not in names:
        raise LakehouseError(
            f"{source}: expected the server whose binlog the feed reads ({', '.join(sorted(names))}), "
            f"got one that writes {base}: a replica's own places mean nothing to the feed; name its server"
        )


def behind_feed(source: str, place: object) -> LakehouseError:
    """The error of a server that stands at a place below what the feed has told."""
    return LakehouseError(
        f"{source}: expected the server whose binlog the feed reads, got one that stands at {place}, behind "
        "what the feed has told: another server's binlog, or one that was begun anew, which takes an epoch "
        "of its own (`lakehouse epoch raise`)"
    )
