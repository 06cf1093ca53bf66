"""The active controller's in-memory state of the cluster: parts side by side, composed by `controller_context`.

Each part holds one subject, and has `apply(change)`, for the kinds of change in its union of `controller.changes`, and
`copy_to(copy, topics)`, which fills a part of a new context. Parts read one another, but none writes another's state.
Source: the control managers of KRaft's QuorumController.
"""
