"""A process's client of ZooKeeper, made from its configuration."""

from cluster.errors import ZooKeeperAuthenticationError, ZooKeeperUnreachableError
from cluster.process.config import NodeConfig
from cluster.process.credentials import LOGIN_FILE_KEY, read_credentials
from cluster.process.metrics import Metrics
from cluster.zookeeper.kazoo_client import KazooZooKeeper


def zookeeper_client(config: NodeConfig, metrics: Metrics) -> KazooZooKeeper:
    """Raises ConfigError when the credentials cannot be read."""
    settings = config.settings
    return KazooZooKeeper(
        config.zookeeper,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
        max_in_flight=settings.zookeeper_max_in_flight_requests,
        metrics=metrics,
        credentials=read_credentials(settings),
        sets_acl=settings.zookeeper_set_acl,
    )


def why_no_session(config: NodeConfig, error: Exception) -> str:
    """What an operator is told of a first session that did not come about."""
    if isinstance(error, ZooKeeperUnreachableError):
        return f"ZooKeeper at {config.zookeeper} cannot be reached: {error}"
    if isinstance(error, ZooKeeperAuthenticationError):
        path = config.settings.java_security_auth_login_config
        return f'{error}: check settings."{LOGIN_FILE_KEY}" ({path}) and the users that ZooKeeper knows'
    return f"ZooKeeper at {config.zookeeper} cannot be used: {error}"
