"""The tutorials that need Spark run as they stand."""

import notebooks


def test_the_tutorial_from_mcap_to_spark_runs(spark):
    assert notebooks.run(notebooks.FOLDER / "mcap-to-spark.ipynb") == 4


def test_the_tutorial_from_a_bag_to_a_lakehouse_table_runs(spark):
    assert notebooks.run(notebooks.FOLDER / "bag-to-lakehouse.ipynb") == 4
