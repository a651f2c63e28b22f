"""A lake of the oracle from its programs to its verdict: runs of the pipeline as `lakehouse run` makes them,
each compared; sizes at which steps change their way, deaths between two commits, OPTIMIZE by somebody else.
"""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.config.load import Config, load
from lakehouse.events import MIN_POSITION, Position
from lakehouse.formats import FORMATS
from lakehouse.ops.records.gold import Manifest
from lakehouse.spark import limits
from lakehouse.spark.gold import merge
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.audit import audit
from lakehouse.spark.operations.epochs import raise_epoch
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.one_pass import LAYERS
from lakehouse.spark.pipeline.run import run as run_layers
from lakehouse.spark.readers.show import Reader
from lakehouse.spark.session import get_session
from lakehouse.spark.source import source_of
from tests.oracle.pipeline.compare import Difference, Model, differences, model_of
from tests.oracle.pipeline.deliver import Delivery, Partition, delivery
from tests.oracle.pipeline.plan import sources_of
from tests.oracle.pipeline.sigkills import killed
from tests.support.killable import Killed, killing
from tests.support.lakes import in_order, shown

# every limit of lakehouse/spark/limits.py; the largest is one that Spark takes as a number of rows. `few`: of
# rows alone, so that a window is folded in jobs and what of it came late on the driver
LARGEST = 2**30
LIMITS: dict[str, int | None] = {"smallest": 0, "default": None, "infinite": LARGEST, "few": 8}
# the share of commits at which a run dies that may
DEATHS = 0.04
Progress = Callable[[str], None]


@dataclass
class Verdict:
    """What came of a lake: how much was compared, and what differs at the first run that has differences."""

    runs: int = 0
    manifests: int = 0
    tables: int = 0
    kills: list[str] = field(default_factory=list)
    wrong: list[Difference] = field(default_factory=list)


@contextmanager
def sizes(word: str) -> Iterator[None]:
    """All limits at their smallest, a few rows, as they are, or beyond everything."""
    value = LIMITS[word]
    own = {name: told for name, told in vars(limits).items() if name.isupper() and name != "MIB"}
    files = merge.ORDERED_ROWS, merge.ROWS_PER_FILE
    if value is not None:
        for name in own:
            is_few = word == "few" and name.endswith(("BYTES", "SIZE"))
            setattr(limits, name, LARGEST if is_few else value)
    if word in ("smallest", "few"):
        merge.ORDERED_ROWS, merge.ROWS_PER_FILE = 0, 20
    try:
        yield
    finally:
        for name, told in own.items():
            setattr(limits, name, told)
        merge.ORDERED_ROWS, merge.ROWS_PER_FILE = files


@contextmanager
def server_is(rules: str) -> Iterator[None]:
    """Every format's values are converted by the rules of the server that the oracle asks, in words of the
    option `server`.
    """
    before = dict(FORMATS)
    for name, row in before.items():
        FORMATS[name] = row._replace(producer=row.producer._replace(server=rules))
    try:
        yield
    finally:
        FORMATS.update(before)


