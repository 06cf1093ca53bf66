"""What the controller does about each event: functions over the reign, in four beats.

Decide (pure), write (fenced, batched), apply (only what was acknowledged), tell (never before it is durable).
"""
