"""Sites of NumPy's arrays."""

import numpy
import numpy.random

from sites import site


@site
def a_large_array():
    return numpy.ones(150_000)


@site
def an_array_of_zeros():
    return numpy.zeros(60_000)


@site
def small_arrays():
    return [numpy.ones(40) for _ in range(800)]


@site
def tiny_arrays():
    return [numpy.zeros(1) for _ in range(3_000)]


@site
def an_expression():
    numbers = numpy.arange(30_000.0)
    return numbers * 2 + numbers


@site
def converted_arrays():
    return [numpy.arange(200).astype(numpy.float32) for _ in range(150)]


@site
def joined_arrays():
    return numpy.concatenate([numpy.zeros(1_000) for _ in range(60)])


@site
def views_of_an_array():
    whole = numpy.ones((200, 200))
    return [whole[number] for number in range(200)]


@site
def an_array_of_objects():
    kept = numpy.empty(3_000, dtype=object)
    for number in range(len(kept)):
        kept[number] = bytes(number % 100)
    return kept


@site
def a_picked_array():
    return numpy.arange(80_000)[numpy.arange(0, 80_000, 3)]


@site
def a_resized_array():
    kept = numpy.zeros(1_000)
    kept.resize(50_000, refcheck=False)
    return kept


@site
def random_numbers():
    return numpy.random.default_rng(1).random((300, 100))


@site(when="late")
def arrays_after_the_peak():
    return [numpy.ones(20_000) for _ in range(20)]
