"""Two commits side by side: `python -m bench.commits OLD NEW --rounds 3`.

Runs `bench.bench` of each commit in turn, each round in a process of its own, with the packages of this
environment. Prints the median CPU seconds of each step and their ratio; the steps that are no layer are the
same plain Spark in both, so their ratio tells how steady the machine was.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.support.paths import ROOT

# what bench.bench says of each step on stderr
STEP = re.compile(r"^(?P<name>[a-z ]+?) +[\d.]+ s +(?P<cpu>[\d.]+) CPU s$", re.M)
Costs = dict[str, list[float]]


def main() -> None:
    given = arguments()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakehouse-commits-")))
        trees = [checked_out(commit, scratch / f"{n}", stack) for n, commit in enumerate(given.commits)]
        found: list[Costs] = [{} for _ in trees]
        for number in range(given.rounds):
            order = list(range(len(trees)))
            for n in order if number % 2 == 0 else reversed(order):
                print(f"round {number + 1} of {given.rounds}: {given.commits[n]}", file=sys.stderr)
                for name, cpu in run(trees[n], scratch, given.arguments):
                    found[n].setdefault(name, []).append(cpu)
    print(table(given.commits, found))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.commits", description=__doc__)
    parser.add_argument("commits", nargs=2, metavar="COMMIT", help="the old one, then the new one")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--wide", action="store_true")
    given = parser.parse_args()
    given.arguments = [
        *("--messages", str(given.messages), "--tables", str(given.tables), "--rounds", "1"),
        "--wide" if given.wide else "--narrow",
    ]
    return given


def checked_out(commit: str, folder: Path, stack: ExitStack) -> Path:
    """A work tree of the commit, which ends with the stack."""
    subprocess.run(["git", "worktree", "add", "--detach", str(folder), commit], cwd=ROOT, check=True)
    removal = ["git", "worktree", "remove", "--force", str(folder)]
    stack.callback(subprocess.run, removal, cwd=ROOT, check=True)
    return folder


def run(tree: Path, scratch: Path, given: Sequence[str]) -> list[tuple[str, float]]:
    """The CPU seconds of each step of one round, after the small round that warms the session."""
    command = [sys.executable, "-m", "bench.bench", *given, "--report", str(scratch / "report.md")]
    done = subprocess.run(
        command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(command)} failed in {tree}:\n{done.stderr[-2000:]}")
    steps = [(one["name"], float(one["cpu"])) for one in STEP.finditer(done.stderr)]
    return steps[len(steps) // 2 :]


def table(commits: Sequence[str], found: Sequence[Costs]) -> str:
    """The steps in Markdown: CPU seconds of the old and of the new commit, and new against old."""
    old, new = found
    lines = [f"| step | {commits[0]}, CPU s | {commits[1]}, CPU s | ratio |", "|---|---|---|---|"]
    for name, costs in old.items():
        one, other = statistics.median(costs), statistics.median(new[name])
        lines.append(f"| {name} | {one:.1f} | {other:.1f} | {other / one:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
