// What verify finds: nothing in tables that keep the specification, and each of many planted corruptions.
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/conformance_tables.h"
#include "iceberg/inspect/verify.h"
#include "iceberg/maintain/real_table.h"
#include "iceberg/metadata/changes.h"
#include "iceberg/puffin/puffin.h"

namespace firn::iceberg {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

VerifyOptions everything() {
  VerifyOptions options;
  options.strict = options.check_data = options.all_snapshots = true;
  options.threads = 2;
  return options;
}

std::vector<std::string> texts(const std::vector<Finding>& findings) {
  std::vector<std::string> result;
  for (const Finding& finding : findings)
    result.push_back(
        fmt::format("{} {} {}: {}", to_string(finding.severity), finding.code, finding.object, finding.message));
  return result;
}

std::set<std::string> codes(const std::vector<Finding>& findings) {
  std::set<std::string> result;
  for (const Finding& finding : findings) {
    result.insert(finding.code);
    EXPECT_TRUE(std::any_of(verify_codes().begin(), verify_codes().end(),
                            [&](const VerifyCode& code) { return code.code == finding.code; }))
        << finding.code << " is not listed";
  }
  return result;
}

constexpr std::string_view kCount = "\xD8\x04";  // 300, as a footer writes it

// A table with several of everything, whose files can be changed behind its back. v3 has deletion vectors, v2 position
// deletes; both equality deletes.
class Patient {
 public:
  explicit Patient(int version) : table({.version = version, .partition = {{"p"}}}) {
    table.append(R"([{"id": 1, "p": "a", "text": "x"}, {"id": 2, "p": "a", "text": null}, {"id": 3, "p": "b"}])");
    table.append_ids({4, 5}, "a");
    table.delete_positions({{first_file().file_path, {1}}});
    table.delete_ids({3}, "b");
    table.append_ids({6}, "b");
    table.change([&](TableMetadata& next) {
      return set_tag(next, "v1", {.snapshot_id = next.snapshots[1].snapshot_id}, now_ms());
    });
    metadata = *table.metadata();
  }

  DataFile first_file() { return table.data_files()[0]; }
  const Snapshot& head() { return metadata.snapshots.back(); }
  void edit_snapshot(size_t index, const std::function<void(Snapshot&)>& edit) {
    Snapshot edited = metadata.snapshots[index];
    edit(edited);
    metadata.snapshots.replace(index, edited);
  }
  void edit_head(const std::function<void(Snapshot&)>& edit) { edit_snapshot(metadata.snapshots.size() - 1, edit); }
  std::vector<Finding> verify() { return iceberg::verify(metadata, table.io, everything()); }

  std::vector<ManifestFile> manifests() { return read_manifest_list(table.io->read(head().manifest_list), "list"); }
  void write_list(std::vector<ManifestFile> manifests) {
    table.io->replace(head().manifest_list,
                      write_manifest_list(manifests, head(), metadata.format_version, metadata.next_row_id));
  }
  void edit_list(const std::function<void(std::vector<ManifestFile>&)>& edit) {
    auto list = manifests();
    edit(list);
    write_list(std::move(list));
  }
  // A file of 300 rows more, whose kCount that stands at `find(bytes)` becomes 172.
  void append_and_spoil_count(const std::function<size_t(const std::string& bytes)>& find) {
    std::vector<int64_t> ids(300);
    std::iota(ids.begin(), ids.end(), 100);
    table.append_ids(ids, "z");
    metadata = *table.metadata();
    const std::string path = table.data_files().back().file_path;
    std::string bytes = table.io->read(path);
    table.io->replace(path, bytes.replace(find(bytes), kCount.size(), "\xD8\x02"));
  }
  // Entries of the first manifest of `content` with a live file of `file_content`, written anew with what the list says
  // of them. True from `edit`: this was it.
  void edit_entry(FileContent file_content, const std::function<void(ManifestEntry&)>& edit) {
    auto list = manifests();
    for (ManifestFile& manifest : list) {
      auto entries = read_manifest(table.io->read(manifest.manifest_path), manifest,
                                   metadata.spec(manifest.partition_spec_id), metadata.schema(), false);
      const auto entry = std::find_if(entries.begin(), entries.end(), [&](const ManifestEntry& e) {
        return e.file.content == file_content && e.status != EntryStatus::deleted;
      });
      if (entry == entries.end()) continue;
      edit(*entry);
      write_entries(manifest, entries);
      write_list(std::move(list));
      return;
    }
    FAIL() << "no such entry";
  }
  void write_entries(ManifestFile& manifest, const std::vector<ManifestEntry>& entries) {
    const WrittenManifest written = write_manifest(entries, manifest.manifest_path, manifest.added_snapshot_id,
                                                   metadata.spec(manifest.partition_spec_id), metadata.schema(),
                                                   manifest.content, metadata.format_version);
    table.io->replace(manifest.manifest_path, written.bytes);
    ManifestFile next = written.file;
    next.manifest_path = manifest.manifest_path;
    next.manifest_length = static_cast<int64_t>(written.bytes.size());
    next.sequence_number = manifest.sequence_number;
    next.min_sequence_number = manifest.min_sequence_number;
    next.added_snapshot_id = manifest.added_snapshot_id;
    next.first_row_id = manifest.first_row_id;
    next.partition_spec_id = manifest.partition_spec_id;
    next.content = manifest.content;
    manifest = next;
  }
  // Replaces bytes of a file; its size stays.
  void damage(const std::string& path, size_t at_end, const std::string& bytes) {
    std::string content = table.io->read(path);
    content.replace(content.size() - at_end, bytes.size(), bytes);
    table.io->replace(path, content);
  }

