"""Whole clusters in one process on virtual time, for `klamm simulate` and the tests; see `docs/simulator.md`.

The real controllers and agents run on in-memory counterparts of what they need: `virtual_time_loop`, `zookeeper` and
its client, `network`, `disk`. `nodes` starts, crashes and pauses them, `cluster` puts all together from one seed.
On top of these: `workload` and `faults` say what is done to a cluster; `convergence`, `replica_contents`,
`write_checker` and `replication_checker` what must hold; `cluster_simulation`, `replication_simulation` and
`topic_simulation` combine them; `draw` picks one for a seed, `run` runs it, and `command` is what a person sees.
Programs never import it.
"""
