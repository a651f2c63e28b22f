"""Every recording of TiCDC, decoded, against the truth beside its messages."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.discovery.inspect import inspect_messages
from lakehouse.sources.recording import read_recording
from tests.support.paths import DATA
from tests.support.truth import image, meta, options, truth

RECORDINGS = [
    path
    for format in ("ticdc-open", "ticdc-canal-json")
    for path in sorted((DATA / format).rglob("*.jsonl.gz"))
]
KINDS = {"row": "change", "ddl": "schema_change", "resolved": "watermark"}


def format_of(recording: Path) -> str:
    return recording.relative_to(DATA).parts[0]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: str(path.relative_to(DATA)))
def test_every_event_of_a_recording_is_what_the_source_says(recording: Path) -> None:
    told, settings = meta(recording), options(recording)

    events = list(inspect_messages(read_recording(recording), format_of(recording), settings))

    expected = [event for _, event in truth(recording)]
    assert len(events) == len(expected)
    for event, right in zip(events, expected, strict=True):
        compare(event, right, told)


def compare(event: dict[str, Any], right: dict[str, Any], told: dict[str, Any]) -> None:
    zone = told["time_zone"]
    if event["event"] == "dead_letter":
        assert event["error"]["code"] == "unresolved"
        assert right.get("wire", "").startswith(("claim-check", "handle-key-only")) or "compression" in str(
            told["options"]
        )
        return
    assert event["event"] == KINDS[right["kind"]]
    if right["kind"] == "resolved":
        assert event["resolved_ts"] == right["commit_ts"]
        return
    has_commit_ts = told["protocol"] != "canal-json" or told["options"].get("enable-tidb-extension", False)
    assert event["commit_ts"] == (right["commit_ts"] if has_commit_ts else right["commit_ts"] >> 18 << 18)
    assert (event["database"], event["table"]) == (right["schema"], right.get("table") or None)
    if right["kind"] == "ddl":
        assert event["ddl"] == right["query"]
        return
    compare_images(event, image(right.get("before"), zone), image(right.get("after"), zone))
    if event["key"]:
        now = event["after"] or event["before"]
        assert event["key"] == [now[name] for name in sorted(right["handle_key"])]


def compare_images(
    event: dict[str, Any], before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    assert event["after"] == after
    if event["before"] is None:
        return
    assert before is not None
    assert event["before"].items() <= before.items()
    if "partial_before" not in event.get("flags", []):
        assert event["before"] == before
