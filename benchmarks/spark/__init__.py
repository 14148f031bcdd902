"""The Spark job that sizes bundles, against DuckDB and Polars on the same recorded traffic."""
