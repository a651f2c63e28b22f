"""The bootstrap script on machines that lack something: one sentence each, in a tree of its own with a PATH of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


def run(tree: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(tree.parent / "bin"), "HOME": str(tree.parent), **variables}
    return subprocess.run(["sh", tree / "run", *arguments], env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_without_python_it_says_which_one_to_install(tree: Path) -> None:
    done = run(tree, "validate")
    assert done.stderr == (
        "run: expected Python 3.11 or 3.12, found none; install one (Debian, Ubuntu: apt-get install -y python3 python3-venv)\n"
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
    assert done.stderr == "run: expected uv, or Python's venv module, found neither; run: apt-get install -y python3-venv\n"
    assert done.returncode == 1


def test_without_network_it_says_so_and_leaves_nothing_that_counts_as_installed(tree: Path) -> None:
    python_that_says(tree, f'exec "{sys.executable}" "$@"')
    done = run(
        tree, "validate", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0", PIP_NO_CACHE_DIR="1", PIP_CONFIG_FILE="/dev/null"
    )
    assert "run: expected to fetch Python packages, got no connection to the package index; connect to the network" in done.stderr
    assert done.returncode == 1
    assert not (tree / ".venv" / ".installed").exists()
