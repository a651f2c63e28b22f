"""Storage-sink trees against the source's truth: each table at each resolved ts, from what the tree shows of
its own settings.
"""

import json
from pathlib import Path

import pytest

from lakehouse.discovery.detect_storage import detect_options
from lakehouse.formats.ticdc.storage_layout import has_commit_ts
from lakehouse.sources.storage_tree import read_tree
from tests.support.engine import Memory
from tests.support.judging import accepted_losses, check_tables, write_tables
from tests.support.paths import DATA

TREES = sorted(path.parent for path in (DATA / "storage").glob("*/states.json"))
HIDDEN = ("null", "binary-encoding-method", "time_zone")  # what no file shows


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_the_tables_of_every_state_are_the_sources(tree: Path, tmp_path: Path) -> None:
    told = json.loads((tree / "expected.json").read_text())["options"]
    options = detect_options(tree / "data", {name: told[name] for name in HIDDEN if name in told})
    ordered = has_commit_ts(options)
    silver = Memory("ticdc-storage", options, tidb=ordered).add(read_tree(tree / "data", options))
    moments = [state["resolved_ts"] for state in json.loads((tree / "states.json").read_text())["states"]]

    report = check_tables.TableCheck(accepted_losses(tree))
    for at in moments if ordered else moments[-1:]:
        write_tables(tmp_path / str(at), silver.tables((0, at, 2, 0, 0, 0) if ordered else silver.reach))
        report.state(check_tables.load(tree / "states.json", at), tmp_path / str(at), False, f"at {at}: ")

    assert report.report.wrong == []
    assert silver.dead == []
    assert not ordered or silver.watermark == (0, moments[-1], 2, 0, 0, 0)
