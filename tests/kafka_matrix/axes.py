"""The clusters of the matrix: what each is made of, and so many of them that every pair of values occurs in one.

Pure functions. What cannot be combined, or is in no published setting, is excluded for a reason that the table shows.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Final, NamedTuple

NO_MECHANISM, NO_AUTHORIZER, FOREIGN, OPEN = "no SASL", "no authorizer", "another authorizer", "open"
SUPER_USERS, ALLOW_UNLISTED = "AclAuthorizer, super users", "AclAuthorizer, allow everyone"
SIMPLE: Final = "SimpleAclAuthorizer"
MUTUAL: Final = "SSL, clients too"
SASL_OWNERS, TLS, TLS_OWNERS = "SASL, owners", "TLS", "TLS, owners"
APACHE, DN_PER_BROKER, CONFLUENT, STRIMZI, BITNAMI, MSK, INSIDE_OUTSIDE = (
    "Apache's docs",
    "a DN per broker",
    "Confluent",
    "Strimzi",
    "Bitnami",
    "MSK",
    "inside, outside, control plane",
)
GSSAPI, OAUTHBEARER, KERBEROS_OWNERS, CLOUDERA = "GSSAPI", "OAUTHBEARER", "Kerberos, owners", "Cloudera"
"""These are in `FURTHER` only: a value of every axis with each of them would need a center in most clusters."""
AT_LEAST: Final = 40


class Cluster(NamedTuple):
    """One value of each axis."""

    release: str
    security: str
    mechanism: str
    authorizer: str
    zookeeper: str
    shape: str

    @property
    def name(self) -> str:
        return " · ".join(self)

    @property
    def has_sasl(self) -> bool:
        """Whether brokers authenticate to one another by SASL."""
        return self.security.startswith("SASL")

    @property
    def owners(self) -> bool:
        """Whether znodes have owners (`zookeeper.set.acl`)."""
        return self.zookeeper in {SASL_OWNERS, TLS_OWNERS, KERBEROS_OWNERS}

    @property
    def zookeeper_tls(self) -> bool:
        return self.zookeeper in {TLS, TLS_OWNERS}

    @property
    def zookeeper_sasl(self) -> bool:
        return self.zookeeper in {"SASL", SASL_OWNERS}

    @property
    def zookeeper_kerberos(self) -> bool:
        return self.zookeeper == KERBEROS_OWNERS

    @property
    def needs_kdc(self) -> bool:
        """Whether anybody in it has tickets."""
        return self.mechanism == GSSAPI or self.zookeeper_kerberos


AXES: Final[Mapping[str, Sequence[str]]] = {
    "release": ("2.4.1", "2.8.2", "3.3.2", "3.9.1"),
    "security": ("PLAINTEXT", "SSL", MUTUAL, "SASL_PLAINTEXT", "SASL_SSL"),
    "mechanism": (NO_MECHANISM, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "authorizer": (NO_AUTHORIZER, SUPER_USERS, ALLOW_UNLISTED, SIMPLE, FOREIGN),
    "zookeeper": (OPEN, "SASL", SASL_OWNERS, TLS, TLS_OWNERS),
    "shape": (APACHE, DN_PER_BROKER, CONFLUENT, STRIMZI, BITNAMI, MSK, INSIDE_OUTSIDE),
}
FURTHER: Final = (
    Cluster("2.4.1", "SASL_PLAINTEXT", GSSAPI, NO_AUTHORIZER, OPEN, APACHE),
    Cluster("2.4.1", "SASL_SSL", GSSAPI, FOREIGN, KERBEROS_OWNERS, CLOUDERA),
    Cluster("2.8.2", "SASL_PLAINTEXT", GSSAPI, SUPER_USERS, KERBEROS_OWNERS, CONFLUENT),
    Cluster("3.3.2", "SASL_SSL", GSSAPI, SUPER_USERS, TLS_OWNERS, INSIDE_OUTSIDE),
    Cluster("3.9.1", "SASL_SSL", GSSAPI, FOREIGN, KERBEROS_OWNERS, CLOUDERA),
    Cluster("3.9.1", "SASL_SSL", GSSAPI, ALLOW_UNLISTED, OPEN, APACHE),
    Cluster("3.3.2", "SASL_PLAINTEXT", OAUTHBEARER, SUPER_USERS, SASL_OWNERS, INSIDE_OUTSIDE),
    Cluster("3.9.1", "SASL_SSL", OAUTHBEARER, SUPER_USERS, TLS_OWNERS, APACHE),
    Cluster("3.9.1", "SASL_SSL", OAUTHBEARER, FOREIGN, OPEN, CONFLUENT),
)
"""Clusters with Kerberos, with tokens, and as Cloudera has them: Ranger, one JAAS file for listeners and ZooKeeper."""
WITH_LISTENERS_FOR_CLIENTS: Final = (STRIMZI, MSK, INSIDE_OUTSIDE)
"""Shapes whose clients have a listener with other security than that between brokers."""


class Exclusion(NamedTuple):
    """Clusters that are not made, and why."""

    reason: str
    excludes: Callable[[Cluster], bool]


EXCLUSIONS: Final = (
    Exclusion(
        "2.4.1 with TLS to ZooKeeper: brokers have settings for that from 2.5 on (KIP-515)",
        lambda c: c.release == "2.4.1" and c.zookeeper_tls,
    ),
    Exclusion(
        "SimpleAclAuthorizer with later releases: it is deprecated from 2.4 on, and gone in 3.0",
        lambda c: c.authorizer == SIMPLE and c.release != "2.4.1",
    ),
    Exclusion(
        "SASL between brokers without a mechanism: there is none", lambda c: c.has_sasl and c.mechanism == NO_MECHANISM
    ),
    Exclusion(
        "a mechanism without SASL between brokers, in shapes whose clients have no listener of another protocol",
        lambda c: c.mechanism != NO_MECHANISM and not c.has_sasl and c.shape not in WITH_LISTENERS_FOR_CLIENTS,
    ),
    Exclusion(
        "Strimzi without certificates of both sides between brokers: it always has them",
        lambda c: c.shape == STRIMZI and c.security != MUTUAL,
    ),
    Exclusion(
        "MSK with anything between brokers but PLAINTEXT or certificates of both sides: it has nothing else",
        lambda c: c.shape == MSK and c.security not in {"PLAINTEXT", MUTUAL},
    ),
    Exclusion(
        "MSK with another mechanism than SCRAM-SHA-512: it has that, and AWS_MSK_IAM, which klamm refuses",
        lambda c: c.shape == MSK and c.mechanism not in {NO_MECHANISM, "SCRAM-SHA-512"},
    ),
    Exclusion(
        "MSK with another authorizer than AclAuthorizer with allow.everyone.if.no.acl.found: it has no other",
        lambda c: c.shape == MSK and c.authorizer != ALLOW_UNLISTED,
    ),
    Exclusion("MSK with users in ZooKeeper: it has none there", lambda c: c.shape == MSK and c.zookeeper_sasl),
    Exclusion(
        "a distinguished name for each broker without certificates of both sides between brokers",
        lambda c: c.shape == DN_PER_BROKER and c.security != MUTUAL,
    ),
)


def why_excluded(cluster: Cluster) -> str | None:
    """The first reason why there is no such cluster."""
    return next((one.reason for one in EXCLUSIONS if one.excludes(cluster)), None)


Pair = tuple[tuple[str, str], tuple[str, str]]


def pairs_of(cluster: Cluster) -> Iterator[Pair]:
    yield from combinations(zip(AXES, cluster, strict=True), 2)


def all_clusters() -> Iterator[Cluster]:
    """Every combination, those that are excluded among them."""
    return (Cluster(*values) for values in product(*AXES.values()))


def impossible_pairs() -> dict[Pair, str]:
    """Pairs of values that are in no cluster -> why: the reason that excludes most of the clusters with the pair."""
    reasons: dict[Pair, Counter[str]] = {}
    possible: set[Pair] = set()
    for cluster in all_clusters():
        why = why_excluded(cluster)
        if why is None:
            possible.update(pairs_of(cluster))
            continue
        for pair in pairs_of(cluster):
            reasons.setdefault(pair, Counter())[why] += 1
    return {pair: found.most_common(1)[0][0] for pair, found in reasons.items() if pair not in possible}


def clusters(at_least: int = AT_LEAST) -> list[Cluster]:
    """Choose clusters by which every possible pair is in one: each time that with most pairs that are in none yet.

    Where that is fewer than `at_least`, more are added, with the pairs that occur least.
    """
    possible = [cluster for cluster in all_clusters() if why_excluded(cluster) is None]
    number: dict[Pair, int] = {}
    masks = [sum(1 << number.setdefault(pair, len(number)) for pair in pairs_of(one)) for one in possible]
    chosen: list[int] = []
    missing = (1 << len(number)) - 1
    while missing:
        best = max(range(len(masks)), key=lambda position: ((masks[position] & missing).bit_count(), -position))
        chosen.append(best)
        missing &= ~masks[best]
    while len(chosen) < at_least:
        chosen.append(_rarest(possible, chosen))
    return [possible[position] for position in chosen]


def _rarest(possible: Sequence[Cluster], chosen: Sequence[int]) -> int:
    """Whose pairs occur least among those chosen."""
    seen = Counter(pair for position in chosen for pair in pairs_of(possible[position]))
    left = (position for position in range(len(possible)) if position not in chosen)
    return min(left, key=lambda position: (sum(seen[pair] for pair in pairs_of(possible[position])), position))
