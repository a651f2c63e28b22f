"""What an operator may say of epochs. Needs Spark's package, but no session."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.ops.records.operators import Epoch
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations import epochs
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog


@pytest.mark.parametrize("order", ["binlog", "arrival", "files"])
def test_a_restore_is_of_a_tso_so_a_feed_without_is_not_taken_back(
    monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """Nothing would be void, and the tables exact all the same."""
    settings: Any = SimpleNamespace(order=order)
    monkeypatch.setattr(epochs, "opened", lambda *_: (None, settings))

    with pytest.raises(LakehouseError, match="--restored-to 7: expected a source whose positions are TSOs"):
        epochs.raise_epoch("lake", "shop", "restored", 7)


def test_no_epoch_begins_while_tables_are_snapshotted_or_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they have read of the upstream before would land behind the epoch's beginning, as the new one's
    rows, and make their tables exact.
    """
    no_session: Any = None
    log, settings = OpsLog(no_session, Lake(str(tmp_path)), "shop"), SimpleNamespace(order="binlog")
    begun = list[str]()

    def begin(log: OpsLog, ends: dict[Any, int], why: str, restored_to: int | None) -> Epoch:
        begun.append(why)
        return Epoch(epoch=1, places=(), why=why)

    monkeypatch.setattr(epochs, "opened", lambda *_: (log, settings))
    monkeypatch.setattr(OpsLog, "load", lambda log: log)
    monkeypatch.setattr(epochs, "bronze_ends", lambda *_: {})
    monkeypatch.setattr(epochs, "begin_epoch", begin)

    with (
        layer_lock(no_session, Lake(str(tmp_path)), "shop", ["import"]),
        pytest.raises(LakehouseError, match="import run is going on already"),
    ):
        epochs.raise_epoch(str(tmp_path), "shop", "failover", None)
    assert begun == []

    assert epochs.raise_epoch(str(tmp_path), "shop", "failover", None)["epoch"] == 1
    assert begun == ["failover"]
