"""Kafka's Java consumer options, as Spark takes them, translated for librdkafka, which lists topics: both
must reach the same broker.

    kafka.security.protocol, sasl.mechanism (PLAIN, SCRAM-…)     the same
    kafka.sasl.jaas.config                                       its user and password
    kafka.isolation.level                                        the same
    kafka.ssl.truststore.*     PEM file or text; a JKS file      ssl.ca.location, ssl.ca.pem
    kafka.ssl.keystore.*       PEM file or text; a PKCS12 file   ssl.certificate.*, ssl.key.*, ssl.keystore.*

`validate` reports the options that can't be translated (`unsupported_options`) before anything runs.
"""

import re
import struct
from base64 import encodebytes
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakehouse.errors import ConfigError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JKS = b"\xfe\xed\xfe\xed"
_SAME = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "client.id": "client.id",
    "isolation.level": "isolation.level",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.key.password": "ssl.key.password",
}


def client_config(bootstrap: str, options: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's configuration for Spark's `kafka.*` options; ConfigError where a file is of a kind that it
    can't read.
    """
    # librdkafka would write every failed connection to stderr, many a second; what failed is in the error
    # that is raised
    config = {"bootstrap.servers": bootstrap, "log_level": "0"}
    plain = {name.removeprefix("kafka."): value for name, value in options.items()}
    config |= {_SAME[name]: value for name, value in plain.items() if name in _SAME}
    config |= _login(plain.get("sasl.jaas.config", ""))
    if "ssl.endpoint.identification.algorithm" in plain:
        config["ssl.endpoint.identification.algorithm"] = (
            plain["ssl.endpoint.identification.algorithm"] or "none"
        )
    if "ssl.truststore.location" in plain:
        config |= _truststore(Path(plain["ssl.truststore.location"]), plain.get("ssl.truststore.type", "JKS"))
    if "ssl.keystore.location" in plain:
        config |= _keystore(Path(plain["ssl.keystore.location"]), plain)
    return config


def unsupported_options(options: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """(option, what is wrong, what to do) for each option that Spark accepts and librdkafka can't."""
    for name, value in options.items():
        plain = name.removeprefix("kafka.")
        if (
            plain == "sasl.mechanism"
            and isinstance(value, str)
            and "${" not in value
            and value not in MECHANISMS
        ):
            yield (
                name,
                f"{value} is a mechanism that topics can't be listed with",
                f"use one of {', '.join(MECHANISMS)}",
            )
        elif plain == "ssl.truststore.type" and value not in ("PEM", "JKS"):
            yield name, "is a kind of trust store that topics can't be listed with", "use PEM, or JKS"
        elif plain == "ssl.keystore.type" and value not in ("PEM", "PKCS12"):
            yield name, "is a kind of key store that topics can't be listed with", "use PEM, or PKCS12"


def _login(jaas: str) -> dict[str, str]:
    """The user and the password of a JAAS line, with quotes and backslashes as Java reads them."""
    found = {}
    for part in ("username", "password"):
        match = re.search(
            rf"""\b{part}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", jaas
        )
        if match:
            quoted = match[1] if match[1] is not None else match[2]
            found[f"sasl.{part}"] = match[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return found


def _truststore(path: Path, kind: str) -> dict[str, str]:
    if kind == "PEM":
        return {"ssl.ca.location": str(path)}
    data = _read(path)
    if not data.startswith(_JKS):
        raise ConfigError(
            f"{path}: expected a trust store in PEM or JKS, got another kind; use kafka.ssl.truststore.type: "
            "PEM"
        )
    return {"ssl.ca.pem": "".join(_pem(der) for der in jks_certificates(data))}


def _keystore(path: Path, plain: Mapping[str, str]) -> dict[str, str]:
    if plain.get("ssl.keystore.type") == "PEM":
        return {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}
    if _read(path).startswith(_JKS):
        raise ConfigError(
            f"{path}: expected a key store in PEM or PKCS12, got JKS; convert it with keytool -importkeystore"
        )
    return {
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": plain.get("ssl.keystore.password", ""),
    }


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: expected a store of kafka.options, got: {error.strerror}; check the path"
        ) from error


def _pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{encodebytes(der).decode()}-----END CERTIFICATE-----\n"


def jks_certificates(data: bytes) -> list[bytes]:
    """The trusted certificates of a Java key store (version 2), as DER. Its password is not needed: it only
    protects integrity.
    """
    (count,), at, found = struct.unpack_from(">I", data, 8), 12, []
    for _ in range(count):
        (kind,) = struct.unpack_from(">I", data, at)
        _, at = _field(data, at + 4, ">H")
        at += 8
        if kind == 1:  # a private key and its chain, which nothing is trusted for
            _, at = _field(data, at, ">I")
            (chain,), at = struct.unpack_from(">I", data, at), at + 4
        else:
            chain = 1
        for _ in range(chain):
            _, at = _field(data, at, ">H")
            der, at = _field(data, at, ">I")
            found += [der] if kind == 2 else []
    return found


def _field(data: bytes, at: int, length: str) -> tuple[bytes, int]:
    (size,), at = struct.unpack_from(length, data, at), at + struct.calcsize(length)
    return data[at : at + size], at + size
