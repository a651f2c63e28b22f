"""A source's feed, cut into runs: what has arrived by each, as the files that a run of the pipeline reads and
as the messages that the model takes.

A run has a prefix of every partition, so one partition's rows are late and another's DDL is early; a later
part of the feed may send an earlier one again. Of a storage sink's tree it has all files up to a time at or
beyond the checkpoint's.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lakehouse.events import Message, Position
from lakehouse.formats import FORMATS, order_of
from lakehouse.formats.proto import subscribe_pb2
from lakehouse.sources.recording import write_recording
from lakehouse.sources.storage_tree import read_tree
from tests.oracle.check import delivered as delivered_open
from tests.oracle.formats import BINLOG, OPEN, STORAGE, batches, delivered, told_apart, with_shapes
from tests.oracle.pipeline.plan import History, SourcePlan
from tests.oracle.pipeline.restored import Restore, restored
from tests.oracle.pipeline.settings import MODES, Said, changed, told_of
from tests.oracle.program import CHARSET, ZONE
from tests.support.encode_binlog import Logged, binlog, feed
from tests.support.encode_tidb import StoredFile, storage_files, storage_heads

Partition = tuple[str, int]
# the share of TiCDC's feeds whose upstream is restored on the way
RESTORED = 1 / 3


@dataclass
class Delivery:
    """A source's whole feed, and how much of it each run has. `cuts` has for each run how many messages of
    each partition have arrived, `times` of a tree the checkpoint and the time up to which files are written.
    `log` has the commit time and the place of each event of a binlog; `said` for each run what the YAMLs say;
    `restore` where the upstream is restored on the way.
    """

    plan: SourcePlan
    folder: Path
    messages: list[Message] = field(default_factory=list)
    cuts: list[dict[Partition, int]] = field(default_factory=list)
    files: list[StoredFile] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    log: list[tuple[int, Position]] = field(default_factory=list)
    row_ids: bool = False
    said: list[Said] = field(default_factory=list)
    restore: Restore | None = None

    @property
    def input(self) -> Path:
        """What the source's YAML names."""
        name = self.plan.name
        return self.folder / (f"{name}_tree" if self.plan.format in STORAGE else f"{name}.jsonl")

    def yaml(self, run: int) -> str:
        """The source's YAML at a run."""
        told: dict[str, Any] = {"format": self.plan.decoder, "tables": "auto"}
        if "time_zone" in FORMATS[self.plan.decoder].options:
            told["time_zone"] = ZONE
        if self.plan.format in STORAGE:
            told |= {"storage": {"path": str(self.input)}, "options": STORAGE[self.plan.format]}
        else:
            told["recording"] = str(self.input)
        if self.plan.format == "ticdc-canal-json":
            told["options"] = {"enable-tidb-extension": "true"}
        if "charset" in FORMATS[self.plan.decoder].options:
            told["options"] = {"charset": CHARSET}
        if order_of(self.plan.decoder, told.get("options", {})) == "arrival":
            told["accept"] = ["replays"]
        if self.row_ids:
            told["row_ids"] = "sent"
        if (most := self.said[run].max_records) is not None:
            told["batch"] = {"max_records": most}
        return str(yaml.safe_dump(told))

    def tables(self, run: int) -> Iterator[tuple[str, str]]:
        """The YAMLs at a run of the tables that are kept in another way than the source has them: file and
        text.
        """
        for number, (name, told) in enumerate(sorted(self.said[run].tables.items())):
            if told:
                table = ".".join(f"`{part}`" for part in name)
                text = yaml.safe_dump({"source": self.plan.name, "table": table, **told}, allow_unicode=True)
                yield f"{self.plan.name}_{number}.yml", str(text)

    def arrived(self, run: int, without: Partition | None = None) -> list[Message]:
        """The messages of a run; `without` leaves one partition out."""
        cut = self.cuts[run]
        return [
            message
            for message in self.messages
            if (place := (message.topic, message.partition)) != without and message.offset < cut[place]
        ]

    def write(self, run: int, without: Partition | None = None) -> None:
        """Make the files what they are at a run."""
        if self.plan.format not in STORAGE:
            self.input.unlink(missing_ok=True)
            write_recording(self.arrived(run, without), self.input)
            return
        checkpoint, written = self.times[run]
        here = [file for file in self.files if file.low <= written]
        for path, data in [*((f.path, f.data) for f in here), *storage_heads(here, checkpoint).items()]:
            place = self.input / path
            if not place.exists() or place.read_bytes() != data:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)

    def read(self, run: int, options: dict[str, str], without: Partition | None = None) -> list[Message]:
        """What the model takes at a run, whose files are written."""
        if self.plan.format in STORAGE:
            return list(read_tree(self.input, options))
        return list(whole(self.arrived(run, without), self.plan.decoder))

    @property
    def may_lack_a_partition(self) -> bool:
        """Whether a run may miss one partition whole: each tells its own watermark."""
        return self.plan.decoder.startswith("ticdc") and len(self.partitions) > 1

    @property
    def partitions(self) -> list[Partition]:
        return sorted({(message.topic, message.partition) for message in self.messages})


