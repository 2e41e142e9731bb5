// A filtered scan of written tables gives the rows that the filter is true for, pruned or not: files of older schemas
// (promoted, missing and renamed columns) and other partition specs, metrics cut short, left out or absent, several row
// groups and pages, bloom filters, Parquet and partition tuples of old writers.
#include <gtest/gtest.h>

#include "iceberg/expr/random_rows.h"
#include "iceberg/parquet/file_writer.h"
#include "iceberg/scan/test_table.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

constexpr int32_t kNumberId = 19;

// test_schema() and a number for each row of the table.
const Schema& table_schema() {
  static const Schema kSchema = [] {
    std::vector<Field> fields = test_schema().fields();
    fields.push_back({.id = kNumberId, .name = "n", .type = prim(TypeId::long_)});
    return Schema(std::move(fields));
  }();
  return kSchema;
}

// A type that a column may have had before.
TypePtr older_type(Generator& g, const Type& type) {
  switch (type.id()) {
    case TypeId::long_:
      return prim(TypeId::int_);
    case TypeId::double_:
      return prim(TypeId::float_);
    case TypeId::decimal:
      return Type::decimal(g.any<int32_t>({4, 9}), type.scale());
    case TypeId::timestamp:
    case TypeId::timestamp_ns:
      return prim(TypeId::date);
    default:
      return nullptr;
  }
}

// The schema that a file was written with: some columns not yet there, of another name, or of a narrower type.
Schema older_schema(Generator& g) {
  std::vector<Field> fields;
  for (Field field : table_schema().fields()) {
    if (field.id != kNumberId && g.one_in(6)) continue;
    if (g.one_in(5)) field.name += "_old";
    if (field.id != kNumberId && g.one_in(3)) {
      if (const TypePtr narrower = older_type(g, *field.type)) field.type = narrower;
    }
    if (field.id == 16 && g.one_in(4)) {  // a struct with one of its members
      const Field kept = field.type->fields()[g.below(2)];
      field.type = Type::struct_of({kept});
    }
    fields.push_back(std::move(field));
  }
  return Schema(std::move(fields));
}

