import re
print(re.sub('(\\w+)-(\\d+)', lambda m: m[2] + m[1], 'ab-12 cd-34'), re.compile('[a-z]+|(?P<x>\\d)').findall('a1b2'))
