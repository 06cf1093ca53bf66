"""Fixtures that several kinds of tests share: a real ZooKeeper, started once and only when a test asks."""

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from deploy.local.zookeeper import ServerSettings
from tests.documents.summary import DocumentSummary
from tests.durations import Durations
from tests.fuzz.summary import FuzzSummary
from tests.rule_coverage import RuleCoverage

# A short tick lets sessions be short, so that tests of expiry take a second and not four.
# Long ones are granted too: no test that does not ask for an expiry may meet one because the machine is busy.
TEST_SERVER = ServerSettings(tick_time_ms=200, min_session_timeout_ms=500, max_session_timeout_ms=60_000)

_chroots = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def _collect_garbage() -> Iterator[None]:
    """Descriptors of worlds in reference cycles do not add up: above 1,024 py4j's select() fails and Spark hangs."""
    yield
    gc.collect()


def pytest_collection_finish() -> None:
    """What there is now stays to the end, and is the most there ever is: later collections need not go through it."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    # Commands are written as they are typed, not as `./klamm test` was.
    os.environ.pop("_KLAMM_COMMAND", None)
    # No test may reach a cluster that whoever runs the tests works with.
    for name in ("KLAMM_BOOTSTRAP", "KLAMM_CLUSTER", "KLAMM_CONTEXT", "KLAMM_COMMAND_CONFIG"):
        os.environ.pop(name, None)
    os.environ["XDG_CONFIG_HOME"] = "/dev/null/none"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell makes what it runs in the background deaf to Ctrl-C, and so all processes that a test starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # What listens on this machine is not looked for behind a proxy, and output is alike at every terminal and service.
    os.environ.update(no_proxy="127.0.0.1,localhost", COLUMNS="80")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TERMINAL_WIDTH"):
        os.environ.pop(name, None)
    # Plain tracebacks, as the programs log them: structlog's default shows the values of all variables in frames, which
    # takes longer than most of what is tested.
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, renderer])
    # The same examples in every run, so that it fails for what was changed and nothing else; the deep suite looks
    # for new ones. A busy machine makes no example wrong.
    same = "not deep" in config.option.markexpr
    slow = [HealthCheck.too_slow]
    number = 40 if same else 100
    settings.register_profile("ours", derandomize=same, deadline=None, suppress_health_check=slow, max_examples=number)
    settings.load_profile("ours")
    config.pluginmanager.register(Durations(config))
    config.pluginmanager.register(RuleCoverage(config))
    config.pluginmanager.register(FuzzSummary())
    config.pluginmanager.register(DocumentSummary())


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A running server for the whole test session. Tests that kill or pause a server start one of their own."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), settings=TEST_SERVER) as server:
        yield server


@pytest.fixture
def zookeeper(zookeeper_server: EmbeddedZooKeeper) -> str:
    """Connect string with a chroot of its own: "host:port/test-7"."""
    return f"{zookeeper_server.address}/test-{next(_chroots)}"


@pytest.fixture
def own_zookeeper_server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A running server that the test may stop, kill, pause and start again."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", settings=TEST_SERVER).start()
    yield server
    server.stop()
