"""A program of the documents: keeps objects."""
kept = [{"row": number, "name": str(number)} for number in range(20_000)]
