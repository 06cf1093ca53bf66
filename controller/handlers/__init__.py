"""One event handler per subject: decide, write, apply, tell."""
