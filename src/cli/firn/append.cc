// Parquet files' rows into a table.
#include <filesystem>

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>

#include "base/arrow_status.h"
#include "cli/firn/command.h"
#include "cli/firn/text_table.h"
#include "iceberg/commit/commit.h"
#include "iceberg/parquet/arrow_schema.h"
#include "iceberg/parquet/without_field_ids.h"
#include "iceberg/write/append_writer.h"

namespace firn::cli {
namespace {

using iceberg::LoadedTable;

std::shared_ptr<arrow::ArrayData> with_type(const arrow::ArrayData& data,
                                            const std::shared_ptr<arrow::DataType>& type) {
  const auto copy = std::make_shared<arrow::ArrayData>(data);
  copy->type = type;
  for (size_t i = 0; i < copy->child_data.size(); ++i) {
    copy->child_data[i] = with_type(*copy->child_data[i], type->field(static_cast<int>(i))->type());
  }
  return copy;
}

// The rows of one Parquet file, read batch by batch.
class ParquetRows {
 public:
  ParquetRows(FileIO& io, const std::string& path) : path_(path) {
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(io.open(path)), "open " + path);
    check(builder.memory_pool(arrow::default_memory_pool())->Build(&file_), "open " + path);
    rows_ = check(file_->GetRecordBatchReader(), "read " + path);
    // Field ids in a file that is to be appended are another table's: columns go by name.
    schema_ = iceberg::without_field_ids(*rows_->schema());
  }
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  std::shared_ptr<arrow::RecordBatch> next() {  // nullptr at the end
    std::shared_ptr<arrow::RecordBatch> batch;
    check(rows_->ReadNext(&batch), "read " + path_);
    if (!batch) return nullptr;
    arrow::ArrayVector columns;
    for (int i = 0; i < batch->num_columns(); ++i) {
      columns.push_back(arrow::MakeArray(with_type(*batch->column_data(i), schema_->field(i)->type())));
    }
    return arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(columns));
  }

 private:
  std::string path_;
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> rows_;
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

void append(const TableArgument& argument, const AppendArguments& arguments) {
  const auto table = open_table(argument);
  const std::shared_ptr<FileIO> io = make_local_file_io();
  std::vector<std::unique_ptr<ParquetRows>> inputs;
  for (const std::string& path : arguments.files) {
    inputs.push_back(std::make_unique<ParquetRows>(*io, std::filesystem::absolute(path).string()));
  }

  std::optional<iceberg::CommitId> commit_id;
  if (!arguments.commit_id.empty()) {
    commit_id = iceberg::CommitId{"firn.commit-id", arguments.commit_id, 0};
    // Before anything is written: an earlier run may have committed it.
    if (const auto landed = find_commit(*table->load().metadata, arguments.branch, *commit_id)) {
      print_text(
          fmt::format("snapshot {} has commit id {} already; nothing was appended\n", *landed, arguments.commit_id));
      return;
    }
  }
  // Columns are added by commits of their own, before the first file that needs them (P2).
  if (arguments.add_columns) {
    for (const auto& input : inputs) evolve_schema(*table, iceberg::from_arrow_schema(*input->schema()));
  }
  const LoadedTable base = table->load();
  iceberg::AppendWriter writer(table->io(), *base.metadata);
  int64_t num_rows = 0;
  for (const auto& input : inputs) {
    while (const auto batch = input->next()) {
      writer.write(batch);
      num_rows += batch->num_rows();
    }
  }
  iceberg::AppendCommit commit;
  commit.files = writer.finish();
  commit.written_schema = base.metadata->schema();
  commit.written_spec = base.metadata->spec();
  commit.branch = arguments.branch;
  commit.commit_id = commit_id;
  const size_t num_files = commit.files.size();
  const iceberg::CommitResult result = commit_append(*table, commit);
  if (result.recognised) {
    print_text(fmt::format("snapshot {} has commit id {} already; nothing was appended\n", result.snapshot_id,
                           arguments.commit_id));
  } else {
    print_text(fmt::format("appended {} rows in {} files as snapshot {}\n", num_rows, num_files, result.snapshot_id));
  }
}

}  // namespace firn::cli
