"""Full, failed and returning log directories, damaged logs, and the reports of them to the active controller."""
