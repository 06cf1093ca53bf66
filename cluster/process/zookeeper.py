"""Creates a process's ZooKeeper client from its configuration."""

from cluster.config.config import LOGIN_FILE_KEY, NodeConfig, read_credentials
from cluster.metrics.registry import Metrics
from cluster.model.errors import ZooKeeperAuthenticationError, ZooKeeperUnreachableError
from cluster.tls.live import LiveMaterial
from cluster.zookeeper.kazoo_client import KazooZooKeeper


def zookeeper_client(config: NodeConfig, metrics: Metrics, tls: LiveMaterial | None = None) -> KazooZooKeeper:
    """Create the client. Raises ConfigError if the credentials cannot be read.

    `tls`: keys and certificates for ZooKeeper; None: without TLS.
    """
    settings = config.settings
    return KazooZooKeeper(
        config.zookeeper,
        session_timeout_ms=settings.zookeeper_session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms,
        max_in_flight=settings.zookeeper_max_in_flight_requests,
        metrics=metrics,
        credentials=read_credentials(settings),
        sets_acl=settings.zookeeper_set_acl,
        tls=tls,
    )


def why_no_session(config: NodeConfig, error: Exception) -> str:
    """Make the message for an operator when the first session could not be opened."""
    if isinstance(error, ZooKeeperUnreachableError):
        return f"ZooKeeper at {config.zookeeper} cannot be reached: {error}"
    if isinstance(error, ZooKeeperAuthenticationError):
        path = config.settings.java_security_auth_login_config
        return f'{error}: check settings."{LOGIN_FILE_KEY}" ({path}) and the users that ZooKeeper knows'
    return f"ZooKeeper at {config.zookeeper} cannot be used: {error}"
