"""One module a table or a few related ones; each has ``cases()``."""
