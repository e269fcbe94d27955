import inspect, ast, dis, tokenize, io, traceback, symtable
print(ast.dump(ast.parse('x=1+2'))[:20], inspect.signature(lambda a, b=1: 0))
dis.dis(lambda x: x + 1, file=io.StringIO())
list(tokenize.generate_tokens(io.StringIO('a=1').readline))
exec(compile('def f(): return 1', 'x', 'exec'))
try:
    1 / 0
except Exception:
    traceback.format_exc()
