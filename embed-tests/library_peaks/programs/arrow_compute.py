import numpy
import pyarrow
import pyarrow.compute as compute

numbers = pyarrow.array(numpy.arange(10_000_000) * 1.5)
products = compute.multiply(numbers, 2.0)
order = compute.sort_indices(compute.add(products, numbers))
assert len(compute.take(products, order)) == 10_000_000
