"""What an operator may say of epochs. Needs Spark's package, but no session."""

from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.spark.operations import epochs


@pytest.mark.parametrize("order", ["binlog", "arrival", "files"])
def test_a_restore_is_of_a_tso_so_a_feed_without_is_not_taken_back(
    monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """Nothing would be void, and the tables exact all the same."""
    settings: Any = SimpleNamespace(order=order)
    monkeypatch.setattr(epochs, "opened", lambda *_: (None, settings))

    with pytest.raises(LakehouseError, match="--restored-to 7: expected a source whose positions are TSOs"):
        epochs.raise_epoch("lake", "shop", "restored", 7)
