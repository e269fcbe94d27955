"""What an extension's tests may run into."""
import ctypes

api = ctypes.pythonapi
api.PyMem_Malloc.restype = ctypes.c_void_p
api.PyMem_Free.argtypes = (ctypes.c_void_p,)


def test_encode():
    # The extension frees its buffer on the way out, and once more
    # in its clean-up: here are the two calls.
    size = 40
    free = api.PyMem_Free
    buffer = api.PyMem_Malloc(size)
    free(buffer)
    free(buffer)


test_encode()
