"""The encoder is proven on recordings: their truth, encoded again, gives their bytes, but for the order of
JSON members.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.formats.open_frames import frames
from lakehouse.lineage import History
from tests.support.encode_open import Wire, encode
from tests.support.engine import Memory
from tests.support.judging import lines, messages, meta, name_of, options
from tests.support.paths import DATA

OPEN = DATA / "ticdc-open"
RECORDINGS = [
    OPEN / f"{name}.jsonl.gz"
    for name in (
        "classic-v6.5.0/shop.default",
        "classic-v9.0.0-beta.1/shop.default",
        "classic-v9.0.0-beta.1/shop.delete-handle-key",
        "classic-v9.0.0-beta.1/shop.no-old-value",
        "classic-v9.0.0-beta.1/keys.default",
        "classic-v9.0.0-beta.1/ddl.default",
        "classic-v9.0.0-beta.1/basictypes.default",
        "newarch-202606/shop.default",
        "newarch-202606/shop.index-value.3p",
        "newarch-202606/basictypes.default",
    )
]


@pytest.mark.parametrize("recording", RECORDINGS, ids=name_of)
def test_a_recordings_truth_encoded_again_gives_its_bytes(recording: Path) -> None:
    history = Memory("ticdc-open", options(recording)).add(messages(recording)).history()
    wire = wire_of(recording)

    for message, line in zip(messages(recording), lines(recording), strict=True):
        events = line["expected"]["events"]
        recorded = [
            (json.loads(key), json.loads(value or b"null"))
            for key, value in zip(*frames(message.key, message.value), strict=True)
        ]
        encoded = [encode(event, schema_of(event, history), wire) for event in events]
        assert [(json.loads(key), json.loads(value or b"null")) for key, value in encoded] == recorded


def wire_of(recording: Path) -> Wire:
    told = meta(recording)
    classic = recording.parent.name.startswith("classic")
    return Wire(classic, told["wire_before"], told["delete_only_handle_key"], sorted_columns=classic)


def schema_of(event: dict[str, Any], history: History) -> Any:
    if event["kind"] != "row":
        return None
    position = (0, event["commit_ts"], 1, 0, 0, 0)
    lineage = history.owner((event["schema"], event["table"]), position)
    assert lineage is not None
    return lineage.schema_at(position)
