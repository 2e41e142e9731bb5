"""Prints what fastavro and PyIceberg read of a manifest list and its manifests, for other_engines_test.cc.

Usage: read_back.py LIST. One line a manifest, then one a file of it; the same from each reader must come out.
"""
import sys

import fastavro
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list


def text(value):
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def pairs(items):
    return {item["key"]: text(item["value"]) for item in items or []}


def by_fastavro(path):
    with open(path, "rb") as stream:
        manifests = list(fastavro.reader(stream))
    for manifest in manifests:
        yield (
            manifest["manifest_path"].rsplit("/", 1)[1], manifest["manifest_length"], manifest["partition_spec_id"],
            manifest["content"], manifest["sequence_number"], manifest["min_sequence_number"],
            manifest["added_snapshot_id"], manifest["added_files_count"], manifest["existing_rows_count"],
            [(s["contains_null"], s["contains_nan"], text(s["lower_bound"]), text(s["upper_bound"]))
             for s in manifest["partitions"]],
        )
        with open(manifest["manifest_path"], "rb") as stream:
            for entry in fastavro.reader(stream):
                file = entry["data_file"]
                yield (
                    entry["status"], entry["snapshot_id"], file["content"], file["file_path"], file["file_format"],
                    [text(value) for value in file["partition"].values()], file["record_count"],
                    file["file_size_in_bytes"], pairs(file["column_sizes"]), pairs(file["null_value_counts"]),
                    pairs(file["upper_bounds"]), file["split_offsets"], file["equality_ids"], file["sort_order_id"],
                )


def by_pyiceberg(path):
    io = PyArrowFileIO()
    for manifest in read_manifest_list(io.new_input(path)):
        yield (
            manifest.manifest_path.rsplit("/", 1)[1], manifest.manifest_length, manifest.partition_spec_id,
            int(manifest.content), manifest.sequence_number, manifest.min_sequence_number,
            manifest.added_snapshot_id, manifest.added_files_count, manifest.existing_rows_count,
            [(s.contains_null, s.contains_nan, text(s.lower_bound), text(s.upper_bound)) for s in manifest.partitions],
        )
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
            file = entry.data_file
            yield (
                int(entry.status), entry.snapshot_id, int(file.content), file.file_path, file.file_format.value,
                [text(file.partition[i]) for i in range(len(file.partition))], file.record_count,
                file.file_size_in_bytes,
                {k: text(v) for k, v in (file.column_sizes or {}).items()},
                {k: text(v) for k, v in (file.null_value_counts or {}).items()},
                {k: text(v) for k, v in (file.upper_bounds or {}).items()}, file.split_offsets, file.equality_ids,
                file.sort_order_id,
            )


for reader in (by_fastavro, by_pyiceberg):
    print(reader.__name__)
    for line in reader(sys.argv[1]):
        print(line)
