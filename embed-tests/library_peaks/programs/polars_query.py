import polars as pl

frame = pl.select((pl.int_range(0, 8_000_000) * 1.5).alias("a"), (pl.int_range(0, 8_000_000) % 1000).alias("b"))
means = frame.sort("a", descending=True).group_by("b").agg(pl.col("a").mean())
assert means.height == 1000
