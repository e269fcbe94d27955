"""NumPy's arrays, each written to."""

import numpy as np

from until_refused import until_refused

data = []
until_refused(lambda: data.append(np.ones(100_000)), data.clear)
