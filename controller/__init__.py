"""The controller service: elected through ZooKeeper, runs the partition and replica state machines (ARCHITECTURE.md).

`program` builds the process, `controller` is the candidate in it. Requests enter through `node`, ZooKeeper
notifications through `watched_znodes`; both only enqueue events. `event_loop` processes them one by one and `dispatch`
calls their handlers. A handler works on an `active_controller`: `context` is the cluster state in memory, `store`
writes to ZooKeeper, `broker_channels` sends requests to agents.
"""