  RealTable table;
  TableMetadata metadata;
};

struct Planted {
  const char* code;
  const char* what;
  int version;
  std::function<void(Patient&)> plant;
};

constexpr auto kData = FileContent::data;
constexpr auto kPositions = FileContent::position_deletes;
constexpr auto kEquality = FileContent::equality_deletes;

const std::vector<Planted>& planted() {
  static const std::vector<Planted> all = {
      // files
      {"file-missing", "a data file", 3, [](Patient& p) { p.table.io->remove(p.first_file().file_path); }},
      {"file-missing", "a delete file", 2, [](Patient& p) { p.table.io->remove(p.table.delete_files()[0].file_path); }},
      {"file-missing", "a manifest", 3, [](Patient& p) { p.table.io->remove(p.manifests()[0].manifest_path); }},
      {"file-missing", "a manifest list", 3, [](Patient& p) { p.table.io->remove(p.head().manifest_list); }},
      {"file-size-mismatch", "a data file that grew", 2,
       [](Patient& p) {
         const std::string path = p.first_file().file_path;
         p.table.io->replace(path, p.table.io->read(path) + "more");
       }},
      {"file-size-mismatch", "a manifest's length", 3,
       [](Patient& p) { p.edit_list([](auto& list) { list[0].manifest_length += 1; }); }},
      {"file-unreadable", "a footer", 3,
       [](Patient& p) { p.damage(p.first_file().file_path, 60, std::string(40, '\xee')); }},
      {"file-unreadable", "a deletion vector's checksum", 3,
       [](Patient& p) {
         const DataFile vector = p.table.delete_files()[0];
         p.damage(vector.file_path,
                  static_cast<size_t>(vector.file_size_bytes - *vector.content_offset - *vector.content_size_bytes) + 4,
                  "\xff\xff\xff\xff");
       }},
      {"manifest-list-unreadable", "a manifest list", 2,
       [](Patient& p) { p.table.io->replace(p.head().manifest_list, "Obj"); }},
      {"manifest-unreadable", "a manifest cut short", 3,
       [](Patient& p) {
         const std::string path = p.manifests()[0].manifest_path;
         p.table.io->replace(path, p.table.io->read(path).substr(0, 1500));
       }},
      // metadata
      {"last-column-id-too-low", "last-column-id", 3, [](Patient& p) { p.metadata.last_column_id = 2; }},
      {"column-id-reused", "a column id of another type", 2,
       [](Patient& p) {
         std::vector<Field> fields = p.metadata.schema().fields();
         fields[0].type = Type::primitive(TypeId::boolean_);
         p.metadata.schemas.push_back(Schema(fields, 7));
       }},
      {"column-name-duplicate", "a column named as a member of a struct", 2,
       [](Patient& p) {
         const auto text = Type::primitive(TypeId::string);
         std::vector<Field> fields = p.metadata.schema().fields();
         fields.push_back({.id = 101, .name = "a.b", .type = text});
         fields.push_back({.id = 102, .name = "a", .type = Type::struct_of({{.id = 103, .name = "b", .type = text}})});
         p.metadata.last_column_id = 103;
         p.metadata.schemas.push_back(Schema(fields, 7));
       }},
      {"type-needs-newer-version", "a v3 type in v2", 2,
       [](Patient& p) {
         std::vector<Field> fields = p.metadata.schema().fields();
         fields[2].type = Type::primitive(TypeId::timestamp_ns);
         fields[2].id = 9;
         p.metadata.last_column_id = 9;
         p.metadata.schemas.push_back(Schema(fields, 7));
       }},
      {"identifier-field-invalid", "an optional identifier", 2,
       [](Patient& p) { p.metadata.schemas.push_back(Schema(p.metadata.schema().fields(), 7, {1})); }},
      {"spec-source-invalid", "a spec of a dropped column", 2,
       [](Patient& p) {
         p.metadata.schemas.push_back(p.metadata.schema().select({"id", "text"}).with_id(7));
         p.metadata.current_schema_id = 7;
       }},
      {"sort-order-invalid", "a sort order of no column", 2,
       [](Patient& p) {
         SortOrder order{.order_id = 4, .fields = {}};
         order.fields.push_back({.transform = Transform::parse("identity"), .source_ids = {99}});
         p.metadata.sort_orders.push_back(order);
         p.metadata.default_sort_order_id = 4;
       }},
      {"partition-field-id-duplicate", "a spec with an id twice", 2,
       [](Patient& p) {
         PartitionSpec spec = p.metadata.spec();
         spec.spec_id = 5;
         spec.fields.push_back(spec.fields[0]);
         spec.fields[1].name = "again";
         p.metadata.partition_specs.push_back(spec);
       }},
      {"spec-duplicated", "a spec twice", 2,
       [](Patient& p) {
         PartitionSpec spec = p.metadata.spec();
         spec.spec_id = 5;
         p.metadata.partition_specs.push_back(spec);
       }},
      {"sequence-number-above-last", "last-sequence-number", 2,
       [](Patient& p) { p.metadata.last_sequence_number = 3; }},
      {"sequence-number-duplicate", "two equal sequence numbers", 2,
       [](Patient& p) { p.edit_snapshot(1, [](Snapshot& s) { s.sequence_number = 1; }); }},
      {"sequence-number-order", "a child older than its parent", 2,
       [](Patient& p) {
         p.edit_snapshot(0, [](Snapshot& s) { s.sequence_number = 2; });
         p.edit_snapshot(1, [](Snapshot& s) { s.sequence_number = 1; });
       }},
      {"snapshot-schema-missing", "a snapshot's schema", 2,
       [](Patient& p) { p.edit_snapshot(1, [](Snapshot& s) { s.schema_id = 44; }); }},
      {"operation-invalid", "a summary without operation", 2,
       [](Patient& p) { p.edit_snapshot(1, [](Snapshot& s) { s.summary.erase("operation"); }); }},
      {"ref-snapshot-missing", "a tag of a snapshot that is gone", 2,
       [](Patient& p) { p.metadata.refs["v1"].snapshot_id = 77; }},
      {"main-invalid", "main and the current snapshot", 2,
       [](Patient& p) { p.metadata.current_snapshot_id = p.metadata.snapshots[0].snapshot_id; }},
      {"ref-retention-invalid", "a tag that keeps snapshots", 2,
       [](Patient& p) { p.metadata.refs["v1"].min_snapshots_to_keep = 2; }},
      {"snapshot-log-order", "the snapshot log", 2,
       [](Patient& p) { p.metadata.snapshot_log[0].timestamp_ms += 3'600'000; }},
      {"snapshot-log-invalid", "a log that ends elsewhere", 2, [](Patient& p) { p.metadata.snapshot_log.pop_back(); }},
      {"next-row-id-too-low", "next-row-id", 3, [](Patient& p) { p.metadata.next_row_id -= 1; }},
      {"row-id-ranges-overlap", "two snapshots with the same row ids", 3,
       [](Patient& p) { p.edit_head([](Snapshot& s) { s.first_row_id = 0; }); }},
      {"row-ids-missing", "a snapshot without row ids", 3,
       [](Patient& p) { p.edit_snapshot(2, [](Snapshot& s) { s.first_row_id.reset(); }); }},
      {"statistics-mismatch", "a statistics file's footer", 2,
       [](Patient& p) {
         const std::string path = "mem://w/t/metadata/s.stats";
         auto out = p.table.io->create(path);
         PuffinWriter writer(out->stream(), path);
         PuffinBlob blob;
         blob.type = "apache-datasketches-theta-v1";
         blob.fields = {1};
         writer.add(blob, "sketch");
         const int64_t size_bytes = writer.finish({});
         out->close();
         p.metadata.statistics.push_back({{"snapshot-id", p.head().snapshot_id},
                                          {"statistics-path", path},
                                          {"file-size-in-bytes", size_bytes},
                                          {"file-footer-size-in-bytes", 3},
                                          {"blob-metadata", Json::array()}});
       }},
      {"file-missing", "a statistics file", 2,
       [](Patient& p) {
         p.metadata.statistics.push_back({{"snapshot-id", p.head().snapshot_id},
                                          {"statistics-path", "mem://w/t/metadata/none"},
                                          {"file-size-in-bytes", 1},
                                          {"file-footer-size-in-bytes", 1},
                                          {"blob-metadata", Json::array()}});
       }},
      // manifest lists
      {"manifest-counts-mismatch", "a manifest's row count", 3,
       [](Patient& p) { p.edit_list([](auto& list) { *list[0].added_rows_count += 1; }); }},
      {"manifest-summary-mismatch", "a summary's bounds", 3,
       [](Patient& p) {
         p.edit_list([](auto& list) {
           for (ManifestFile& manifest : list) (*manifest.partitions)[0].upper_bound = "A";
         });
       }},
      {"manifest-min-sequence-number", "a least sequence number above the files'", 2,
       [](Patient& p) { p.edit_list([&](auto& list) { list.back().min_sequence_number = 5; }); }},
      {"manifest-sequence-number", "a manifest younger than its snapshot", 2,
       [](Patient& p) { p.edit_list([](auto& list) { list[0].sequence_number = 50; }); }},
      {"manifest-spec-invalid", "a manifest of no spec", 2,
       [](Patient& p) { p.edit_list([](auto& list) { list[0].partition_spec_id = 9; }); }},
      {"manifest-duplicate", "a manifest twice", 2,
       [](Patient& p) { p.edit_list([](auto& list) { list.push_back(list[0]); }); }},
      {"manifest-content-mismatch", "deletes listed as data", 2,
       [](Patient& p) {
         p.edit_list([](auto& list) {
           for (ManifestFile& manifest : list) manifest.content = ManifestContent::data;
         });
       }},
      {"row-ids-missing", "a data manifest without row ids", 3,
       [](Patient& p) {
         auto list = p.manifests();
         Snapshot old = p.head();
         for (ManifestFile& manifest : list) manifest.first_row_id.reset();
         // A list of version 2 has no row ids.
         p.table.io->replace(p.head().manifest_list, write_manifest_list(list, old, 2, 0));
       }},
      {"summary-mismatch", "a total", 2,
       [](Patient& p) { p.edit_head([](Snapshot& s) { s.summary["total-records"] = "1"; }); }},
      // entries
      {"file-duplicate", "a file that is live twice", 2,
       [](Patient& p) {
         const std::string path = p.first_file().file_path;
         auto list = p.manifests();
         for (ManifestFile& manifest : list) {
           if (manifest.content != ManifestContent::data) continue;
           auto entries = read_manifest(p.table.io->read(manifest.manifest_path), manifest, p.metadata.spec(),
                                        p.metadata.schema(), false);
           entries.push_back(entries[0]);
           p.write_entries(manifest, entries);
           break;
         }
         p.write_list(std::move(list));
       }},
      {"entry-sequence-number", "a file younger than its manifest", 2,
       [](Patient& p) {
         p.edit_entry(kData, [](ManifestEntry& entry) {
           entry.status = EntryStatus::existing;
           entry.sequence_number = 40;
           entry.file_sequence_number = 40;
         });
       }},
      {"metrics-invalid", "column sizes beyond the file's", 2,
       [](Patient& p) { p.edit_entry(kData, [](ManifestEntry& entry) { entry.file.column_sizes[1] = 1 << 30; }); }},
      {"metrics-invalid", "more nulls than values", 2,
       [](Patient& p) { p.edit_entry(kData, [](ManifestEntry& entry) { entry.file.null_value_counts[1] = 99; }); }},
      {"split-offsets-invalid", "split offsets that run back", 2,
       [](Patient& p) { p.edit_entry(kData, [](ManifestEntry& entry) {
                          entry.file.split_offsets = {9, 4};
                        }); }},
      {"bounds-invalid", "a lower bound above the upper", 2,
       [](Patient& p) {
         p.edit_entry(kData, [](ManifestEntry& entry) {
           std::swap(entry.file.lower_bounds[3], entry.file.upper_bounds[3]);
           entry.file.lower_bounds[3] = "z";
           entry.file.upper_bounds[3] = "a";
         });
       }},
      {"partition-value-mismatch", "a file in another partition", 2,
       [](Patient& p) {
         p.edit_entry(kData, [](ManifestEntry& entry) { entry.file.partition = {Value(std::string("q"))}; });
       }},
      {"record-count-mismatch", "a record count", 3,
       [](Patient& p) {
         p.edit_entry(kData, [](ManifestEntry& entry) {
           entry.file.record_count += 1;
           for (auto& [id, count] : entry.file.value_counts) count += 1;
         });
       }},
      {"record-count-mismatch", "the number of rows in a footer", 2,
       [](Patient& p) {
         p.append_and_spoil_count([](const std::string& bytes) {  // the file's own number comes first
           uint32_t footer_size = 0;
           std::memcpy(&footer_size, bytes.data() + bytes.size() - 8, 4);
           return bytes.find(kCount, bytes.size() - 8 - footer_size);
         });
       }},
      {"file-unreadable", "the number of rows in a row group", 2,
       [](Patient& p) {
         p.append_and_spoil_count([](const std::string& bytes) { return bytes.rfind(kCount); });  // comes last
       }},
      {"null-count-mismatch", "a null count", 2,
       [](Patient& p) { p.edit_entry(kData, [](ManifestEntry& entry) { entry.file.null_value_counts[3] ^= 1; }); }},
      {"bound-mismatch", "a lower bound above a value", 2,
       [](Patient& p) {
         p.edit_entry(kData, [](ManifestEntry& entry) {
           const std::string bound = to_bytes(Value(int64_t{1000}), *Type::primitive(TypeId::long_));
           entry.file.lower_bounds[1] = entry.file.upper_bounds[1] = bound;
         });
       }},
      {"bound-mismatch", "an upper bound of strings below one", 2,
       [](Patient& p) {
         p.edit_entry(kData,
                      [](ManifestEntry& entry) { entry.file.lower_bounds[2] = entry.file.upper_bounds[2] = "A"; });
       }},
      // deletes
      {"equality-ids-invalid", "an equality id of no column", 2,
       [](Patient& p) { p.edit_entry(kEquality, [](ManifestEntry& entry) { entry.file.equality_ids = {88}; }); }},
      {"equality-ids-invalid", "an equality column that the file lacks", 2,
       [](Patient& p) { p.edit_entry(kEquality, [](ManifestEntry& entry) {
                          entry.file.equality_ids = {1, 3};
                        }); }},
      {"position-out-of-range", "a delete beyond the end", 2,
       [](Patient& p) {
         p.table.delete_positions({{p.first_file().file_path, {1000}}});
         p.metadata = *p.table.metadata();
       }},
      {"position-out-of-range", "a deletion vector beyond the end", 3,
       [](Patient& p) {
         p.table.delete_positions({{p.first_file().file_path, {1000}}});
         p.metadata = *p.table.metadata();
       }},
      {"delete-target-missing", "new position deletes of no file", 2,
       [](Patient& p) {
         DataFile ghost = p.first_file();
         ghost.file_path += ".ghost";
         PositionSet set;
         set.add(0);
         PositionDeleteWriter writer(p.table.io, p.metadata);
         writer.add(ghost, std::move(set));
         p.table.commit("delete", writer.finish());
         p.metadata = *p.table.metadata();
       }},
      {"delete-target-mismatch", "a position delete file's reference", 2,
       [](Patient& p) {
         p.edit_entry(kPositions, [&](ManifestEntry& entry) {
           entry.file.referenced_data_file = p.table.data_files().back().file_path;
         });
       }},
      {"deletion-vector-cardinality", "a deletion vector's count", 3,
       [](Patient& p) { p.edit_entry(kPositions, [](ManifestEntry& entry) { entry.file.record_count = 2; }); }},
      {"deletion-vector-invalid", "a deletion vector of another file", 3,
       [](Patient& p) {
         p.edit_entry(kPositions, [&](ManifestEntry& entry) {
           entry.file.referenced_data_file = p.table.data_files().back().file_path;
         });
       }},
      {"deletion-vector-duplicate", "two deletion vectors of a file", 3,
       [](Patient& p) {
         auto list = p.manifests();
         for (ManifestFile& manifest : list) {
           if (manifest.content != ManifestContent::deletes) continue;
           auto entries = read_manifest(p.table.io->read(manifest.manifest_path), manifest, p.metadata.spec(),
                                        p.metadata.schema(), false);
           if (entries[0].file.content != kPositions) continue;
           ManifestEntry second = entries[0];
           *second.file.content_offset += 1;
           entries.push_back(second);
           p.write_entries(manifest, entries);
           break;
         }
         p.write_list(std::move(list));
       }},
      // row ids
      {"row-id-ranges-overlap", "two files with the same row ids", 3,
       [](Patient& p) {
         p.edit_list([](auto& list) {
           for (ManifestFile& manifest : list)
             if (manifest.content == ManifestContent::data) manifest.first_row_id = 0;
         });
       }},
      {"row-id-duplicate", "two rows with the same id", 3,
       [](Patient& p) {
         p.edit_list([](auto& list) {
           for (ManifestFile& manifest : list)
             if (manifest.content == ManifestContent::data) manifest.first_row_id = 0;
         });
       }},
  };
  return all;
}

TEST(Verify, FindsNothingInATableThatFirnMade) {
  for (const int version : {2, 3}) {
    Patient patient(version);
    EXPECT_THAT(texts(patient.verify()), IsEmpty()) << version;
    EXPECT_THAT(texts(verify(patient.table.ops(), everything())), IsEmpty()) << version;
  }
}

TEST(Verify, FindsEachPlantedCorruption) {
  ASSERT_GE(planted().size(), 20u);
  for (const Planted& corruption : planted()) {
    SCOPED_TRACE(std::string(corruption.code) + ": " + corruption.what);
    Patient patient(corruption.version);
    corruption.plant(patient);
    const std::vector<Finding> findings = patient.verify();
    EXPECT_THAT(codes(findings), Contains(corruption.code)) << ::testing::PrintToString(texts(findings));
  }
}

TEST(Verify, FindsNothingAfterEveryKindOfChange) {
  for (const int version : {2, 3}) {
    SCOPED_TRACE(version);
    RealTable table({.version = version, .partition = {{"p"}}});
    table.append_ids({1, 2, 3}, "a");
    table.append_ids({4}, "b");
    table.change([](TableMetadata& next) {
      return update_schema(next, [](SchemaUpdate& update) {
        update.rename_column("text", "label");
        NewColumn added;
        added.name = "n";
        added.type = Type::primitive(TypeId::double_);
        added.place = ColumnPlace::first();
        update.add_column(added);
      });
    });
    table.append(R"([{"n": NaN, "id": 5, "p": "a"}, {"n": -0.0, "id": 6, "p": null}, {"n": null, "id": 7, "p": "a"}])");
    table.change([](TableMetadata& next) {
      return update_spec(next, {.remove = {"p"}, .add = {{.column = "id", .transform = "bucket[3]"}}});
    });
    table.append(R"([{"n": 1.5, "id": 8, "p": "a"}, {"n": 2.5, "id": -9, "p": "b"}])");
    table.delete_positions({{table.data_files()[0].file_path, {0}}});
    table.commit("delete", {}, {table.data_files()[1]});
    table.change([](TableMetadata& next) {
      return set_branch(next, "dev", {}, now_ms()) && set_sort_order(next, {{.column = "id"}});
    });
    table.append(R"([{"id": 10, "p": "c", "label": "ten"}, {"id": 11, "p": "c"}])", "dev");
    table.change([](TableMetadata& next) {
      return rollback_to_snapshot(next, *next.current_snapshot()->parent_snapshot_id, now_ms());
    });
    table.append(R"([{"id": 12, "p": "c"}])");
    EXPECT_THAT(texts(verify(table.ops(), everything())), IsEmpty());
  }
}

TEST(Verify, FindsNothingAfterAnUpgrade) {
  Patient patient(2);
  patient.table.change([](TableMetadata& next) { return upgrade_format_version(next, 3); });
  EXPECT_THAT(texts(verify(patient.table.ops(), everything())), IsEmpty());
  patient.table.append_ids({20, 21});
  EXPECT_THAT(texts(verify(patient.table.ops(), everything())), IsEmpty());
}

TEST(Verify, WarningsComeOnlyIfStrict) {
  Patient patient(2);
  patient.edit_head([](Snapshot& head) { head.summary["total-records"] = "1"; });
  VerifyOptions lax = everything();
  lax.strict = false;
  EXPECT_THAT(texts(verify(patient.metadata, patient.table.io, lax)), IsEmpty());
  const auto findings = patient.verify();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::warning);
}

