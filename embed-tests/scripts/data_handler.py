"""Finds NumPy's default data handler (NEP 49), for scripts that call it from C."""
import ctypes
import sys


def handler():
    """The address of the handler that NumPy's default capsule holds (slot 306 of its table)."""
    extension = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get_pointer(extension._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    capsule = ctypes.cast(table[306], ctypes.POINTER(ctypes.py_object))[0]
    return get_pointer(capsule, b"mem_handler")
