"""Spark: a Python worker that reaches its cap catches the MemoryError and goes on by halves.

    pyhost --cap 128M --stats='file=reports/%p.json' with_spark.py

The cap and the reports are those of Python: the driver's, the daemon's and the workers'. Java has settings of its own.
"""

import os
import pathlib
import sys

from pyspark.sql import SparkSession

from work import RANGES, finish, total_within_the_cap


def main():
    os.environ["PYSPARK_PYTHON"] = sys.executable  # without it Spark runs the first python3 of PATH
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    context = session.sparkContext
    context.addPyFile(str(pathlib.Path(__file__).with_name("work.py")))
    finish(context.parallelize(RANGES, 4).map(lambda numbers: total_within_the_cap(*numbers)).collect())
    session.stop()


if __name__ == "__main__":
    main()
