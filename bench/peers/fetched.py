"""What peers consist of, fetched once into the project's cache: jars from Maven Central, packages from PyPI,
as the lists beside this file name them with their checksums.
"""

import hashlib
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

from bench.peers.flink import KAFKA
from bench.peers.relocate import Renaming, relocate
from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.cache import cached_folder
from lakehouse.jvm.jars import locked_jars
from lakehouse.jvm.java import java

_HERE = Path(__file__).parent


def hudi_jars() -> list[Path]:
    return locked_jars(_HERE / "jars_hudi.txt", "Hudi")


def hudi_python() -> Path:
    """The Python of the environment that has Hudi's Spark."""
    return _environment("hudi") / "bin/python"


def flink_jars() -> list[Path]:
    """Flink's own jars, from its package for Python, Paimon, and the Kafka connector with its
    client: under the names that Paimon's action knows them by.
    """
    jars = locked_jars(_HERE / "jars_paimon.txt", "Paimon and Flink's Kafka connector")
    flink = next(_environment("flink").glob("lib/python*/site-packages/pyflink"))
    own = sorted((flink / "lib").glob("*.jar"))
    kafka = [jar for jar in jars if "kafka" in jar.name]
    return [*own, *(jar for jar in jars if jar not in kafka), *_relocated(kafka)]


def flink_program() -> Path:
    """A jar of RunSql's class, compiled once; a Java without a compiler can't. A JVM whose class path has a
    folder writes no class archive.
    """
    source, jars = _HERE / "RunSql.java", flink_jars()

    def fill(folder: Path) -> None:
        compiler = [str(java()), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
        paths = ["-d", str(folder), "-cp", ":".join(map(str, jars))]
        done = subprocess.run([*compiler, *paths, str(source)], capture_output=True, text=True)
        if done.returncode != 0:
            raise EnvironmentError_(
                f"{source.name}: expected a Java with a compiler, got: {done.stderr.strip()[:200]}"
            )
        with zipfile.ZipFile(folder / "sql.jar", "w") as jar:
            jar.write(folder / "RunSql.class", "RunSql.class")

    key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    return cached_folder(f"peers/sql-{key}", fill) / "sql.jar"


def _relocated(jars: list[Path]) -> list[Path]:
    def fill(folder: Path) -> None:
        for jar in jars:
            relocate(jar, folder / jar.name, Renaming(*KAFKA))

    key = hashlib.sha256(repr((jars, KAFKA)).encode()).hexdigest()[:16]
    folder = cached_folder(f"peers/kafka-{key}", fill)
    return [folder / jar.name for jar in jars]


def _environment(name: str) -> Path:
    """A virtual environment with the packages of a list, whose files have these checksums."""
    packages = _HERE / f"packages_{name}.txt"
    key = hashlib.sha256((packages.read_text() + sys.version).encode()).hexdigest()[:16]
    return cached_folder(f"peers/{name}-{key}", partial(_install, packages))


def _install(packages: Path, folder: Path) -> None:
    print(f"peers   installing {packages.name} (once; some minutes)", file=sys.stderr, flush=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [*pip, "--no-deps", "--require-hashes", "-r", str(packages)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise EnvironmentError_(
                f"{packages.name}: expected venv and pip to install it, got: {' '.join(said[-1:])}"
            )
