"""Prints the modules that a program finds imported under memray, without memray's own."""

import sys

print("\n".join(name for name in sys.modules if not name.startswith(("memray", "__main__"))))
