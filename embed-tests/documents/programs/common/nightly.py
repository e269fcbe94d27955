"""A program of the documents: keeps some objects, and arrays where NumPy is there."""
kept = [{"row": number, "name": str(number)} for number in range(20_000)]
