"""The health of a controller process, for supervisors and load balancers."""

from cluster.metrics.health import Health
from controller.controller import Controller


def health_of(controller: Controller) -> Health:
    """Whether the candidate is active or could be elected."""
    if not controller.is_connected:
        return Health("no connection to ZooKeeper", is_healthy=False)
    if not controller.registered.is_set():
        return Health("not registered in ZooKeeper", is_healthy=False)
    if controller.is_active:
        return Health("active", is_healthy=True)
    return Health(f"standby that {controller.fitness.why}" if controller.fitness.why else "standby", is_healthy=True)
