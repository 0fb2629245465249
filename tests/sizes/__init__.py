"""Programs whose sizes or rows stand in memory, on a GPU."""
