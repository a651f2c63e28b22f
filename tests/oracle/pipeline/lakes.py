"""Lakes in a row: programs of seeds in a row fill one after another, each is judged, and a failing one is
told with a command that shows it again.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.oracle.database import Database
from tests.oracle.formats import FORMATS
from tests.oracle.generate import generate
from tests.oracle.pipeline.play import LIMITS, Verdict, play
from tests.oracle.runner import Runner

Line = dict[str, Any]
SOURCES = 3


@dataclass(frozen=True)
class Asked:
    """What a lake is made of: the seed of its first program, how many programs there are at most, how many
    tables it has at least, the sizes at which steps change their way, the formats to choose from, whether
    runs die, how many processes are killed before each run, and the server as the command names it.
    """

    seed: int
    programs: int
    tables: int
    limits: str
    formats: Sequence[str]
    crashes: bool
    sigkills: int = 0
    server: str = "mariadb"

    @property
    def command(self) -> str:
        """The command that plays this lake alone."""
        said = "" if set(self.formats) == set(FORMATS) else f" --formats {' '.join(self.formats)}"
        return (
            f"python -m tests.oracle --engine spark --seed {self.seed} --programs {self.programs} --tables "
            f"{self.tables} --limits {self.limits}{said}{' --crashes' if self.crashes else ''}"
            f"{f' --sigkills {self.sigkills}' if self.sigkills else ''}"
            f"{f' --server {self.server}' if self.server != 'mariadb' else ''}"
        )


def lakes(
    database: Database, asked: Asked, done: Sequence[Line], folder: Path, progress: Callable[[str], None]
) -> Iterator[Line]:
    """One line per lake, until all programs are in one; lakes that are done are left out."""
    known = {line["seed"]: line for line in done}
    seed, end = asked.seed, asked.seed + asked.programs
    while seed < end:
        if seed not in known:
            words = list(LIMITS) if asked.limits == "turn" else [asked.limits]
            limits = words[seed % len(words)]
            one = replace(asked, seed=seed, programs=end - seed, limits=limits)
            known[seed] = line = lake(database, one, folder, progress)
            yield line
        seed += known[seed]["programs"]


def lake(database: Database, asked: Asked, folder: Path, progress: Callable[[str], None]) -> Line:
    """One lake, judged; its folder stays where something is wrong."""
    begun = time.monotonic()
    programs = filled(database, asked)
    asked = replace(asked, programs=len(programs))
    formats = chosen(asked)
    progress(f"lake {asked.seed}: {len(programs)} programs in {', '.join(formats)}, limits {asked.limits}")
    verdict = judged(folder / f"lake-{asked.seed}", programs, formats, asked=asked, progress=progress)
    if verdict.wrong:
        tell(asked, verdict, progress)
        narrowed(folder, programs, asked, verdict, progress=progress)
    return {
        "seed": asked.seed,
        "programs": len(programs),
        "limits": asked.limits,
        "formats": formats,
        "live_tables": sum(len(program.states[-1][1]) for program in programs),
        "runs": verdict.runs,
        "manifests": verdict.manifests,
        "tables": verdict.tables,
        "kills": verdict.kills,
        "wrong": [str(one)[:2000] for one in verdict.wrong],
        "seconds": round(time.monotonic() - begun, 1),
    }


def filled(database: Database, asked: Asked) -> list[Runner]:
    """Programs in a row until their tables are enough, or there are no more."""
    programs: list[Runner] = []
    tables = 0
    while len(programs) < asked.programs and tables < asked.tables:
        seed = asked.seed + len(programs)
        programs.append(generate(database, seed, name=f"p{seed}"))
        tables += len(programs[-1].states[-1][1])
    return programs


def chosen(asked: Asked) -> list[str]:
    """The formats of a lake's sources: some of those that are asked for."""
    count = min(SOURCES, len(asked.formats))
    return random.Random(f"{asked.seed} formats").sample(list(asked.formats), k=count)


def judged(
    folder: Path, programs: Sequence[Runner], formats: Sequence[str], *, asked: Asked, progress: Any
) -> Verdict:
    """The lake, made anew in its folder, which is removed if nothing is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    verdict = play(
        folder,
        programs,
        formats,
        seed=asked.seed,
        limits_=asked.limits,
        crashes=asked.crashes,
        progress=progress,
        sigkills=asked.sigkills,
    )
    if not verdict.wrong:
        shutil.rmtree(folder)
    return verdict


def tell(asked: Asked, verdict: Verdict, progress: Callable[[str], None]) -> None:
    """What differs, and how to see it again."""
    for one in verdict.wrong[:10]:
        progress(f"WRONG at run {verdict.runs}: {str(one)[:1500]}")
    progress(f"{len(verdict.wrong)} differences; again: {asked.command}")


def narrowed(
    folder: Path,
    programs: Sequence[Runner],
    asked: Asked,
    verdict: Verdict,
    *,
    progress: Callable[[str], None],
) -> None:
    """The first program that differs, played alone in its format: a smaller command, if it differs there."""
    first = next((one for one in verdict.wrong if one.table is not None and one.format), None)
    if first is None or first.table is None or len(programs) == 1:
        return
    seed = int(first.table[0].split("_")[0].removeprefix("p"))
    program = next(one for one in programs if one.seed == seed)
    alone = replace(asked, seed=seed, programs=1, tables=1, formats=[first.format])
    told = judged(folder / f"lake-{seed}-alone", [program], alone.formats, asked=alone, progress=progress)
    if told.wrong:
        tell(alone, told, progress)
    else:
        progress(f"program {seed} alone in {first.format} is right")
