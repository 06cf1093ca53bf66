"""Who asks, and what they may do: principals, access control lists, and the decisions of Kafka's authorizer.

Everything here is pure: rules are read from znodes elsewhere, and handed in.
"""
