"""Kafka's keys and Kafka's defaults, as an operator's files rely on them."""

import sys
from typing import Any

import pytest
from pydantic import ValidationError

from cluster.config.setting_types import INT32_MAX, INT64_MAX
from cluster.config.settings import Settings

DEFAULTS: dict[str, Any] = {
    "broker.id": -1,
    "broker.id.generation.enable": True,
    "reserved.broker.max.id": 1000,
    "broker.rack": None,
    "zookeeper.session.timeout.ms": 18_000,
    "zookeeper.connection.timeout.ms": 18_000,
    "zookeeper.max.in.flight.requests": 10,
    "zookeeper.set.acl": False,
    "authorizer.class.name": "",
    "super.users": "",
    "allow.everyone.if.no.acl.found": False,
    "zookeeper.sasl.clientconfig": "Client",
    "controller.socket.timeout.ms": 30_000,
    "request.timeout.ms": 30_000,
    "socket.connection.setup.timeout.ms": 10_000,
    "socket.connection.setup.timeout.max.ms": 30_000,
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.leader.rebalance.enable": True,
    "leader.imbalance.per.broker.percentage": 10,
    "leader.imbalance.check.interval.seconds": 300,
    "unclean.leader.election.enable": False,
    "delete.topic.enable": True,
    "controlled.shutdown.enable": True,
    "controlled.shutdown.max.retries": 3,
    "controlled.shutdown.retry.backoff.ms": 5000,
    "num.partitions": 1,
    "default.replication.factor": 1,
    "replica.lag.time.max.ms": 30_000,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.max.bytes": 1_048_576,
    "replica.fetch.response.max.bytes": 10_485_760,
    "replica.fetch.backoff.ms": 1000,
    "num.replica.fetchers": 1,
    "replica.selector.class": None,
    "controller.quota.window.num": 11,
    "controller.quota.window.size.seconds": 1,
    "quota.window.num": 11,
    "quota.window.size.seconds": 1,
    "replication.quota.window.num": 11,
    "replication.quota.window.size.seconds": 1,
    "num.replica.alter.log.dirs.threads": None,
    "replica.alter.log.dirs.io.max.bytes.per.second": 2**63 - 1,
    "replica.socket.timeout.ms": 30_000,
    "replica.high.watermark.checkpoint.interval.ms": 5000,
    "max.incremental.fetch.session.cache.slots": 1000,
    "min.insync.replicas": 1,
    "fetch.purgatory.purge.interval.requests": 1000,
    "producer.purgatory.purge.interval.requests": 1000,
    "delete.records.purgatory.purge.interval.requests": 1,
    "log.segment.bytes": 1_073_741_824,
    "log.roll.ms": 604_800_000,
    "log.roll.jitter.ms": 0,
    "log.retention.ms": 604_800_000,
    "log.retention.bytes": -1,
    "log.retention.check.interval.ms": 300_000,
    "log.initial.task.delay.ms": 30_000,
    "log.index.interval.bytes": 4096,
    "log.index.size.max.bytes": 10_485_760,
    "log.flush.interval.messages": INT64_MAX,
    "log.flush.interval.ms": INT64_MAX,
    "log.flush.scheduler.interval.ms": INT64_MAX,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "log.segment.delete.delay.ms": 60_000,
    "log.cleanup.policy": "delete",
    "log.cleaner.enable": True,
    "log.cleaner.threads": 1,
    "log.cleaner.io.max.bytes.per.second": sys.float_info.max,
    "log.cleaner.dedupe.buffer.size": 134_217_728,
    "log.cleaner.io.buffer.size": 524_288,
    "log.cleaner.io.buffer.load.factor": 0.9,
    "log.cleaner.backoff.ms": 15_000,
    "log.cleaner.min.cleanable.ratio": 0.5,
    "log.cleaner.delete.retention.ms": 86_400_000,
    "log.cleaner.min.compaction.lag.ms": 0,
    "log.cleaner.max.compaction.lag.ms": INT64_MAX,
    "message.max.bytes": 1_048_588,
    "log.message.timestamp.type": "CreateTime",
    "fetch.max.bytes": 57_671_680,
    "producer.id.expiration.ms": 86_400_000,
    "num.recovery.threads.per.data.dir": 1,
    "num.io.threads": 8,
    "background.threads": 10,
    "max.connections": INT32_MAX,
    "max.connections.per.ip": INT32_MAX,
    "connections.max.idle.ms": 600_000,
    "ssl.client.auth": "none",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "zookeeper.ssl.client.enable": False,
    "zookeeper.ssl.endpoint.identification.algorithm": "https",
    "zookeeper.ssl.crl.enable": False,
    "ssl.principal.mapping.rules": "DEFAULT",
    "sasl.oauthbearer.sub.claim.name": "sub",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.oauthbearer.clock.skew.seconds": 30,
    "connection.failed.authentication.delay.ms": 100,
    "zookeeper.ssl.ocsp.enable": False,
}
OTHER_DEFAULTS = {
    "control.plane.listener.name": "CONTROL",
    "socket.request.max.bytes": 16_777_216,
    "queued.max.requests": 4096,
    "queued.max.request.bytes": 268_435_456,
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "connections.max.reauth.ms": 3_600_000,
}
"""Kafka's are: none, 104857600, 500, -1, JKS twice, and 0."""
WITHOUT_DEFAULT = {
    "listener.security.protocol.map",
    "zookeeper.connect",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.retention.minutes",
    "log.retention.hours",
    "java.security.auth.login.config",
    "auto.create.topics.enable",
    "inter.broker.protocol.version",
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "listener.name.LISTENER.ssl.*",
    "ssl.cipher.suites",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
    "max.connections.per.ip.overrides",
    # Kafka's default is GSSAPI, which needs an extra of klamm's.
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.jaas.config",
    "plain.sasl.jaas.config",
    "scram-sha-256.sasl.jaas.config",
    "scram-sha-512.sasl.jaas.config",
    "oauthbearer.sasl.jaas.config",
    "gssapi.sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "listener.name.LISTENER.sasl.*",
}


