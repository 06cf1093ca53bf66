"""The authorizer of a process, if its settings name one: the rules, and the handler that applies them."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from cluster.aio.clock import SystemClock
from cluster.aio.tasks import TaskSet
from cluster.config.config import NodeConfig
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.errors import StartupError, ZooKeeperError
from cluster.process.zookeeper import why_no_session, zookeeper_client
from cluster.security.acls import Authorizer, RulesByPattern
from cluster.security.authorization import FixedRules
from cluster.security.principals import parse_super_users
from cluster.tls.live import LiveMaterial
from cluster.zookeeper.access_rules import AccessRules

_DOMAIN, _TYPE = "klamm.security", "Authorizer"


async def load_access_rules(
    config: NodeConfig, metrics: Metrics, tls: LiveMaterial | None, cleanup: AsyncExitStack
) -> AccessRules | None:
    """Read the rules, before a port opens, and follow them until `cleanup`; None if there is no authorizer.

    `tls`: of ZooKeeper. Raises StartupError if they cannot be read.
    """
    settings = config.settings
    if not settings.authorizer_class_name:
        return None
    # Its session is none of those that the metrics of ZooKeeper are about.
    zookeeper = zookeeper_client(config, Metrics(), tls)
    cleanup.push_async_callback(zookeeper.close)
    rules = AccessRules(zookeeper, SystemClock(), authorizer_maker(settings))
    metrics.readings(_DOMAIN, _TYPE, "RulesStaleMs", lambda: [({}, rules.stale_ms)])
    metrics.readings(_DOMAIN, _TYPE, "Rules", lambda: [({}, rules.count)])
    metrics.readings(_DOMAIN, _TYPE, "MalformedZnodes", lambda: [({}, len(rules.problems))])
    try:
        await rules.load()
    except ZooKeeperError as error:
        raise StartupError(f"access control lists: {why_no_session(config, error)}") from error
    tasks = await cleanup.enter_async_context(TaskSet())
    tasks.start(rules.run(), name="access control lists")
    return rules


def rules_for_super_users(config: NodeConfig) -> FixedRules | None:
    """The rules of a controller that answers brokers only, None for any other: the brokers have rules that klamm cannot
    read, so nobody may do anything but super users, whatever `allow.everyone.if.no.acl.found` says.
    """
    settings = config.settings
    if not settings.klamm_kafka_controller_only:
        return None
    return FixedRules(Authorizer({}, super_users=parse_super_users(settings.super_users)))


def authorizer_maker(settings: Settings) -> Callable[[RulesByPattern], Authorizer]:
    """The maker of the authorizer under these settings, from rules."""
    return partial(
        Authorizer,
        super_users=parse_super_users(settings.super_users),
        allow_unlisted=settings.allow_everyone_if_no_acl_found,
    )
