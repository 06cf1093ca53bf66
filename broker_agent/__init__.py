"""The broker agent: hosts partition replicas on disk and obeys the controller (ARCHITECTURE.md).

`program` makes the process, `agent` its parts, their start and their end. Requests come in through `node`: the
controller's orders go to `control_requests`, which has `role_changes` carry them out; the data of clients and
followers goes to the `…_requests` of each kind. `replica_manager` knows every `hosted_partition`; `replica_fetchers`
copy from leaders; `isr_proposals` tells the controller. What is decided is in `decisions/`, files are in `log/`.
"""
