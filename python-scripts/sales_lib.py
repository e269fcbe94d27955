"""The steps of sales.py: a table of sales from a CSV file, joined, grouped, and fitted."""

import random

import numpy as np
import pandas as pd

REGIONS = ("north", "east", "south", "west")
PRODUCTS = 400


def write_csv(path, rows, seed=1):
    """Writes the same sales for the same seed: about 64 bytes a row."""
    draw = random.Random(seed)
    with open(path, "w", encoding="ascii") as file:
        file.write("sale,day,region,customer,product,pieces,price,note\n")
        for first in range(0, rows, 20_000):
            file.write("".join(one_row(draw, number) for number in range(first, min(rows, first + 20_000))))


def one_row(draw, number):
    drawn = draw.getrandbits(62)
    return (f"{number},2025-{drawn % 12 + 1:02}-{drawn % 28 + 1:02},{REGIONS[drawn % 4]},customer {drawn % 90_001},"
            f"{drawn % PRODUCTS},{drawn % 9 + 1},{drawn % 9_973 / 100},note {drawn % 1_000_003}\n")


def read(path):
    # As an open file: a path is read by threads, in which no line of this file runs.
    with open(path, encoding="ascii") as file:
        return pd.read_csv(file)


def products():
    numbers = np.arange(PRODUCTS)
    return pd.DataFrame({"product": numbers, "weight": numbers % 7 + 0.5, "kind": [f"kind {n % 12}" for n in numbers]})


def labels(sales):
    """Returns a text for each sale: the strings that stay, and that a profile of objects cannot place."""
    return [f"{region}/{product}" for region, product in zip(sales["region"], sales["product"])]


def joined(sales):
    return sales.merge(products(), on="product", how="left")


def revenue_by_customer(sales):
    sales = sales.assign(revenue=sales["pieces"] * sales["price"])
    return sales.groupby("customer", as_index=False).agg(revenue=("revenue", "sum"), sales=("sale", "count"))


def features(sales):
    """Returns the columns of the fit, as numbers."""
    kinds = pd.get_dummies(sales[["region", "kind"]], dtype=float)
    return np.column_stack([kinds.to_numpy(), sales["weight"].to_numpy(), np.ones(len(sales))])


def ridge(columns, target, strength=1.0):
    """Returns the weights of the columns, by the normal equations."""
    square = columns.T @ columns
    square[np.diag_indices_from(square)] += strength
    return np.linalg.solve(square, columns.T @ target)
