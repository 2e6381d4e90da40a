"""From the winning rules to functions without reflection."""