Value value_of(Generator& g, const Type& type) {
  if (type.id() == TypeId::decimal && type.precision() == 4)
    return arrow::Decimal128(g.any<int64_t>({-9999, 0, 50, 51, 128, 9999}));
  if (type.id() == TypeId::date) return static_cast<int32_t>(g.any<int64_t>({-1, 0, 1, -366, 365, 20'000}));
  return g.value(type);
}

Cell cell_like(Generator& g, const Type& type) {
  Cell cell;
  cell.null = g.one_in(6);
  if (type.id() == TypeId::struct_) {
    for (const Field& member : type.fields()) cell.members.push_back(cell_like(g, *member.type));
  } else if (!cell.null) {
    cell.value = value_of(g, type);
  }
  return cell;
}

// A row of a file as a row of the table; what the file lacks is null.
Cell read_cell(const Cell& cell, const Type& from, const Type& to) {
  Cell read;
  read.null = cell.null;
  if (to.id() == TypeId::struct_) {
    for (const Field& member : to.fields()) {
      const auto& had = from.fields();
      const auto same = std::find_if(had.begin(), had.end(), [&](const Field& f) { return f.id == member.id; });
      read.members.push_back(
          same == had.end() || cell.null
              ? Cell()
              : read_cell(cell.members.at(static_cast<size_t>(same - had.begin())), *same->type, *member.type));
    }
  } else if (!cell.null) {
    read.value = *promote(cell.value, from, to);
  }
  return read;
}

Row read_row(const Row& row, const Schema& from) {
  Row read;
  for (const Field& field : table_schema().fields()) {
    const auto& had = from.fields();
    const auto same = std::find_if(had.begin(), had.end(), [&](const Field& f) { return f.id == field.id; });
    read.push_back(same == had.end()
                       ? Cell()
                       : read_cell(row.at(static_cast<size_t>(same - had.begin())), *same->type, *field.type));
  }
  return read;
}

ParquetWriteOptions random_write_options(Generator& g) {
  ParquetWriteOptions options;
  options.use_threads = false;
  options.page_row_limit = g.any<int64_t>({2, 5, 1000});
  options.default_metrics_mode = g.any<std::string>({"truncate(1)", "truncate(2)", "full", "counts", "none"});
  for (const int32_t id : leaf_ids()) {
    if (g.one_in(3)) options.bloom_filters[id] = {};
    if (g.one_in(5)) options.statistics[id] = false;
    if (g.one_in(5)) options.metrics_modes[id] = g.any<std::string>({"truncate(3)", "full", "none"});
  }
  return options;
}

void forget_some_metrics(Generator& g, DataFile& file) {
  for (const int32_t id : leaf_ids()) {
    if (g.one_in(10)) file.value_counts.erase(id);
    if (g.one_in(10)) file.null_value_counts.erase(id);
    if (g.one_in(4)) file.nan_value_counts.erase(id);
    if (g.one_in(10)) file.lower_bounds.erase(id);
    if (g.one_in(10)) file.upper_bounds.erase(id);
  }
}

bool is_unknown(const PartitionField& field) { return field.transform.kind == TransformKind::unknown; }

class RandomTable {
 public:
  explicit RandomTable(Generator& g) : table_(table_schema(), 3) {
    TableMetadata& metadata = table_.metadata();
    metadata.schemas = {table_schema()};
    metadata.current_schema_id = 0;
    metadata.last_column_id = kNumberId;
    for (uint64_t i = g.below(3); i > 0; --i) {
      PartitionSpec spec = random_spec(g);
      while (std::any_of(spec.fields.begin(), spec.fields.end(), is_unknown)) spec = random_spec(g);  // not for writers
      spec.spec_id = static_cast<int32_t>(metadata.partition_specs.size());
      metadata.partition_specs.push_back(spec);
    }
    for (int commit = 0; commit < 2; ++commit) {
      std::vector<DataFile> files;
      for (uint64_t i = 1 + g.below(3); i > 0; --i) files.push_back(add_file(g));
      table_.commit(files);
    }
  }

  // The numbers of the rows, in order.
  std::vector<int64_t> numbers(const ScanOptions& options) {
    std::vector<int64_t> out;
    const auto reader = scan(table_.metadata(), table_.io(), options);
    std::shared_ptr<arrow::RecordBatch> batch;
    while (reader->ReadNext(&batch).ok() && batch) {
      EXPECT_TRUE(batch->ValidateFull().ok()) << batch->ValidateFull().ToString();
      const auto& column = static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("n"));
      for (int64_t row = 0; row < batch->num_rows(); ++row) out.push_back(column.Value(row));
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  std::vector<int64_t> expected(const Expression& filter) const {
    std::vector<int64_t> out;
    for (const Row& row : rows_) {
      if (truth(filter, row) == Truth::yes) out.push_back(std::get<int64_t>(row.back().value));
    }
    return out;
  }

 private:
  DataFile add_file(Generator& g) {
    const Schema stored = older_schema(g);
    const PartitionSpec& spec = g.any(table_.metadata().partition_specs);
    std::vector<Row> rows;
    for (uint64_t i = 1 + g.below(30); i > 0; --i) {
      Row row;
      for (const Field& field : stored.fields()) row.push_back(cell_like(g, *field.type));
      // One partition: what it comes from is alike in all rows. A struct is one column.
      for (size_t column = 0; column < row.size() && !rows.empty(); ++column) {
        for (const int32_t id : source_ids(spec)) {
          const int32_t of_struct = id == 17 || id == 18 ? 16 : id;
          if (stored.fields()[column].id == of_struct) row[column] = rows[0][column];
        }
      }
      row.back() = Cell::of(static_cast<int64_t>(rows_.size() + rows.size()));
      rows.push_back(std::move(row));
    }
    ParquetFileWriter writer(*table_.io(), table_.path("f" + std::to_string(files_++) + ".parquet"), stored,
                             random_write_options(g));
    const auto batch = conform(to_batch(stored, rows), stored);
    for (int64_t at = 0; at < batch->num_rows();) {
      const int64_t size = std::min<int64_t>(batch->num_rows() - at, 1 + static_cast<int64_t>(g.below(20)));
      writer.write(*batch->Slice(at, size));
      writer.end_row_group();
      at += size;
    }
    DataFile file = writer.close();
    forget_some_metrics(g, file);
    file.partition_spec_id = spec.spec_id;
    for (const Row& row : rows) rows_.push_back(read_row(row, stored));
    const Row& first = rows_[rows_.size() - rows.size()];
    file.partition = tuple_of(spec, first, /*old_java=*/g.one_in(4));
    return file;
  }

  TestTable table_;
  std::vector<Row> rows_;  // of the whole table, as its schema has them
  int files_ = 0;
};

TEST(ScanProperty, PrunedOrNotAScanHasTheRowsThatTheFilterIsTrueFor) {
  ReadCounters counters;
  int matches = 0;
  const uint64_t seed = test_seed();
  for (uint64_t round = 0; round < 15 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed + round));
    Generator g(seed + round);
    RandomTable table(g);
    for (int query = 0; query < 25 && !testing::Test::HasFailure(); ++query) {
      ScanOptions options;
      options.filter = g.tree(static_cast<int>(g.below(3)), leaf_ids());
      SCOPED_TRACE(to_string(*options.filter));
      options.columns = {"n"};
      if (g.one_in(3)) options.columns.push_back("st");  // nested: whole row groups
      if (g.one_in(3)) options.columns.push_back("s");
      options.batch_rows_max = 1 + static_cast<int64_t>(g.below(20));
      options.threads = 1 + static_cast<int>(g.below(2));
      options.counters = &counters;
      const std::vector<int64_t> expected = table.expected(*options.filter);
      matches += static_cast<int>(expected.size());
      EXPECT_EQ(table.numbers(options), expected) << "pruned";
      options.prune = false;
      options.counters = nullptr;
      EXPECT_EQ(table.numbers(options), expected) << "unpruned";
    }
  }
  // It proves something only if every rule had its say.
  EXPECT_GT(matches, 300);
  EXPECT_GT(counters.manifests_skipped, 0);
  EXPECT_GT(counters.files_pruned, 30);
  EXPECT_GT(counters.row_groups_pruned, 30);
  EXPECT_GT(counters.row_groups_pruned_by_bloom, 2);
  EXPECT_GT(counters.pages_pruned, 30);
}

}  // namespace
}  // namespace firn::iceberg
