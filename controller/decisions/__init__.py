"""Pure rules of the controller: from values to values, without I/O, clock or randomness of their own.

`read_only_view` says which questions a rule may ask of the cluster. The rest is one file per subject, and every
result is a named frozen value: what to write, whom to tell, what failed and why.
"""
