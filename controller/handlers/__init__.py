"""Event handlers of the active controller. Each runs four steps, in this order.

Decide (pure function), write to ZooKeeper (fenced, batched), apply what was acknowledged, send requests to brokers.
"""
