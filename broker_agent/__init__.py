"""The broker agent: hosts partition replicas on disk, controlled by the controller (ARCHITECTURE.md).

`program` builds the process, `agent` starts and stops its parts. Requests enter through `node`: those of the controller
go to `requests.control`, which lets `role_changes` carry them out; data requests of clients and followers go to the
module of each kind. `replica_manager` holds every `hosted_partition`, and its `commit` takes each of `replica_changes`;
`replica_fetchers` copy from leaders; `isr_proposals` is the port through which ISR changes are written, by the
controller or by the leader itself. Pure decisions are in `decisions/`, files in `log/`.
"""