class Play:
    """One lake, run by run."""

    def __init__(self, folder: Path, deliveries: Sequence[Delivery], seed: int, progress: Progress) -> None:
        self.folder, self.deliveries, self.progress = folder, deliveries, progress
        self.rules = FORMATS[deliveries[0].plan.decoder].producer.server or ""
        self.chance = random.Random(f"{seed} play")
        self.lake = Lake(str(folder / "lake"))
        self.verdict = Verdict()
        self.published: dict[str, list[Position]] = {one.plan.name: [] for one in deliveries}
        self.models: dict[str, Model] = {}
        self._configure(0)

    def all(self, runs: int, *, crashes: bool, sigkills: int = 0, limits_: str = "default") -> Verdict:
        """Every run, compared; the tables as they were at an older moment at the end. `sigkills`: before each
        of them so many processes, which have the limits that this one has, run it and are killed.
        """
        took = 10.0
        for run in range(runs):
            self._configure(run)
            self._restore(run)
            if crashes and self.chance.random() < 0.7:
                self._die(run)
            if sigkills:
                self._write(run)
                for _ in range(sigkills):
                    self.verdict.kills.append(killed(self.folder, (limits_, self.rules), self.chance, took))
                    self.progress(self.verdict.kills[-1])
            begun = time.monotonic()
            self._run(run)
            ran = time.monotonic()
            took = max(5.0, ran - begun)
            self.verdict.runs += 1
            self.verdict.wrong += self._compared(run)
            compared = f"{ran - begun:.0f} s, {time.monotonic() - ran:.0f} s to compare"
            self.progress(f"run {run + 1} of {runs}: {compared}")
            if self.verdict.wrong:
                return self.verdict
            self._optimize()
        self.verdict.wrong += [*self._live(), *self._audited()]
        return self.verdict

    def _configure(self, run: int) -> None:
        """Make the YAMLs what they are at a run."""
        shutil.rmtree(self.folder / "configs", ignore_errors=True)
        for one in self.deliveries:
            place = self.folder / f"configs/sources/{one.plan.name}.yml"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(one.yaml(run))
            for file, text in one.tables(run):
                place = self.folder / f"configs/tables/{file}"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
        self.config: Config = load(self.folder / "configs")
        self.sources = {name: source_of(self.config, name, self.lake.root) for name in self.published}

    def _write(self, run: int, without: dict[str, Partition] | None = None) -> None:
        for one in self.deliveries:
            one.write(run, (without or {}).get(one.plan.name))

    def _restore(self, run: int) -> None:
        """Upstreams that are restored before a run, as an operator tells it."""
        for one in self.deliveries:
            if one.restore is not None and one.restore.run == run:
                raise_epoch(self.lake.root, one.plan.name, "restored from a backup", one.restore.to)
                self.progress(f"{one.plan.name} restored to {one.restore.to}")

    def _run(self, run: int, without: dict[str, Partition] | None = None) -> None:
        self._write(run, without)
        run_layers(self.config, LAYERS, True, (), self.lake.root, lambda _: None)

    def _die(self, run: int) -> None:
        """A run that dies at one of its commits, right behind it or right before. At the first run of all it
        may have missed one partition whole, and have died before anything was published.
        """
        withheld = {
            one.plan.name: one.partitions[-1]
            for one in self.deliveries
            if run == 0 and one.may_lack_a_partition and self.chance.random() < 0.5
        }
        salt, after = self.chance.random(), self.chance.random() < 0.5

        def dies(name: str) -> bool:  # by the commit's name: threads make commits in any order
            if withheld and name.startswith("ops manifest"):
                return True
            return random.Random(f"{salt} {name}").random() < DEATHS

        with killing(type(get_session()), dies, after=after and not withheld) as writes:
            try:
                self._run(run, withheld)
            except Killed:
                self.verdict.kills.append(writes.seen[-1])
                self.progress(f"died {'after' if after else 'before'} {writes.seen[-1]}")

    def _compared(self, run: int) -> Iterator[Difference]:
        for one in self.deliveries:
            name = one.plan.name
            log = OpsLog(get_session(), self.lake, name).load()
            manifest = log.last(Manifest)
            source = self.sources[name]
            model = model_of(one, run, source)
            self.models[name] = model
            if manifest is None:
                yield Difference(name, one.plan.format, None, "expected a manifest, gold has published none")
                continue
            before = self.published[name][-1] if self.published[name] else MIN_POSITION
            gold = Path(self.lake.path("gold", ""))
            yield from differences(one, run, manifest, before, model=model, gold=gold)
            self.published[name].append(manifest.watermark)
            yield from self._older(name, model)
            self.verdict.manifests += 1
            self.verdict.tables += sum(entry.state != "retired" for entry in manifest.tables)

    def _optimize(self) -> None:
        """Somebody compacts some of the gold tables."""
        folders = sorted(Path(self.lake.path("gold", "")).glob("*"))
        for place in self.chance.sample(folders, k=min(2, len(folders))):
            get_session().sql(f"OPTIMIZE delta.`{place}`")

    def _live(self) -> Iterator[Difference]:
        """What `show --all` writes of the lake."""
        told = shown(Path(self.lake.root), self.folder / "shown")
        expected: dict[str, list[dict[str, Any]]] = {}
        for name, model in self.models.items():
            if self.published[name]:
                at = self.published[name][-1]
                expected |= model.all_tables(at, model.options_at(at))
        yield from _unequal("show --all", told, in_order(expected))

    def _older(self, name: str, model: Model) -> Iterator[Difference]:
        """What `show --at` tells of a moment published before the last one, as tables are kept now."""
        moments = [at for at in self.published[name][:-1] if at > MIN_POSITION]
        if not moments:
            return
        at = self.chance.choice(moments)
        reader = Reader(get_session(), self.lake, name, self.sources[name].settings)
        told = {
            ".".join(table): [json.loads(line) for line in lines] for table, lines in reader.at(str(list(at)))
        }
        expected = in_order(model.all_tables(at, reader.options))
        yield from _unequal(f"{name} --at {list(at)}", in_order(told), expected)

    def _audited(self) -> Iterator[Difference]:
        """What the audit finds of a lake that is right: nothing."""
        begun = time.monotonic()
        for entry in audit(self.lake.root, None, lambda _: None):
            yield from (Difference(entry["source"], "", None, f"audit: {told}") for told in entry["findings"])
        self.progress(f"audited in {time.monotonic() - begun:.0f} s")


def _unequal(what: str, found: Any, expected: Any) -> Iterator[Difference]:
    for table in sorted(found.keys() | expected.keys()):
        if found.get(table) != expected.get(table):
            told = f"expected {str(expected.get(table))[:400]}, got {str(found.get(table))[:400]}"
            yield Difference(what, "", tuple(table.split(".", 1)), told)  # type: ignore[arg-type]


def play(
    folder: Path,
    programs: Sequence[Any],
    formats: Sequence[str],
    *,
    seed: int,
    limits_: str,
    crashes: bool,
    progress: Progress,
    sigkills: int = 0,
) -> Verdict:
    """The lake of these programs, judged."""
    chance = random.Random(f"{seed} lake")
    runs = chance.randint(2, 5)
    plans = sources_of(programs, formats, chance)
    deliveries = [delivery(plan, folder, runs, chance) for plan in plans]
    with sizes(limits_), server_is(programs[0].program.server):
        played = Play(folder, deliveries, seed, progress)
        return played.all(runs, crashes=crashes, sigkills=sigkills, limits_=limits_)
