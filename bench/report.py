"""The benchmark's page: one section per size of run, written anew by each run of that size."""

import re
from pathlib import Path

from bench.measure import Cost
from bench.parts import Spent

HEAD = """# Benchmark

`python -m bench.bench --messages N --tables 1|50 --wide|--narrow` writes a section here.

Each step is measured in one session after a small round that warms it: wall and CPU seconds of the whole
process tree (Python, JVM,
Python workers; without the broker), and the highest sum of resident memory seen. *copy of …* is the floor:
the layer's own input copied
by plain Spark into one Delta table. *notebook* is what most people write: from_json in foreachBatch,
row_number, one MERGE per table; it
keeps no log, follows no DDL and waits for no watermark. At the end of a round the rows of gold and of the
notebook are compared; where
they differ there are no figures.
"""
FLOORS = {"bronze": "copy of the topic", "silver": "copy of bronze", "gold": "copy of silver"}


def write(
    page: Path, about: dict[str, str], costs: dict[str, Cost], rows: int, size: int, parts: dict[str, Spent]
) -> None:
    text = page.read_text() if page.exists() else HEAD
    picture = page.with_name(f"bench-{re.sub('[^a-z0-9]+', '-', about['title'].lower())}.png")
    shown = f"\n![CPU seconds per step]({picture.name})\n" if plot(picture, about["title"], costs) else ""
    told = f"{section(about, costs, rows, size)}{parts_table(parts)}{shown}"
    page.write_text(replaced(text, about["title"], told))


def replaced(text: str, title: str, section: str) -> str:
    """A page whose section of this title is written anew, at its end."""
    rest = re.sub(rf"^## {re.escape(title)}$.*?(?=^## |\Z)", "", text, flags=re.M | re.S).rstrip()
    return f"{rest}\n\n## {title}\n\n{section.rstrip()}\n"


def section(about: dict[str, str], costs: dict[str, Cost], rows: int, size: int) -> str:
    lines = [
        f"    {about['command']}",
        "",
        f"{about['date']}; median of {about['rounds']}; {about['input']}.",
        f"Machine: {about['machine']}; load average at the end {about['load']}.",
        "",
        "| step | wall s | CPU s | events/s | MB/s | peak MB | CPU against its floor |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [line(name, cost, rows, size, costs.get(FLOORS.get(name, ""))) for name, cost in costs.items()]
    if "notebook" in costs:
        layers = [costs[name] for name in FLOORS]
        whole = Cost(sum(c.wall for c in layers), sum(c.cpu for c in layers), max(c.peak for c in layers))
        lines.append(line("bronze + silver + gold", whole, rows, size, None))
        lines += [
            "",
            f"The whole path costs {whole.cpu / costs['notebook'].cpu:.2f} × the CPU of the notebook.",
        ]
    return "\n".join([*lines, "", ""])


def parts_table(parts: dict[str, Spent]) -> str:
    """Which functions the layers' time went into, those that took a tenth of a CPU second or more."""
    lines = [
        "Where the layers' time goes (bench/parts.py), medians:",
        "",
        "| part | wall s | CPU s of the JVM | CPU s of Python |",
        "|---|---|---|---|",
    ]
    told = [(label, one) for label, one in parts.items() if one.jvm + one.python >= 0.1]
    lines += [f"| {label} | {one.wall:.1f} | {one.jvm:.1f} | {one.python:.1f} |" for label, one in told]
    return "\n".join([*lines, ""])


def line(name: str, cost: Cost, rows: int, size: int, floor: Cost | None) -> str:
    against = f"{cost.cpu / floor.cpu:.2f} ×" if floor else ""
    speed = f"{rows / cost.wall:,.0f} | {size / 1e6 / cost.wall:.2f}"
    return f"| {name} | {cost.wall:.1f} | {cost.cpu:.1f} | {speed} | {cost.peak:,.0f} | {against} |"


def plot(path: Path, title: str, costs: dict[str, Cost]) -> bool:
    """CPU per step, where matplotlib is installed; returns whether it was drawn."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no plot: matplotlib is not installed")
        return False
    figure, axes = plt.subplots(figsize=(8, 4))
    axes.barh(list(costs), [cost.cpu for cost in costs.values()])
    axes.invert_yaxis()
    axes.set_xlabel("CPU seconds")
    axes.set_title(title)
    figure.tight_layout()
    figure.savefig(path)
    return True