def test_the_keys_and_their_defaults_are_kafkas() -> None:
    settings = Settings()
    found = {field.alias: getattr(settings, name) for name, field in Settings.model_fields.items()}
    assert {key: found[key] for key in DEFAULTS} == DEFAULTS
    assert {key: found[key] for key in OTHER_DEFAULTS} == OTHER_DEFAULTS
    # Kafka sets the levels of its loggers in a file of log4j.
    of_our_own = {key for key in found if key.startswith("klamm.")} | {"log.level"}
    assert found.keys() - DEFAULTS.keys() - OTHER_DEFAULTS.keys() - of_our_own == WITHOUT_DEFAULT


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("broker.id", -1, None),
        ("zookeeper.max.in.flight.requests", 1, None),
        ("leader.imbalance.check.interval.seconds", 1, None),
        ("leader.imbalance.per.broker.percentage", 0, 100),
        ("num.partitions", 1, None),
        ("default.replication.factor", 1, 32_767),
        ("min.insync.replicas", 1, None),
        ("replica.fetch.wait.max.ms", 0, 30_000),
        ("socket.connection.setup.timeout.ms", 1, 30_000),
        ("num.replica.fetchers", 1, None),
        ("log.segment.bytes", 14, 2**31 - 1),
        ("log.index.size.max.bytes", 4, 2**31 - 1),
        ("log.index.interval.bytes", 0, 2**31 - 1),
        ("message.max.bytes", 0, 2**31 - 1),
        ("fetch.max.bytes", 1024, 2**31 - 1),
        ("log.retention.bytes", -1, None),
        ("num.recovery.threads.per.data.dir", 1, None),
        ("num.io.threads", 1, None),
    ],
)
def test_a_number_has_bounds(key: str, least: int, most: int | None) -> None:
    for fitting in (least, most):
        if fitting is not None:
            assert getattr(Settings.model_validate({key: fitting}), key.replace(".", "_")) == fitting
    for excessive in (least - 1, None if most is None else most + 1):
        if excessive is not None:
            with pytest.raises(ValidationError) as refused:
                Settings.model_validate({key: excessive})
            # What is computed from a mistake is no second one.
            errors = [error for error in refused.value.errors() if error["type"] != "default_factory_not_called"]
            assert [(error["loc"], error["input"]) for error in errors] == [((key,), excessive)]


def test_cleanup_policies_are_a_list_of_kafkas_two() -> None:
    for value, expected in (("compact", "compact"), ("compact, delete", "compact,delete"), ("delete,delete", "delete")):
        assert Settings(log_cleanup_policy=value).log_cleanup_policy == expected
    for refused in ("", "Compact", "compact;delete", "keep"):
        with pytest.raises(ValueError, match="must be delete, compact, or compact,delete"):
            Settings(log_cleanup_policy=refused)


def test_each_cleaner_has_memory_for_keys_and_records_may_be_compacted_before_they_must_be() -> None:
    Settings(log_cleaner_threads=2, log_cleaner_dedupe_buffer_size=2 << 20)
    with pytest.raises(ValueError, match=r"must be at least 1048576 for each of log.cleaner.threads \(2\)"):
        Settings(log_cleaner_threads=2, log_cleaner_dedupe_buffer_size=(2 << 20) - 1)
    Settings(log_cleaner_min_compaction_lag_ms=5, log_cleaner_max_compaction_lag_ms=5)
    with pytest.raises(ValueError, match=r"must be at least log.cleaner.min.compaction.lag.ms \(6\)"):
        Settings(log_cleaner_min_compaction_lag_ms=6, log_cleaner_max_compaction_lag_ms=5)
    for key in ("log_cleaner_io_buffer_load_factor", "log_cleaner_io_max_bytes_per_second"):
        with pytest.raises(ValueError, match="greater than 0"):
            Settings(**{key: 0})


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "must be kafka.security.authorizer.AclAuthorizer, or empty for none",
        ),
        ("super.users", "User:alice,bob;carol", "principal 'carol': is not Type:name"),
    ],
)
def test_the_authorizer_is_kafkas_and_super_users_are_principals(key: str, value: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Settings.model_validate({key: value})
