"""The page of the peers: what was found of each, and whether its rows are right."""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from bench.formats import FIGURES
from bench.measure import Cost
from bench.peers.feed import Cells, cells_of

TITLES = {
    "ours": "**ours**: bronze, silver and gold",
    "notebook": "notebook: from_json, row_number, MERGE",
    "hudi": "Hudi 1.0.2, upsert",
    "flink-sql": "Flink SQL 1.20.5 into Paimon 1.3.1",
    "paimon-action": "Paimon 1.3.1, kafka_sync_table",
}
Rows = list[Cells]


@dataclass
class Result:
    """Of a peer: costs by topic, sizes of the table and of all, one of each a round; why it has no
    figures.
    """

    costs: dict[str, list[Cost]] = field(default_factory=dict)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    failure: str = ""


@dataclass
class Found:
    results: dict[str, Result]
    changes: int = 0
    rows: int = 0
    bytes: int = 0
    seed: int = 0

    @property
    def rounds(self) -> int:
        """How many rounds each peer with figures has, at least."""
        return min((len(one.sizes) for one in self.results.values() if not one.failure), default=0)


def kept(path: Path | None, found: Found) -> Found:
    """The rounds that an earlier run of the same feed has kept in a file, to which new ones are added."""
    if path is None or not path.exists():
        return found
    earlier = msgspec.json.decode(path.read_bytes(), type=Found)
    feed = (found.seed, found.changes, found.bytes)
    if (earlier.seed, earlier.changes, earlier.bytes) != feed:
        raise SystemExit(f"{path}: expected rounds of the same feed, got those of another; remove the file")
    results = {**found.results, **earlier.results}
    return replace(earlier, results={name: results[name] for name in TITLES if name in results})


def keep(path: Path | None, found: Found) -> None:
    if path is not None:
        path.write_bytes(msgspec.json.encode(found))


def read_rows(folder: Path) -> Rows:
    """The rows that a peer has written as lines of JSON, in files of any name."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name[0] not in "._"]
    return [
        cells_of(json.loads(line)) for path in files for line in path.read_text("utf-8").splitlines() if line
    ]


def differences(told: Rows, right: Mapping[int, Cells]) -> str:
    """How rows differ from the right ones; nothing where they are the same."""
    by_key = {row.id: row for row in told}
    counts = {
        "missing": len(right.keys() - by_key.keys()),
        "too many": len(told) - len(by_key) + len(by_key.keys() - right.keys()),
        "with other values": sum(right.get(key, row) != row for key, row in by_key.items()),
    }
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"its rows differ: of {len(right):,} rows {said}" if said else ""


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def median(costs: list[Cost]) -> Cost:
    return Cost(*(statistics.median(values) for values in zip(*costs, strict=True)))


def warm(result: Result) -> float:
    """CPU seconds without the start."""
    return median(result.costs["many"]).cpu - median(result.costs["few"]).cpu


def place_figures(given: argparse.Namespace, found: Found) -> None:
    """The figures, in the place that the page keeps for them; a page of their own where it has none."""
    text = "\n".join(lines(given, found))
    page = given.report.read_text() if given.report.exists() else ""
    given.report.write_text(
        FIGURES.sub(lambda marks: f"{marks[1]}{text}{marks[2]}", page)
        if FIGURES.search(page)
        else text + "\n"
    )


def lines(given: argparse.Namespace, found: Found) -> Iterator[str]:
    told = f"--messages {given.messages} --rounds {found.rounds} --seed {given.seed}"
    few = "" if set(found.results) == set(TITLES) else f" --peers {' '.join(found.results)}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    yield f"    python -m bench.peers {told}{few}"
    yield ""
    yield (
        f"{time.strftime('%Y-%m-%d')}; median of {found.rounds}; {given.messages:,} messages of "
        f"{found.bytes / given.messages:.0f} bytes with {found.changes:,} changes, {found.rows:,} rows at "
        f"the end; {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}; load average at the end {os.getloadavg()[2]:.1f}."
    )
    yield ""
    yield (
        "| | CPU s | of it start | without it | µs a change | ours / this | **ours / this, without start** | "
        "wall s | of it start | peak MB | table, MB | all, MB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    ours = found.results.get("ours")
    for name, result in found.results.items():
        if not result.failure and result.costs:
            yield row(TITLES[name], result, ours if name != "ours" else None, found.changes)
    for name, result in found.results.items():
        if result.failure:
            reason = " ".join(result.failure.split())
            yield ""
            yield f"No figures for {TITLES[name]}: {reason[:300]}"


def row(title: str, result: Result, ours: Result | None, changes: int) -> str:
    many, few = median(result.costs["many"]), median(result.costs["few"])
    table, whole = (statistics.median(sizes) / 1e6 for sizes in zip(*result.sizes, strict=True))
    held = ours if ours is not None and not ours.failure and ours.costs else None
    against = ["", ""]
    if held is not None:
        total = median(held.costs["many"]).cpu / many.cpu
        against = [f"{total:.2f} ×", f"**{warm(held) / warm(result):.2f} ×**"]
    cells = [
        title,
        f"{many.cpu:.1f}",
        f"{few.cpu:.1f}",
        f"{warm(result):.1f}",
        f"{warm(result) / changes * 1e6:.0f}",
        *against,
        f"{many.wall:.1f}",
        f"{few.wall:.1f}",
        f"{many.peak:,.0f}",
        f"{table:.1f}",
        f"{whole:.1f}",
    ]
    return f"| {' | '.join(cells)} |"
