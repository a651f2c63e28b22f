"""One set of Kafka options for two clients: what Spark takes, as librdkafka is told it."""

import re
import ssl
from pathlib import Path

import pytest

from lakehouse.config.checks import source_findings
from lakehouse.errors import ConfigError
from lakehouse.jvm.java import _trust_store
from lakehouse.sources.kafka_client import client_config, jks_certificates
from tests.support.paths import DATA

CA = DATA / "kafka/ca.pem"
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def told(**options: str) -> dict[str, str]:
    config = client_config(
        "broker:9092", {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    )
    return {name: value for name, value in config.items() if name not in ("bootstrap.servers", "log_level")}


@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        (f'{LOGIN} username="ann" password="s3 cr;et";', "ann", "s3 cr;et"),
        (f'{LOGIN} password="a\\"b\\\\c" username="ann";', "ann", 'a"b\\c'),
        (f"{LOGIN} username='ann' password='it=\"is\"';", "ann", 'it="is"'),
        (f"{LOGIN} username=ann password=plain;", "ann", "plain"),
    ],
)
def test_a_jaas_line_gives_its_user_and_password_as_java_reads_them(
    jaas: str, user: str, password: str
) -> None:
    assert told(sasl_jaas_config=jaas) == {"sasl.username": user, "sasl.password": password}


def test_pem_text_and_files_are_told_by_librdkafkas_names() -> None:
    assert told(
        ssl_truststore_type="PEM", ssl_truststore_location="/ca.pem", ssl_endpoint_identification_algorithm=""
    ) == {
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert told(
        ssl_truststore_certificates="c",
        ssl_keystore_certificate_chain="d",
        ssl_keystore_key="k",
        ssl_key_password="p",
    ) == {
        "ssl.ca.pem": "c",
        "ssl.certificate.pem": "d",
        "ssl.key.pem": "k",
        "ssl.key.password": "p",
    }
    assert told(ssl_keystore_type="PEM", ssl_keystore_location="/me.pem") == {
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
    }


def test_a_java_trust_store_gives_its_certificates(tmp_path: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert(CA.read_text())
    (tmp_path / "trust.jks").write_bytes(_trust_store([der, der]))

    pem = told(ssl_truststore_location=str(tmp_path / "trust.jks"), ssl_truststore_password="changeit")[
        "ssl.ca.pem"
    ]

    assert jks_certificates(_trust_store([der])) == [der]
    found = re.findall("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)
    assert [ssl.PEM_cert_to_DER_cert(one) for one in found] == [der, der]


def test_a_store_that_librdkafka_cannot_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"0\x82PKCS12")
    (tmp_path / "key.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")

    with pytest.raises(
        ConfigError,
        match=(
            r"/store: expected a trust store in PEM or JKS, got another kind; use "
            r"kafka.ssl.truststore.type: PEM$"
        ),
    ):
        told(ssl_truststore_location=str(tmp_path / "store"))
    with pytest.raises(
        ConfigError,
        match=(
            r"/key.jks: expected a key store in PEM or PKCS12, got JKS; convert it with keytool "
            r"-importkeystore$"
        ),
    ):
        told(ssl_keystore_location=str(tmp_path / "key.jks"))
    with pytest.raises(
        ConfigError,
        match=r"/none: expected a store of kafka.options, got: No such file or directory; check the path$",
    ):
        told(ssl_truststore_location=str(tmp_path / "none"))


def test_validate_names_options_that_only_one_of_the_two_clients_knows() -> None:
    options = {
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.ssl.truststore.type": "PKCS12",
        "kafka.ssl.keystore.type": "JKS",
    }
    data = {"format": "canal", "kafka": {"bootstrap_servers": "b:9092", "topics": ["t"], "options": options}}

    assert [(path[-1], text) for path, text, _ in source_findings(data)] == [
        ("kafka.sasl.mechanism", "AWS_MSK_IAM is a mechanism that topics can't be listed with"),
        ("kafka.ssl.truststore.type", "is a kind of trust store that topics can't be listed with"),
        ("kafka.ssl.keystore.type", "is a kind of key store that topics can't be listed with"),
    ]
