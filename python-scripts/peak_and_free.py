"""A peak that is over when the script ends: `obj` must show about 80 MB more peak than live."""

numbers = [str(number) for number in range(1_000_000)]
print(len(numbers), "strings")
del numbers
print("freed")
