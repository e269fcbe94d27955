"""A program of the documents: keeps objects, and works for a while."""
import time

kept = [{"row": number, "name": str(number)} for number in range(20_000)]
time.sleep(4)
