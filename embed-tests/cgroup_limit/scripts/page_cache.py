"""Writes and reads files of twice the limit's size: page cache, which is no reason for any error."""

import os
import tempfile

from until_refused import finish

with tempfile.TemporaryFile(dir=os.environ["CGROUP_LIMIT_FILES"]) as file:
    for _ in range(2 * int(os.environ["CGROUP_LIMIT_MIB"])):
        file.write(bytes(1 << 20))
    file.seek(0)
    while file.read(1 << 20):
        pass
finish("page cache of twice the limit")
