"""Reads a CSV file of sales with pandas, joins, groups and fits it; needs NumPy and pandas.

    python sales.py [--rows N] FILE.csv

FILE.csv is written first if it is missing: 1,620,000 rows are 100 MB. Under `pyhost --lines` the table of lines shows
which steps hold the memory at the peak.
"""

import argparse
import os

import sales_lib


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_620_000, help="of a file that is missing (%(default)s)")
    parser.add_argument("file")
    options = parser.parse_args()
    if not os.path.exists(options.file):
        sales_lib.write_csv(options.file, options.rows)
    sales = sales_lib.read(options.file)
    labels = sales_lib.labels(sales)
    sales = sales_lib.joined(sales)
    customers = sales_lib.revenue_by_customer(sales)
    columns = sales_lib.features(sales)
    weights = sales_lib.ridge(columns, sales["price"].to_numpy())
    best = customers.nlargest(3, "revenue")
    print(f"{len(sales)} sales to {len(customers)} customers, {len(set(labels))} labels; most revenue: "
          f"{', '.join(best['customer'])}; {len(weights)} weights, the last {weights[-1]:.3f}")


if __name__ == "__main__":
    main()
