import json
print(json.dumps({'a': [1, 2, {'b': None}]}), json.loads('[1,2,{"x":1.5}]'))
