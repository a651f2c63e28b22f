"""Class archives: written by the first JVM, used by the next, never in the way of a start. Real JVMs, a tiny
class path.
"""

import os
import subprocess
from pathlib import Path

import pytest

from lakehouse.jvm import class_archive
from lakehouse.jvm.cache import cache_folder
from lakehouse.jvm.class_archive import archive_options
from lakehouse.jvm.jars import broker_jars
from lakehouse.jvm.java import java_home


@pytest.fixture
def class_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    jars = broker_jars()
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "WORTH", 0)
    return jars


def start(class_path: list[Path], options: list[str]) -> list[str]:
    """Start Kafka's storage tool, which prints an id, and return what the JVM itself says."""
    path = os.pathsep.join(map(str, class_path))
    command = [
        str(java_home() / "bin" / "java"),
        *options,
        "-cp",
        path,
        "kafka.tools.StorageTool",
        "random-uuid",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert len(done.stdout.strip()) == 22
    return [line for line in done.stderr.splitlines() if "INFO kafka." not in line]


def archives() -> list[Path]:
    return sorted(cache_folder().glob("classes/*.jsa"))


def test_the_first_start_writes_what_the_second_uses(class_path: list[Path]) -> None:
    first = archive_options(java_home(), class_path)
    assert any(option.startswith("-XX:ArchiveClassesAtExit=") for option in first)
    assert start(class_path, first) == []

    second = archive_options(java_home(), class_path)

    (archive,) = archives()
    assert any(option.endswith(str(archive)) for option in second)
    mapped = [option for option in second if not option.startswith("-Xshare")]
    assert start(class_path, ["-Xshare:on", *mapped]) == []  # fails where the archive can't be mapped


def test_an_archive_of_another_class_path_does_not_stop_a_start(class_path: list[Path]) -> None:
    start(class_path, archive_options(java_home(), class_path))
    options = archive_options(java_home(), class_path)
    assert any("-XX:SharedArchiveFile" in option for option in options)

    assert start(class_path[::-1], options) == []


def test_an_archive_that_lost_its_end_is_replaced(class_path: list[Path]) -> None:
    start(class_path, archive_options(java_home(), class_path))
    archive_options(java_home(), class_path)
    (archive,) = archives()
    archive.chmod(0o644)
    archive.write_bytes(archive.read_bytes()[:-4096])

    options = archive_options(java_home(), class_path)

    assert any("AtExit" in option for option in options)
    assert not archive.exists()
    assert start(class_path, options) == []


def test_an_archive_still_being_written_is_left_alone(class_path: list[Path]) -> None:
    written = next(option for option in archive_options(java_home(), class_path) if "AtExit" in option)
    part = Path(written.partition("=")[2])
    part.write_bytes(b"\0" * 5000)
    assert any("AtExit" in option for option in archive_options(java_home(), class_path))
    assert part.exists()
    assert archives() == []


def test_another_class_path_has_an_archive_of_its_own(class_path: list[Path]) -> None:
    assert archive_options(java_home(), class_path) != archive_options(java_home(), class_path[1:])


def test_a_cache_that_cannot_be_written_costs_no_start(
    class_path: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java_home()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "file" / "below"))
    assert archive_options(home, class_path) == []
