"""Whose quota is in force, in Kafka's order: user and client id, user, client id, each before its default."""

from typing import Final

import pytest

from cluster.config.client_quotas import PRODUCER_BYTE_RATE, Quota, QuotaOwner, chosen_quota
from cluster.znodes.configs import ConfigEntity, entity_name

LEVELS: Final = (
    ("users/ann/clients/app", QuotaOwner("ann", "app")),
    ("users/ann/clients/<default>", QuotaOwner("ann", "app")),
    ("users/ann", QuotaOwner("ann", "")),
    ("users/<default>/clients/app", QuotaOwner("ann", "app")),
    ("users/<default>/clients/<default>", QuotaOwner("ann", "app")),
    ("users/<default>", QuotaOwner("ann", "")),
    ("clients/app", QuotaOwner("", "app")),
    ("clients/<default>", QuotaOwner("", "app")),
)
"""From the one that counts before all others. Source: Kafka ClientQuotaManager.DefaultQuotaCallback."""


def entity(text: str) -> ConfigEntity:
    type_, _, name = text.partition("/")
    return ConfigEntity(type_, name)


@pytest.mark.rule("R18.8", "MQ-4")
def test_the_first_level_that_has_the_key_counts_and_what_is_used_counts_for_its_owner() -> None:
    quotas = {entity(path): {PRODUCER_BYTE_RATE: float(n)} for n, (path, _) in enumerate(LEVELS, start=1)}
    for number, (path, owner) in enumerate(LEVELS, start=1):
        assert chosen_quota(quotas, PRODUCER_BYTE_RATE, "ann", "app") == Quota(number, owner), path
        # Each key by itself.
        quotas[entity(path)] = {"consumer_byte_rate": 1.0}
    assert chosen_quota(quotas, PRODUCER_BYTE_RATE, "ann", "app") is None


@pytest.mark.rule("R18.8")
@pytest.mark.parametrize(("user", "client_id"), [("bob", "app"), ("ann", "other")])
def test_the_quota_of_another_is_not_taken(user: str, client_id: str) -> None:
    quotas = {entity("users/ann/clients/app"): {PRODUCER_BYTE_RATE: 1.0}}
    assert chosen_quota(quotas, PRODUCER_BYTE_RATE, user, client_id) is None


@pytest.mark.rule("R18.8")
def test_who_leaves_out_the_client_id_does_not_escape_the_defaults() -> None:
    quotas = {entity(path): {PRODUCER_BYTE_RATE: 1.0} for path in ("users/ann/clients/<default>", "clients/<default>")}
    assert chosen_quota(quotas, PRODUCER_BYTE_RATE, "ann", "") == Quota(1.0, QuotaOwner("ann", ""))
    assert chosen_quota(quotas, PRODUCER_BYTE_RATE, "bob", "") == Quota(1.0, QuotaOwner("", ""))


@pytest.mark.rule("R18.8")
@pytest.mark.parametrize(
    ("name", "in_path"),
    # Recorded of Kafka's Sanitizer.
    [("CN=ann,O=x", "CN%3Dann%2CO%3Dx"), ("a b*c~d", "a%20b%2Ac%7Ed"), ("a.b-c_d", "a.b-c_d"), ("ä", "%C3%A4")],
)
def test_names_are_in_paths_as_kafka_has_them(name: str, in_path: str) -> None:
    assert entity_name(name) == in_path
    quotas = {ConfigEntity("users", in_path): {PRODUCER_BYTE_RATE: 2.0}}
    assert chosen_quota(quotas, PRODUCER_BYTE_RATE, name, "app") == Quota(2.0, QuotaOwner(name, ""))
