import sys

import h5py
import numpy

with h5py.File(sys.argv[1] + "/data.h5", "w") as file:
    rows = numpy.random.default_rng(1).normal(size=(5_000_000, 6))
    file.create_dataset("rows", data=rows, chunks=(50_000, 6), compression="gzip", compression_opts=1)
    del rows
    half = file["rows"][:2_500_000]
    assert (half * 2).sum() != half.sum()
