"""The jars of a local session: Delta and the Kafka source for Spark, and the Kafka broker. Downloaded once,
then used offline.

jars_spark.txt and jars_broker.txt name every jar with its version and SHA-256, as a lock file does: no POM is
read, and what arrives is what was tested. Ivy, which ships inside pyspark, fetches them from Maven Central,
or from the repository that $LAKEHOUSE_MAVEN names. An entry of the cache is named after its list, so a new
list is a new entry.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from lakehouse.errors import EnvironmentError_
from lakehouse.jvm.cache import cached_folder
from lakehouse.jvm.java import java, trust_options

MAVEN_CENTRAL = "https://repo1.maven.org/maven2/"

_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="maven" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""
  root={root}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="lakehouse" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_DEPENDENCY = (
    '    <dependency org="{0.group}" name="{0.name}" rev="{0.version}" conf="default->default" '
    'transitive="false"/>'
)


class _Jar(NamedTuple):
    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def spark_jars() -> list[Path]:
    """Paths of the jars that a local Spark needs besides its own. The first call needs the network."""
    return locked_jars(Path(__file__).with_name("jars_spark.txt"), "Delta and the Kafka source of Spark")


def broker_jars() -> list[Path]:
    """The class path of a Kafka broker. The first call needs the network."""
    return locked_jars(Path(__file__).with_name("jars_broker.txt"), "the Kafka broker")


def locked_jars(lock: Path, title: str) -> list[Path]:
    """Paths of the jars in a lock file (`jars_NAME.txt`), downloaded at the first call; messages name them by
    `title`.
    """
    text, name = lock.read_text(), lock.stem.removeprefix("jars_")
    jars = [_Jar(*re.split("[: ]", line)) for line in text.splitlines() if not line.startswith("#")]
    folder = cached_folder(
        f"jars/{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}", partial(_fetch, jars, title)
    )
    return [folder / jar.file for jar in jars]


def _fetch(jars: list[_Jar], title: str, folder: Path) -> None:
    repository = (os.environ.get("LAKEHOUSE_MAVEN") or MAVEN_CENTRAL).rstrip("/") + "/"
    print(
        f"jars    fetching {title}: {len(jars)} files from {repository} (once)", file=sys.stderr, flush=True
    )
    work = folder / ".ivy"
    work.mkdir()
    (work / "ivy.xml").write_text(_MODULE.format(dependencies="\n".join(map(_DEPENDENCY.format, jars))))
    (work / "settings.xml").write_text(
        _SETTINGS.format(cache=quoteattr(str(work)), root=quoteattr(repository))
    )
    done = subprocess.run(_command(work, folder), capture_output=True, text=True)
    if done.returncode != 0:
        raise EnvironmentError_(
            f"jars: expected {title} from {repository}, got: {_reason(done.stdout + done.stderr)}; "
            "this needs the network once (LAKEHOUSE_MAVEN names another Maven repository), and none ever "
            "after"
        )
    shutil.rmtree(work)
    _verify(jars, folder, repository)


def _verify(jars: list[_Jar], folder: Path, repository: str) -> None:
    for jar in jars:
        if hashlib.sha256((folder / jar.file).read_bytes()).hexdigest() != jar.sha256:
            raise EnvironmentError_(
                f"{repository}: expected {jar.file} as it was released, got another file; ask a repository "
                "you trust"
            )


def _command(work: Path, folder: Path) -> list[str]:
    pattern = f"{folder}/[artifact]-[revision].[ext]"
    arguments = ["-settings", f"{work}/settings.xml", "-ivy", f"{work}/ivy.xml", "-retrieve", pattern]
    return [
        str(java()),
        *trust_options(),
        *_proxy_options(),
        "-cp",
        str(_ivy()),
        "org.apache.ivy.Main",
        *arguments,
    ]


def _ivy() -> Path:
    spark = find_spec("pyspark")
    jars = list((Path(spark.origin).parent / "jars").glob("ivy-*.jar")) if spark and spark.origin else []
    if not jars:
        raise EnvironmentError_(
            "pyspark: expected it to be installed, found none; pip install 'lakehouse-cdc[spark]'"
        )
    return jars[0]


def _proxy_options() -> list[str]:
    """JVM options for the proxies of https_proxy, no_proxy and the like, which Java does not read."""
    proxies = urllib.request.getproxies()
    direct = (
        f"*{host}" if host.startswith(".") else host
        for host in re.split("[, ]+", proxies.get("no", ""))
        if host
    )
    options = [f"-Dhttp.nonProxyHosts={'|'.join(('localhost', '127.*', '[::1]', *direct))}"]
    for scheme, proxy in proxies.items():
        address = urlsplit(proxy)
        if scheme in ("http", "https") and address.hostname:
            options += [
                f"-D{scheme}.proxyHost={address.hostname}",
                f"-D{scheme}.proxyPort={address.port or 80}",
            ]
    return options


_SIGNS = (
    "Server access error at .*",
    r"Host \S+ not found",
    r"module not found: \S+",
    "unresolved dependency: .*",
)


def _reason(log: str) -> str:
    """Ivy's reason for a failed download, on one line."""
    matches = (re.search(sign, log) for sign in _SIGNS)
    return next((match[0].strip().rstrip(".!") for match in matches if match), "no answer")
