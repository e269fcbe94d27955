"""A program of the documents: keeps objects and arrays."""
import numpy

rows = [{"row": number, "name": str(number)} for number in range(20_000)]
array = numpy.ones(5_000_000)
