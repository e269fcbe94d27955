# Names that the documents' fragments of Python use without defining them.
import unittest.mock

import numpy as np
import pyhost

pytest = unittest.mock.MagicMock()


def work():
    return [object() for _ in range(1000)]


def load():
    return [str(number) for number in range(1000)]


def check_that_nothing_is_broken():
    pass


before = pyhost.snapshot()
