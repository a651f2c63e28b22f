"""Names of options, of decoders, producers and Kafka: which are known, and which is nearest to a typo.

Both the YAML's `options:` and the command line's `--option name=value` are read by `decoder_options`. A name
is accepted as the table in lakehouse.formats spells it, or as the producer does (`include-commit-ts`,
`csv.delimiter`).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from lakehouse.errors import ConfigError, _plain, did_you_mean
from lakehouse.formats import FORMATS
from lakehouse.formats.row import Option


class OptionProblem(NamedTuple):
    """A problem with one option: its name, what is wrong, and what to do."""

    name: str
    text: str
    fix: str


def known_option(format: str, name: str) -> str | None:
    """The format's own spelling of an option, or None if it has no such option."""
    plain = _normal(name.removeprefix("csv.").removeprefix("sink."))
    for known, option in FORMATS[format].options.items():
        if plain in (_normal(known), *map(_normal, option.spelled)):
            return known
    return None


def _normal(name: str) -> str:
    return _plain(name).replace(".", "_")


def option_problems(format: str, options: Mapping[str, object]) -> list[OptionProblem]:
    """A problem for every option that the format does not have, and for every value that it does not
    allow.
    """
    problems = []
    spellings: dict[str, str] = {}
    for name, value in options.items():
        known = known_option(format, name)
        if known is None:
            names = FORMATS[format].options
            problems.append(OptionProblem(name, f"is no option of {format}", did_you_mean(name, names)))
        elif known in spellings:
            problems.append(
                OptionProblem(name, f"says again what `{spellings[known]}` says", "remove one of the two")
            )
        elif (expected := _expected(FORMATS[format].options[known], option_text(value))) is not None:
            problems.append(OptionProblem(name, *expected))
        spellings.setdefault(known or name, name)
    return problems


def _expected(option: Option, value: str) -> tuple[str, str] | None:
    """What the value should be, and what to do, if the option does not allow it."""
    if option.choices and value not in option.choices:
        return f"expected one of {', '.join(option.choices)}", "write one of them"
    if option.pattern and not re.fullmatch(option.pattern, value, re.A):
        return f"expected {option.expected}", "write it so"
    return None


def decoder_options(format: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options under the decoder's own names; a ConfigError lists those that are wrong."""
    if format not in FORMATS:
        raise ConfigError(f"--format: {format} is no format; {did_you_mean(format, FORMATS)}")
    problems = option_problems(format, options)
    if problems:
        raise ConfigError("\n".join(f"option {name}: {text}; {fix}" for name, text, fix in problems))
    return known_options(format, options)


def known_options(format: str, options: Mapping[str, object]) -> dict[str, str]:
    """The options that the format has, under the decoder's own names."""
    return {
        known: option_text(value) for name, value in options.items() if (known := known_option(format, name))
    }


def option_text(value: object) -> str:
    """An option's value as decoders read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# The consumer's properties, of Kafka 4.1. A name that is like none of them is passed on: plug-ins have their
# own.
KAFKA_PROPERTIES = frozenset(
    """
    allow.auto.create.topics auto.commit.interval.ms check.crcs client.dns.lookup client.id client.rack
    connections.max.idle.ms default.api.timeout.ms exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes group.instance.id group.protocol heartbeat.interval.ms isolation.level
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms
    metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes
    session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """.split()  # noqa: SIM905 - eighty quoted names read worse
)
# What the reader sets itself, or Spark refuses, with what says it here.
KAFKA_TAKEN = {
    "bootstrap.servers": "say it in kafka.bootstrap_servers",
    "auto.offset.reset": "say where to start in kafka.starting",
    "enable.auto.commit": "remove it: progress is kept in the checkpoint",
    "group.id": "remove it: each query has its own group",
    "interceptor.classes": "remove it: Spark refuses interceptors",
    "key.deserializer": "remove it: bronze takes the bytes",
    "value.deserializer": "remove it: bronze takes the bytes",
}
