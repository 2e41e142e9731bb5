// Everything a program needs of firn::iceberg.
#pragma once

#include "iceberg/catalog/catalog.h"
#include "iceberg/commit/commit.h"
#include "iceberg/expr/expression.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/scan/scan.h"
#include "iceberg/write/append_writer.h"
