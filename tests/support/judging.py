"""The checkers of tests/judge, loaded beside the suites' own modules, and recordings with everything they
need.

The checkers are kept as they are delivered: scripts that import each other by plain names. They are loaded
here once, under those names, and the names are given back afterwards.
"""

import gzip
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from lakehouse.events import Message
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA, ROOT

JUDGE = ROOT / "tests/judge"
FORMATS = ("ticdc-open", "ticdc-canal-json", "ticdc-debezium")


def _load(*names: str) -> list[ModuleType]:
    before = {name: sys.modules.pop(name, None) for name in names}
    try:
        return [_load_one(name) for name in names]
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def _load_one(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, JUDGE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report, truth, check_events, check_tables = _load("report", "truth", "check_events", "check_tables")


def recordings() -> list[Path]:
    """Every TiCDC recording that has the truth of its tables."""
    return [
        path
        for form in FORMATS
        for path in sorted((DATA / form).glob("*/*.jsonl.gz"))
        if states_file(path).exists()
    ]


def name_of(recording: Path) -> str:
    return str(recording.relative_to(DATA)).removesuffix(".jsonl.gz")


def format_of(recording: Path) -> str:
    return recording.relative_to(DATA).parts[0]


def states_file(recording: Path) -> Path:
    return DATA / "states" / recording.parent.name / f"{recording.name.split('.')[0]}.states.json"


def meta(recording: Path) -> dict[str, Any]:
    found: dict[str, Any] = report.read_json(
        recording.with_name(recording.name.replace(".jsonl.gz", ".meta.json")).read_bytes()
    )
    return found


def options(recording: Path) -> dict[str, str]:
    """The settings of the feed that its messages do not tell."""
    told, form = meta(recording), format_of(recording)
    if form == "ticdc-debezium":
        return {}
    settings = {
        "time_zone": told["time_zone"],
        "compression": told["options"].get("large-message-handle-compression", "none"),
    }
    files = told.get("claim_check_files")
    return {**settings, "claim_check": str(recording.parent / files)} if files else settings


def lines(recording: Path) -> list[dict[str, Any]]:
    """The recording's lines, numbers exact, with the events that its truth expects."""
    return [report.read_json(line) for line in gzip.decompress(recording.read_bytes()).splitlines()]


def messages(recording: Path) -> list[Message]:
    return list(read_recording(recording))


def judge_events(recording: Path, events: Iterable[dict[str, Any]]) -> Any:
    """The checker's report on decoded events: `wrong` and `tolerated`."""
    check = check_events.EventCheck(meta(recording))
    check.recording(lines(recording), (report.read_json(json.dumps(event)) for event in events))
    return check.report


def states(recording: Path) -> list[int]:
    """The resolved_ts of the states that the truth tells."""
    return [state["resolved_ts"] for state in report.read_json(states_file(recording).read_bytes())["states"]]


def judge_tables(recording: Path, folder: Path, accepted: Iterable[str]) -> Any:
    """The checker's report on the tables of every state, each in its folder."""
    check = check_tables.TableCheck(list(accepted))
    for at in states(recording):
        check.state(check_tables.load(states_file(recording), at), folder / str(at), False, f"at {at}: ")
    return check.report


def write_tables(folder: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Tables as `lakehouse show --all --json --to` writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )


def accepted_losses(recording: Path) -> list[str]:
    """The columns and tables of this recording whose loss is known: tests/accept.txt."""
    return [column for pattern, column, _ in _losses() if Path(name_of(recording)).match(pattern)]


def _losses() -> Iterator[tuple[str, str, str]]:
    for line in (ROOT / "tests/accept.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, column, reason = line.split("\t")
            yield pattern, column, reason
