"""Eight threads that keep lists, texts and dictionaries, and live when the script ends; argv[1] is a size of stacks."""
import sys
import threading

if len(sys.argv) > 1:
    threading.stack_size(int(sys.argv[1]))
ready = threading.Barrier(9)
kept = []


def deep(levels):
    return 1 + deep(levels - 1) if levels else 0


def work(number):
    mine = [{"key": str(index), "value": [index] * 10} for index in range(3000)]
    texts = [("%d " % index) * 50 for index in range(2000)]
    for _ in range(20):
        mine.sort(key=lambda item: item["key"])
        texts = [text[1:] + text[:1] for text in texts]
    deep(300)
    kept.append((mine, texts))
    ready.wait()
    threading.Event().wait()


for number in range(8):
    threading.Thread(target=work, args=(number,), daemon=True).start()
ready.wait()