TEST(Verify, LooksAtTheSnapshotsAskedForAlone) {
  Patient patient(2);
  patient.table.io->remove(patient.metadata.snapshots[2].manifest_list);
  VerifyOptions options;
  EXPECT_THAT(verify(patient.metadata, patient.table.io, options), IsEmpty()) << "no ref has it";
  options.all_snapshots = true;
  EXPECT_THAT(codes(verify(patient.metadata, patient.table.io, options)), Contains("file-missing"));
  options.all_snapshots = false;
  options.snapshot_id = patient.metadata.snapshots[2].snapshot_id;
  EXPECT_THAT(codes(verify(patient.metadata, patient.table.io, options)), Contains("file-missing"));
  options.snapshot_id = 5;
  EXPECT_THROW(verify(patient.metadata, patient.table.io, options), Error);
}

TEST(Verify, StopsWhereThereAreTooManyFindings) {
  Patient patient(2);
  for (const DataFile& file : patient.table.data_files()) patient.table.io->remove(file.file_path);
  VerifyOptions options;
  options.findings_max = 2;
  const auto findings = verify(patient.metadata, patient.table.io, options);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings.back().code, "too-many-findings");
}

TEST(Verify, DamagedMetadataAreAFinding) {
  Patient patient(2);
  const int64_t version = patient.table.ops().load().version;
  patient.table.io->replace(fmt::format("mem://w/t/metadata/v{}.metadata.json", version + 1), "{");
  EXPECT_THAT(codes(verify(patient.table.ops())), Contains("metadata-unreadable"));
}

