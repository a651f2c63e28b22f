"""The long run: programs of seeds in a row, judged, logged, failures cut down and kept; `--resume` goes on
where the log ends.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.oracle.cases import save_case
from tests.oracle.database import Database
from tests.oracle.formats import FORMATS, formats_of, judge_in
from tests.oracle.generate import generate
from tests.oracle.runner import Runner
from tests.oracle.shrink import rerun, shrink
from tests.servers.mariadb import start_mariadb
from tests.servers.mysql import start_mysql

COUNTED = ("steps", "statements", "refused", "ddl", "events", "watermarks", "tables")
Line = dict[str, Any]
LOG = Path("oracle/log.jsonl")


def main() -> int:
    options = _options()
    if options.engine == "spark":
        return _lakes(options)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    done = list(read_log(options.log)) if options.resume else []
    if not options.resume:
        options.log.write_text("")
    seeds = [
        seed
        for seed in range(options.seed, options.seed + options.programs)
        if seed not in {line["seed"] for line in done}
    ]
    with _database(options.server) as database:
        able = formats_of(database.dialect.rules)
        formats = [name for name in options.formats if name in able]
        for line in run(database, seeds, options.cases, formats):
            done.append(line)
            with options.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")
            _progress(done, options.programs, line)
    print()
    print(summary(done))
    return 1 if any(line["wrong"] for line in done) else 0


def _lakes(options: argparse.Namespace) -> int:
    """The same programs as tables of lakes, through the pipeline."""
    from tests.oracle.pipeline.lakes import Asked, lakes

    log = options.log.with_name("lakes.jsonl") if options.log == LOG else options.log
    log.parent.mkdir(parents=True, exist_ok=True)
    done = list(read_log(log)) if options.resume else []
    if not options.resume:
        log.write_text("")
    names = ("seed", "programs", "tables", "limits", "crashes", "sigkills", "server")
    begun = time.monotonic()

    def progress(text: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {text}", flush=True)

    with _database(options.server) as database:
        able = [name for name in options.formats if name in formats_of(database.dialect.rules)]
        asked = Asked(**{name: getattr(options, name) for name in names}, formats=able)
        for line in lakes(database, asked, done, options.cases, progress):
            done.append(line)
            with log.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(summary_of_lakes(done))
    return 1 if any(line["wrong"] for line in done) else 0


def summary_of_lakes(done: list[Line]) -> str:
    """All lakes in one line."""
    names = ("programs", "live_tables", "runs", "manifests", "tables")
    sums = ", ".join(f"{sum(line[name] for line in done):,} {name.replace('_', ' ')}" for name in names)
    kills, wrong = sum(len(line["kills"]) for line in done), [line["seed"] for line in done if line["wrong"]]
    verdict = f"WRONG: the lakes of seeds {wrong}" if wrong else "none wrong"
    seconds = sum(line["seconds"] for line in done)
    return f"{len(done)} lakes: {sums} compared, {kills} kills, {seconds:,.0f} s; {verdict}"


_STARTED = {"mariadb": start_mariadb, "mysql": start_mysql}


@contextmanager
def _database(server: str) -> Iterator[Database]:
    """A server of our own, by its word, else the one that runs at the address."""
    if (start := _STARTED.get(server)) is not None:
        with tempfile.TemporaryDirectory() as folder, start(Path(folder)) as started:
            yield Database(started.port)
        return
    url = urlsplit(server)
    yield Database(
        url.port or 3306, url.hostname or "127.0.0.1", url.username or "root", password=url.password or ""
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument(
        "--engine",
        choices=("memory", "spark"),
        default="memory",
        help="spark: as the tables of lakes, through the pipeline that users run",
    )
    parser.add_argument("--tables", type=int, default=120, help="spark: so many live tables a lake, at least")
    parser.add_argument(
        "--limits",
        choices=("smallest", "default", "infinite", "few", "turn"),
        default="turn",
        help="spark: the sizes at which steps change their way; turn: another one for each lake",
    )
    parser.add_argument("--crashes", action="store_true", help="spark: runs die between two commits")
    parser.add_argument(
        "--sigkills", type=int, default=0, help="spark: so many processes are killed before each run"
    )
    parser.add_argument("--programs", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the first one; the others follow in a row")
    parser.add_argument("--resume", action="store_true", help="leave out the seeds that the log has")
    parser.add_argument(
        "--server",
        default="mariadb",
        help="mariadb or mysql: one of our own is started; or mysql://USER@HOST:PORT, one that runs; of a "
        "TiDB the formats of TiCDC alone",
    )
    parser.add_argument("--log", type=Path, default=LOG, help="one line per program, or lake")
    parser.add_argument(
        "--formats",
        nargs="+",
        choices=FORMATS,
        default=FORMATS,
        metavar="FORMAT",
        help=f"of {', '.join(FORMATS)}; default all",
    )
    parser.add_argument(
        "--cases", type=Path, default=Path("oracle"), help="where failing programs go, cut down"
    )
    return parser.parse_args()


def read_log(path: Path) -> Iterator[Line]:
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def run(
    database: Database, seeds: list[int], cases: Path, formats: Sequence[str] = FORMATS
) -> Iterator[Line]:
    """One line per program, judged in each format; one that fails in a format is cut down and kept before the
    next begins.
    """
    for seed in seeds:
        started = time.monotonic()
        runner = generate(database, seed)
        judged = {format_: judge_in(runner, format_) for format_ in formats}
        wrong = {format_: found.wrong for format_, found in judged.items() if found.wrong}
        for format_, text in wrong.items():
            small = rerun(database, shrink(database, runner.program, text, format_))
            cases.mkdir(parents=True, exist_ok=True)
            save_case(
                small,
                cases / f"seed-{seed}-{format_}.json",
                f"{format_}: {judge_in(small, format_).wrong or text}",
            )
        told = {
            format_: {
                "watermarks": found.watermarks,
                "tables": found.tables,
                "cut": found.cut,
                "wrong": found.wrong,
            }
            for format_, found in judged.items()
        }
        yield {
            "seed": seed,
            **counts(runner),
            **{name: sum(found[name] for found in told.values()) for name in ("watermarks", "tables")},
            "formats": told,
            "wrong": "; ".join(f"{format_}: {text}" for format_, text in wrong.items()) or None,
            "seconds": round(time.monotonic() - started, 2),
        }


def counts(runner: Runner) -> dict[str, int]:
    steps = runner.program.steps
    return {
        "steps": len(steps),
        "statements": runner.statements,
        "refused": runner.refused,
        "ddl": sum("ddl" in step for step in steps),
        "events": len(runner.events),
    }


def summary(done: list[Line]) -> str:
    """All programs in one line, and a line for each format."""
    if not done:
        return "no programs"
    wrong = [line["seed"] for line in done if line["wrong"]]
    sums = ", ".join(f"{sum(line[name] for line in done):,} {name}" for name in COUNTED)
    seeds = f"seeds {min(line['seed'] for line in done)}-{max(line['seed'] for line in done)}"
    verdict = f"WRONG: {len(wrong)} of them, seeds {wrong[:20]}" if wrong else "none wrong"
    head = (
        f"{len(done)} programs ({seeds}): {sums}, {sum(line['seconds'] for line in done):,.0f} s; {verdict}"
    )
    return "\n".join([head, *_of_formats(done)])


def _of_formats(done: list[Line]) -> Iterator[str]:
    for format_ in FORMATS:
        told = [line["formats"][format_] for line in done if format_ in line.get("formats", {})]
        if told:
            counted = ", ".join(
                f"{sum(one[name] for one in told):,} {name}" for name in ("watermarks", "tables")
            )
            cuts = Counter(one["cut"] for one in told if one["cut"])
            whys = (
                f" ({', '.join(f'{count} before {why}' for why, count in cuts.most_common())})"
                if cuts
                else ""
            )
            wrong = sum(bool(one["wrong"]) for one in told)
            yield (
                f"    {format_:26} {len(told)} programs, {counted}, {cuts.total()} cut{whys}, "
                f"{wrong or 'none'} wrong"
            )


def _progress(done: list[Line], programs: int, line: Line) -> None:
    wrong = sum(bool(one["wrong"]) for one in done)
    print(
        (
            f"\roracle  {len(done)} of {programs} programs, {sum(one['watermarks'] for one in done):,} "
            f"watermarks compared, {wrong} wrong"
        ),
        end="",
    )
    if line["wrong"]:
        print(f"\nseed {line['seed']}: {line['wrong'][:500]}")
    sys.stdout.flush()
