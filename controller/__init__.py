"""The controller: elected through ZooKeeper, it decides, writes, applies and tells (ARCHITECTURE.md).

`program` makes the process, `controller` is the candidate in it. Requests come in through `node` and notifications
of ZooKeeper through `watched_znodes`; both only enqueue events, which `event_loop` takes one by one and `dispatch`
hands to a handler. A handler works on one `active_controller`: its `context` is the image of the cluster, its `store`
the fenced way to ZooKeeper, its `broker_channels` the way to the agents.
"""
