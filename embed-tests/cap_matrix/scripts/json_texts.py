"""JSON, pickles, copies, regular expressions and XML make more and more."""

from growing import need, run

[json, pickle, copy, re, ElementTree] = need("json", "pickle", "copy", "re", "xml.etree.ElementTree")

run("json_texts", [
    ("data = [1, 'two']", "data = json.loads(json.dumps([data, data]))"),
    ("data = []", "data.append(json.loads(json.dumps(list(range(n)))))"),
    ("data = []", "data.append(json.dumps({str(j): j for j in range(n)}))"),
    ("data = []", "data.append(pickle.loads(pickle.dumps({j: str(j) for j in range(n)})))"),
    ("data = []", "data.append(pickle.dumps(list(range(n))))"),
    ("data = []", "data.append(copy.deepcopy([{j: [j]} for j in range(n)]))"),
    ("data = []", "data.append(re.findall('[a-z]+', 'some words ' * n))"),
    ("data = []", "data.append(re.sub('s', lambda match: match.group() * 3, 'some words ' * n))"),
    ("data = []", "data.append(ElementTree.fromstring('<a>' + '<b c=\"d\">e</b>' * n + '</a>'))"),
], names={"json": json, "pickle": pickle, "copy": copy, "re": re, "ElementTree": ElementTree}, sizes=(48, 4000))
