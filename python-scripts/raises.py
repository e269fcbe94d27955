"""An exception that nobody catches: the traceback, status 1 and the report."""

print("before")
raise ValueError("nobody catches this")
