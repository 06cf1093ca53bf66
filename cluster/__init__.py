"""Code shared by controller, agents, admin and audit; imports none of them.

Modules at the top level are pure values; `zookeeper/` and `rpc/` access the network; `process/` is what every
long-running program uses.
"""
