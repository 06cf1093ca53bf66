"""Code shared by controller, agents, admin and audit; imports none of them.

Each folder is one subject. `model`, `requests` and `znodes` are pure values; `aio`, `config`, `metrics` and `cli` serve
every program; `zookeeper`, `kafka_wire` and `rpc` access the network; `process` is what a long-running program uses.
"""
