"""Schemas are what Spark makes of them, to the letter."""

import pytest
from pyspark.sql.types import StructType

from zwire.spark import schema

SCHEMAS = ["DECODE", "GAP", "PUT", "REPLY", "SAMPLE", "SELECTED", "SUMMARY", "TOLD", "ZRE", "ZRE_LOG"]

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("name", SCHEMAS)
def test_arrow_spark_and_ddl_say_the_same(spark, as_arrow, name):
    rows = getattr(schema, name)
    assert rows.arrow().equals(as_arrow(rows.spark()), check_metadata=True)
    assert StructType.fromDDL(rows.ddl) == rows.spark()
    assert rows.names == tuple(rows.spark().names)
    assert spark.createDataFrame([], rows.ddl).schema == rows.spark()


def test_every_schema_is_tested():
    found = {name for name in schema.__all__ if isinstance(getattr(schema, name), schema.RowSchema)}
    assert found == set(SCHEMAS)
