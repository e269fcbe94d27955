"""Prints the allocations of a memray file at its highest moment, as JSON: bytes, blocks, whether it is a map, and the stack.

    python read_peak.py FILE.bin

Runs under the Python that memray is installed for.
"""

import json
import sys

from memray import AllocatorType, FileReader

MAPS = (AllocatorType.MMAP, AllocatorType.MUNMAP)

with FileReader(sys.argv[1]) as reader:
    records = [{"bytes": record.size, "blocks": record.n_allocations, "is_map": record.allocator in MAPS,
                "stack": [{"function": function, "file": file, "line": line}
                          for function, file, line in record.stack_trace()]}
               for record in reader.get_high_watermark_allocation_records(merge_threads=True)]
    json.dump({"peak_bytes": reader.metadata.peak_memory, "records": records}, sys.stdout)