def delivery(plan: SourcePlan, folder: Path, runs: int, chance: random.Random) -> Delivery:
    """The feed of a source over so many runs, the last of which has all of it."""
    made = Delivery(plan, folder)
    modes = {f"p{seed}": chance.choice(MODES) for seed in plan.seeds}
    events, states = plan.history.events, plan.history.states
    if plan.format in BINLOG:
        log = list(told_apart(binlog(events, chance)))
        made.messages = sent(plan.format, log, chance)
        made.log = list(placed(plan.format, log))
    elif plan.format in STORAGE:
        told = with_shapes(events, states)
        made.files = list(storage_files(told, STORAGE[plan.format]["protocol"]))
        made.times = [*_times([ts for ts, _ in states], runs - 1, chance), (states[-1][0],) * 2]
    elif not _restored(made, runs):
        made.messages, made.row_ids = _told(plan.format, plan.history, chance)
    if made.restore is None and plan.format not in STORAGE:
        cut = _cuts_in_order if plan.format == "debezium" else _cuts
        made.cuts = cut(made.messages, made.partitions, runs, chance)
    small = 1 + (len(made.messages) + len(made.files)) // 6
    first = Said(chance.choice((None, None, small)), told_of(plan.history, modes))
    made.said = changed(first, plan, runs, small)
    return made


def _told(format_: str, history: History, chance: random.Random) -> tuple[list[Message], bool]:
    """The messages of one of TiCDC's feeds, and whether its row ids are to be used."""
    if format_ == OPEN:
        return delivered_open(history.events, chance, keyless=history.keyless, raw=history.raw)
    return delivered(format_, history.events, history.states, chance), False


def _restored(made: Delivery, runs: int) -> bool:
    """Let the upstream of one feed in three be restored between two runs; whether it is."""
    plan = made.plan
    chance = random.Random(f"{plan.name} {plan.seeds} restored")
    if runs < 2 or chance.random() >= RESTORED:
        return False
    found = restored(plan.history, runs, partial(_told, plan.format), chance)
    if found is None:
        return False
    made.restore, first, second, made.row_ids = found
    made.messages = [*first, *second]
    sizes = Counter((message.topic, message.partition) for message in first)
    made.cuts = _cuts(first, made.partitions, made.restore.run, chance)
    for cut in _cuts(second, made.partitions, runs - made.restore.run, chance):
        made.cuts.append({place: sizes[place] + size for place, size in cut.items()})
    return True


def sent(format_: str, log: Sequence[Logged], chance: random.Random) -> list[Message]:
    """The messages of a binlog; a producer with positions may have begun again somewhere back."""
    parts = [feed(format_, log, chance, ZONE)]
    if format_ != "canal" and chance.random() < 0.5:
        begin = chance.randrange(len(log))
        while log[begin].op not in ("begin", "ddl"):
            begin -= 1
        parts.append(feed(format_, log[begin:], chance, ZONE))
    offsets: dict[str, int] = {}
    out = []
    for message in (message for part in parts for message in part):
        offset = offsets[message.topic] = offsets.get(message.topic, -1) + 1
        out.append(msgspec.structs.replace(message, offset=offset))
    return out


def placed(format_: str, log: Sequence[Logged]) -> Iterator[tuple[int, Position]]:
    """The commit time and the place of each event; Canal's flat messages have but their offsets."""
    events = [event for event in log if event.op not in ("begin", "commit")]
    for offset, event in enumerate(events):
        yield event.commit_ts, ((0, offset, 0, 0, 0, 0) if format_ == "canal" else event.place)


def whole(messages: list[Message], decoder: str) -> Iterator[Message]:
    """Without the first parts of a message whose other parts have not come: the pipeline waits for them."""
    if decoder != "tencent-dts":
        yield from messages
        return
    waiting: list[Message] = []
    for message in messages:
        waiting.append(message)
        envelope = subscribe_pb2.Envelope.FromString(message.value or b"")
        if envelope.index + 1 == envelope.total:
            yield from waiting
            waiting = []


def _times(moments: list[int], count: int, chance: random.Random) -> list[tuple[int, int]]:
    """Growing checkpoints, and up to when files are written at each: as far or a little further."""
    found = sorted(chance.choices(range(len(moments)), k=count))
    ahead = [chance.choice((0, 0, 3, 20)) for _ in found]
    last, out = 0, []
    for number, more in zip(found, ahead, strict=True):
        last = max(last, min(number + more, len(moments) - 1))
        out.append((moments[number], moments[last]))
    return out


def _cuts(
    messages: list[Message], partitions: list[Partition], runs: int, chance: random.Random
) -> list[dict[Partition, int]]:
    """How far each partition is at each run; every partition has begun at the first one, and one may lag."""
    sizes = dict.fromkeys(partitions, 0)
    for message in messages:
        sizes[message.topic, message.partition] += 1
    shares = sorted(chance.uniform(0.1, 1) for _ in range(runs - 1))
    lag = chance.choice(partitions) if chance.random() < 0.4 else None
    found: list[dict[Partition, int]] = []
    before = dict.fromkeys(partitions, 1)
    for share in shares:
        now = {}
        for place, size in sizes.items():
            part = share + chance.uniform(-0.15, 0.15) * (chance.random() < 0.6)
            now[place] = max(before[place], min(size, int(size * (part / 4 if place == lag else part))))
        found.append(now)
        before = now
    return [*found, sizes]


def _cuts_in_order(
    messages: list[Message], partitions: list[Partition], runs: int, chance: random.Random
) -> list[dict[Partition, int]]:
    """The same for a connector, which writes its topics in the binlog's order: a recording has nothing still
    on its way, so it has all topics up to one moment.
    """
    found, parts = [], list(batches(messages))
    for end in [*sorted(chance.choices(range(len(parts)), k=runs - 1)), len(parts)]:
        sizes = Counter((message.topic, message.partition) for part in parts[:end] for message in part)
        found.append({place: sizes[place] for place in partitions})
    return found
