"""Some clusters of the matrix: one of each release, with as much of security as it has. All of them run by
`python -m tests.kafka_matrix`.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.kafka_matrix import axes
from tests.kafka_matrix.axes import Cluster
from tests.kafka_matrix.stand import stand
from tests.kafka_matrix.trial import Trial

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

SELECTED: Final = (
    Cluster("2.4.1", "SASL_SSL", "SCRAM-SHA-512", axes.SIMPLE, axes.SASL_OWNERS, axes.BITNAMI),
    Cluster("2.8.2", "SASL_PLAINTEXT", "PLAIN", axes.FOREIGN, axes.TLS, axes.CONFLUENT),
    Cluster("3.3.2", axes.MUTUAL, axes.NO_MECHANISM, axes.SUPER_USERS, axes.TLS_OWNERS, axes.DN_PER_BROKER),
    Cluster("3.9.1", axes.MUTUAL, "SCRAM-SHA-512", axes.SUPER_USERS, axes.TLS_OWNERS, axes.STRIMZI),
)


@pytest.mark.rule("D-83", "D-115", "D-116", "D-118")
@pytest.mark.parametrize("cluster", SELECTED, ids=lambda cluster: cluster.name)
def test_a_secured_cluster_is_adopted_governed_and_left(cluster: Cluster, tmp_path: Path) -> None:
    assert axes.why_excluded(cluster) is None
    with stand(cluster, tmp_path) as made:
        Trial(made).run()
