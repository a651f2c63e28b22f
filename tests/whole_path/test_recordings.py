"""Every TiCDC recording against the source's truth: each event, and each table at each resolved ts.

What no decoder can know stands in tests/accept.txt, one reason a line.
"""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.discovery.inspect import inspect_messages
from lakehouse.events import Position
from tests.support.engine import Memory
from tests.support.judging import (
    accepted_losses,
    format_of,
    judge_events,
    judge_tables,
    lines,
    messages,
    meta,
    name_of,
    options,
    recordings,
    states,
    write_tables,
)
from tests.support.paths import DATA

RECORDINGS = recordings()


@pytest.mark.parametrize("recording", RECORDINGS, ids=name_of)
def test_the_judge_finds_nothing_wrong_in_the_events(recording: Path) -> None:
    events = inspect_messages(messages(recording), format_of(recording), options(recording))

    report = judge_events(recording, events)

    assert report.wrong == []
    if meta(recording)["wire_before"] == "full":
        assert report.tolerated["unsplit"] == 0


@pytest.mark.parametrize("recording", RECORDINGS, ids=name_of)
def test_the_tables_of_every_state_are_the_sources(recording: Path, tmp_path: Path) -> None:
    silver = Memory(format_of(recording), options(recording)).add(messages(recording))

    for at in states(recording):
        write_tables(tmp_path / str(at), silver.tables(place(recording, at)))
        assert silver.dead or silver.breaks == {}, "a change that does not fit, and no row is lacking"

    losses = accepted_losses(recording)
    report = judge_tables(recording, tmp_path, losses)
    assert report.wrong == []
    assert [text for text in report.warnings if "column order" in text] == []
    assert (report.tolerated["accepted"] > 0) == bool(losses), "a loss that is accepted and does not happen"


def place(recording: Path, at: int) -> Position:
    """The position of a resolved ts; on a feed without commit_ts, the offset of the last message at or below
    it.
    """
    if format_of(recording) != "ticdc-canal-json" or meta(recording)["options"].get("enable-tidb-extension"):
        return (0, at, 2, 0, 0, 0)
    below = [
        line["offset"]
        for line in lines(recording)
        if all(event["commit_ts"] <= at for event in line["expected"]["events"])
    ]
    return (0, max(below), 2**31, 0, 0, 0)


@pytest.mark.parametrize("consistency", ["resolved", "eventual"])
def test_the_documented_example_is_right_under_both_consistencies(consistency: str) -> None:
    recording = DATA / "ticdc-open/documented-example/example.log14.jsonl.gz"
    silver = Memory("ticdc-open").add(messages(recording))
    gold: dict[str, Any] = meta(recording)["gold"]
    told, rows = next((text, rows) for text, rows in gold.items() if text.startswith(consistency))

    at = silver.watermark if consistency == "resolved" else silver.reach

    assert silver.tables(at) == {"test.t1": rows}
    assert consistency == "eventual" or f"watermark {at[1]}" in told
