"""Which Java is chosen, with real programs: the machine's where it fits, else the one that the Spark extra
brings.
"""

import os
import subprocess
from pathlib import Path

import pytest

from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.java import java, java_home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def pretend_java(folder: Path, version: str) -> Path:
    """A program that says what a Java of this version says of itself."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = started ] && {{ echo {version}; exit; }}\n'
        f'echo "    java.home = {folder}" >&2\necho "    java.specification.version = {version}" >&2\n'
    )
    program.chmod(0o755)
    return folder


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program where there is a PATH, which the machine under test may lack."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": os.defpath}
    )


def test_a_machine_without_java_runs_the_one_from_the_package_index() -> None:
    told = run(java(), "-version")
    assert 'version "17.' in told.stderr


def test_the_chosen_java_starts_though_spark_asks_for_a_module_it_lacks() -> None:
    done = run(java(), "--add-modules=jdk.incubator.vector", "-version")
    assert done.returncode == 0, done.stderr


def test_java_home_goes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_java(tmp_path, "17")
    monkeypatch.setenv("JAVA_HOME", str(pretend_java(tmp_path / "home", "21")))
    assert run(java(), "started").stdout.strip() == "21"


def test_a_java_on_the_path_is_taken_where_it_fits(tmp_path: Path) -> None:
    pretend_java(tmp_path, "21")
    assert run(java(), "started").stdout.strip() == "21"


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_a_java_of_another_version_is_passed_over(tmp_path: Path, version: str) -> None:
    pretend_java(tmp_path, version)
    told = run(java(), "-version")
    assert 'version "17.' in told.stderr


def test_arguments_reach_java_unchanged(tmp_path: Path) -> None:
    program = pretend_java(tmp_path, "17") / "bin" / "java"
    chosen = java()
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    done = run(chosen, "-Dname=a b", "--add-modules=jdk.incubator.vector", "", "*", "'")
    assert done.stdout == "-Dname=a b||*|'|"


def test_a_cache_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "file" / "below"))
    pretend_java(tmp_path, "21")
    sentence = (
        r"expected a cache folder that can be written, got: Not a directory; set LAKEHOUSE_CACHE "
        r"to another folder$"
    )
    with pytest.raises(EnvironmentError_, match=sentence):
        java_home()
