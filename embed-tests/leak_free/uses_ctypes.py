import ctypes
l = ctypes.CDLL(None)
print(l.abs(-3))
C = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
a = (ctypes.c_int * 5)(5, 1, 4, 2, 3)
l.qsort(a, 5, 4, C(lambda x, y: x[0] - y[0]))
print(list(a))

class S(ctypes.Structure):
    _fields_ = [('x', ctypes.c_int), ('p', ctypes.c_char_p)]
s = S(1, b'hi')
print(s.p)