TEST(Verify, MembersThatTheVersionRequiresAreMissed) {
  Patient patient(3);
  const LoadedTable head = patient.table.ops().load();
  Json json = parse_json(patient.table.io->read(head.metadata_path), "metadata");
  json.erase("next-row-id");
  json["last-partition-id"] = 999;
  json["metadata-log"][0]["metadata-file"] = "mem://w/t/metadata/gone.metadata.json";
  patient.table.io->replace(head.metadata_path, json.dump());
  const auto table = open_filesystem_table(patient.table.io, patient.table.location);
  const auto found = codes(verify(*table, everything()));
  EXPECT_THAT(found, Contains("member-missing"));
  EXPECT_THAT(found, Contains("last-partition-id-too-low"));
  EXPECT_THAT(found, Contains("metadata-log-file-missing"));
}

TEST(Verify, NoErrorInTheTablesOfOtherEngines) {
  const Json manifest = Json::parse(read_whole(conformance_root() / "manifest.json"));
  int num_tables = 0;
  for (const Json& entry : manifest["tables"]) {
    const auto folder = conformance_root() / entry["table"].get<std::string>();
    const auto path = folder / entry["metadata_file"].get<std::string>();
    SCOPED_TRACE(path.string());
    const TableMetadata metadata = parse_table_metadata(read_whole(path), path.string());
    const auto io =
        make_relocated_file_io(make_local_file_io(), "/warehouse/" + folder.filename().string(), folder.string());
    VerifyOptions options = everything();
    options.strict = false;
    const auto findings = verify(metadata, io, options);
    ++num_tables;
    if (folder.filename() == "nested_avro_v3") {  // its writer stored row id 0 in every row that it rewrote
      EXPECT_EQ(codes(findings), std::set<std::string>{"row-id-duplicate"});
    } else {
      EXPECT_THAT(texts(findings), IsEmpty());
    }
  }
  EXPECT_GT(num_tables, 40);
}

}  // namespace
}  // namespace firn::iceberg
