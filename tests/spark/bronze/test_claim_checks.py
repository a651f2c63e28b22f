"""The copies of claim-check payloads, which are made once. Needs Spark's package, but no session."""

from pathlib import Path

import pytest

from lakehouse.sources.file_systems import LocalFiles
from lakehouse.spark.bronze.claim_checks import _local

NAMES = ["whole.json", "cut.json", "gone.json", "empty.json"]


def test_a_payload_that_cannot_be_read_to_its_end_is_copied_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes(b"" if name == "empty.json" else b"{}")
    read = LocalFiles.read

    def some(files: LocalFiles, path: str, start: int = 0) -> bytes:
        return {"cut.json": b"{", "gone.json": b""}.get(path, read(files, path, start))

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "read", some)
        assert [row["path"] for row in _local(str(tmp_path), [*NAMES, "none.json"])] == ["whole.json"]
    assert [row["value"] for row in _local(str(tmp_path), NAMES)] == [b"{}"] * 3
