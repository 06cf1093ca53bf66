"""What controller, agents, admin and audit must agree on; imports none of them.

The plain files are the vocabulary (pure values); `zookeeper/` and `rpc/` are the wires; `process/` is what
every long-running program needs.
"""
