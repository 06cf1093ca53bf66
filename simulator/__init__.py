"""A whole cluster in one process on virtual time; never imported by production code.

The real controllers and agents run on twins of what surrounds them: `virtual_time_loop`, `zookeeper` and its client,
`network`, `disk`. `nodes` starts, crashes and pauses them, `cluster` puts all together from one seed.
"""
