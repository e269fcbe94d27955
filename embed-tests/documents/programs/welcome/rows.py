import json
text = json.dumps([[number] for number in range(1_000_000)])
kept = json.loads(text)
