"""The bootstrap script on machines that lack something: one sentence each, in a tree of its own with a PATH
of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TOOLS = ("sh", "cat", "cut", "dirname", "find", "grep", "mkdir", "rm", "tail")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout without .venv, beside a bin/ that holds the plainest tools only."""
    checkout, tools = tmp_path / "checkout", tmp_path / "bin"
    checkout.mkdir()
    tools.mkdir()
    for name in ("run", "pyproject.toml", "uv.lock"):
        shutil.copy2(ROOT / name, checkout / name)
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    return checkout


def python_that_says(tree: Path, script: str) -> None:
    program = tree.parent / "bin" / "python3"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def run(
    tree: Path, *arguments: str, user: int | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(tree.parent / "bin"), "HOME": str(tree.parent), **variables}
    command = ["sh", str(tree / "run"), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300, user=user
    )


def test_without_python_it_says_which_one_to_install(tree: Path) -> None:
    done = run(tree, "validate")
    assert done.stderr == (
        "run: expected Python 3.11 or 3.12, found none; install one (Debian, Ubuntu: apt-get "
        "install -y python3 python3-venv)\n"
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_too_old_a_python_is_named(tree: Path) -> None:
    python_that_says(tree, "echo 3.9")
    done = run(tree, "validate")
    assert done.stderr.startswith("run: expected Python 3.11 or 3.12, found Python 3.9; install one")
    assert done.returncode == 1


def test_a_python_without_venv_says_which_package_brings_it(tree: Path) -> None:
    python_that_says(tree, "case $2 in *ensurepip*) exit 1 ;; *) echo 3.11 ;; esac")
    done = run(tree, "validate")
    assert (
        done.stderr
        == "run: expected uv, or Python's venv module, found neither; run: apt-get install -y python3-venv\n"
    )
    assert done.returncode == 1


def test_without_network_it_says_so_and_leaves_nothing_that_counts_as_installed(tree: Path) -> None:
    python_that_says(tree, f'exec "{sys.executable}" "$@"')
    done = run(
        tree,
        "validate",
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_RETRIES="0",
        PIP_NO_CACHE_DIR="1",
        PIP_CONFIG_FILE="/dev/null",
    )
    assert (
        "run: expected to fetch Python packages, got no connection to the package index; connect "
        "to the network"
    ) in done.stderr
    assert done.returncode == 1
    assert not (tree / ".venv" / ".installed").exists()


def test_a_folder_that_cannot_be_written_is_named(tree: Path) -> None:
    python_that_says(tree, "echo 3.11")
    with (
        tempfile.TemporaryDirectory() as place
    ):  # somebody else must be able to look in, for root may write anywhere
        Path(place).chmod(0o755)
        copy = shutil.copytree(tree.parent, Path(place) / "machine", symlinks=True) / "checkout"
        for folder in (copy, copy.parent, copy.parent / "bin"):
            folder.chmod(0o555)

        done = run(copy, "validate", user=65534 if os.geteuid() == 0 else None)

        copy.parent.chmod(0o755)
        copy.chmod(0o755)
    assert done.stderr == (
        f"run: {copy}: expected a folder that can be written, got a read-only one; copy it to another place\n"
    )
    assert done.returncode == 1


def test_a_python_that_refuses_pip_outside_of_a_virtual_environment_is_not_asked_to(tree: Path) -> None:
    """Debian 12: `EXTERNALLY-MANAGED` stops pip of the system's Python, and only that."""
    refuses = 'case "$*" in *"-m pip"*) echo "error: externally-managed-environment" >&2; exit 1 ;; esac'
    python_that_says(tree, f'{refuses}; exec "{sys.executable}" "$@"')
    index = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_CONFIG_FILE": "/dev/null",
    }

    done = run(tree, "validate", user=None, **index)

    assert "got no connection to the package index" in done.stderr
    assert "externally-managed" not in done.stderr + (tree / ".venv/install.log").read_text()
