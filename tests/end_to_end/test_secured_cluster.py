"""`klamm up --secure`: every port under TLS, and certificates are replaced while records flow."""

from collections.abc import Iterator

import pytest

from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("secured")
    started = LocalCluster.create_or_open(folder, controllers=2, brokers=2, is_secured=True)
    try:
        started.start_all()
        wait_until_serving(started, TIMEOUT_S * 4)
        yield started
    finally:
        started.stop_all()
