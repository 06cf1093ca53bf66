"""A broker's membership of its cluster: session, registration, the active controller, controlled shutdown."""
