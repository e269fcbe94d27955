"""Allocates in functions whose names and files steer a terminal, forge a line of the host's, and turn the direction of writing."""

import types

NAME = "\x1b[31mRED\r\npyhost: a forged line\u202e"
GLOBALS = {"bytearray": bytearray, "MemoryError": MemoryError}


def named(source):
    space = {}
    exec(source, space)
    code = space["f"].__code__.replace(co_filename=NAME + ".py", co_name=NAME)
    return types.FunctionType(code, GLOBALS)


kept = named("def f():\n    return bytearray(30000000)\n")()
named("def f():\n    try: return bytearray(200000000)\n    except MemoryError: pass\n")()
